//! The exponent of a measured power law.

use serde::Serialize;

/// A slope could not be fitted.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FitError {
    /// The two lists differ in length.
    #[error("{x} arguments but {y} values")]
    Lengths {
        /// Arguments.
        x: usize,
        /// Values.
        y: usize,
    },
    /// Fewer than three points leave no error to estimate.
    #[error("a slope with an interval needs at least 3 points, got {0}")]
    TooFewPoints(usize),
    /// A number has no logarithm.
    #[error("{0} has no finite logarithm")]
    NotPositive(f64),
    /// All arguments are equal.
    #[error("all arguments are equal")]
    OneArgument,
    /// The confidence is not strictly between 0 and 1.
    #[error("the confidence must be above 0 and below 1, got {0}")]
    Confidence(f64),
}

/// y = C x^slope, by least squares in logarithms.
///
/// # Formula
/// With X = ln x and Y = ln y: slope = S_XY/S_XX, standard error
/// sqrt(sum of squared residuals/((k - 2) S_XX)), interval slope +- t standard errors, with t the
/// quantile of Student's distribution with k - 2 degrees of freedom. The interval is exact for
/// independent normal residuals of one variance. It says how straight the points lie, not
/// whether a power law holds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LogLogFit {
    /// The exponent.
    pub slope: f64,
    /// ln C.
    pub intercept: f64,
    /// Standard error of the exponent.
    pub standard_error: f64,
    /// Lower end of the confidence interval of the exponent.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl LogLogFit {
    /// Fits the exponent; the interval has probability `confidence`.
    ///
    /// # Shapes
    /// `x` and `y`: one number per point, at least three points.
    ///
    /// # Errors
    /// [`FitError`].
    pub fn new(x: &[f64], y: &[f64], confidence: f64) -> Result<Self, FitError> {
        if x.len() != y.len() {
            return Err(FitError::Lengths {
                x: x.len(),
                y: y.len(),
            });
        }
        if x.len() < 3 {
            return Err(FitError::TooFewPoints(x.len()));
        }
        if !(confidence > 0.0 && confidence < 1.0) {
            return Err(FitError::Confidence(confidence));
        }
        if let Some(bad) = x.iter().chain(y).find(|v| !(**v > 0.0 && v.is_finite())) {
            return Err(FitError::NotPositive(*bad));
        }
        let points = x.len() as f64;
        let mean = |v: &[f64]| v.iter().map(|v| v.ln()).sum::<f64>() / points;
        let (mean_x, mean_y) = (mean(x), mean(y));
        let (mut sxx, mut sxy) = (0.0, 0.0);
        for (x, y) in x.iter().zip(y) {
            let (dx, dy) = (x.ln() - mean_x, y.ln() - mean_y);
            sxx += dx * dx;
            sxy += dx * dy;
        }
        if x.iter().all(|v| *v == x[0]) {
            return Err(FitError::OneArgument);
        }
        let slope = sxy / sxx;
        let intercept = mean_y - slope * mean_x;
        let residuals: f64 = x
            .iter()
            .zip(y)
            .map(|(x, y)| (y.ln() - intercept - slope * x.ln()).powi(2))
            .sum();
        let standard_error = (residuals / ((points - 2.0) * sxx)).sqrt();
        let margin = student_quantile(confidence, x.len() - 2) * standard_error;
        Ok(Self {
            slope,
            intercept,
            standard_error,
            low: slope - margin,
            high: slope + margin,
        })
    }
}

/// P(|t| <= x) for Student's distribution with `freedom` degrees of freedom.
///
/// Source: Abramowitz and Stegun, 26.7.3 and 26.7.4.
fn student_central(x: f64, freedom: usize) -> f64 {
    let theta = (x / (freedom as f64).sqrt()).atan();
    let (sin, cos) = theta.sin_cos();
    let mut total = 0.0;
    if freedom % 2 == 1 {
        // cos + 2/3 cos^3 + (2*4)/(3*5) cos^5 + ... up to cos^(freedom - 2).
        let mut term = cos;
        for power in (1..freedom.saturating_sub(1)).step_by(2) {
            total += term;
            term *= cos * cos * (power + 1) as f64 / (power + 2) as f64;
        }
        std::f64::consts::FRAC_2_PI * (theta + sin * total)
    } else {
        // 1 + 1/2 cos^2 + (1*3)/(2*4) cos^4 + ... up to cos^(freedom - 2).
        let mut term = 1.0;
        for power in (0..freedom - 1).step_by(2) {
            total += term;
            term *= cos * cos * (power + 1) as f64 / (power + 2) as f64;
        }
        sin * total
    }
}

/// The x with P(|t| <= x) = `confidence`.
fn student_quantile(confidence: f64, freedom: usize) -> f64 {
    let mut high = 1.0;
    while student_central(high, freedom) < confidence && high < 1e300 {
        high *= 2.0;
    }
    let mut low = 0.0;
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if student_central(middle, freedom) < confidence {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_agree_with_tables() {
        // Two-sided Student quantiles from printed tables.
        for (confidence, freedom, expected) in [
            (0.95, 1, 12.7062),
            (0.95, 2, 4.30265),
            (0.95, 3, 3.18245),
            (0.95, 4, 2.77645),
            (0.95, 5, 2.57058),
            (0.99, 3, 5.84091),
            (0.99, 10, 3.16927),
            (0.95, 30, 2.04227),
            (0.90, 7, 1.89458),
        ] {
            let found = student_quantile(confidence, freedom);
            assert!((found / expected - 1.0).abs() < 1e-5, "{freedom} {found}");
        }
    }

    #[test]
    fn a_power_law_is_recovered() {
        let x = [1e3, 1e4, 1e5, 1e6];
        let y = x.map(|x: f64| 7.0 * x.powf(-2.0 / 3.0));
        let fit = LogLogFit::new(&x, &y, 0.95).unwrap();
        assert!((fit.slope + 2.0 / 3.0).abs() < 1e-12 && fit.standard_error < 1e-12);
        assert!((fit.intercept - 7f64.ln()).abs() < 1e-10);
        assert!(fit.low <= fit.slope && fit.slope <= fit.high);
    }

    #[test]
    fn the_interval_is_that_of_the_textbook() {
        // ln x = 0, 1, 2, 3 and ln y = 0, 1, 1, 2: S_XX = 5, S_XY = 3, residual squares 0.2.
        let x = [0.0, 1.0, 2.0, 3.0].map(f64::exp);
        let y = [0.0, 1.0, 1.0, 2.0].map(f64::exp);
        let fit = LogLogFit::new(&x, &y, 0.95).unwrap();
        assert!((fit.slope - 0.6).abs() < 1e-12);
        assert!((fit.standard_error - (0.2f64 / 10.0).sqrt()).abs() < 1e-12);
        assert!((fit.high - fit.slope - 4.30265 * fit.standard_error).abs() < 1e-5);
    }

    #[test]
    fn what_has_no_slope_is_an_error() {
        assert_eq!(
            LogLogFit::new(&[1.0, 2.0], &[1.0, 2.0], 0.9),
            Err(FitError::TooFewPoints(2))
        );
        let three = [1.0, 2.0, 3.0];
        assert_eq!(
            LogLogFit::new(&three, &[1.0, 0.0, 2.0], 0.9),
            Err(FitError::NotPositive(0.0))
        );
        assert_eq!(
            LogLogFit::new(&[2.0; 3], &three, 0.9),
            Err(FitError::OneArgument)
        );
        assert_eq!(
            LogLogFit::new(&three, &three, 1.0),
            Err(FitError::Confidence(1.0))
        );
        assert!(LogLogFit::new(&three, &three[..2], 0.9).is_err());
    }
}
