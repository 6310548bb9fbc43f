//! A problem record by record: the mean is the problem itself, the records differ.

use dpopt_oracle::{Constants, Convexity, Differentiable, Loss, TwiceDifferentiable};

use crate::problem::{Problem, ProblemError, SecondOrderProblem, in_range};
use crate::simulation::{WeightedError, WeightedRecords};

/// How one record differs from the problem.
#[derive(Debug, Clone, PartialEq)]
pub struct Tilt {
    /// s: the record has (1 + s) of the problem.
    pub share: f64,
    /// x: and <x, w> beside it.
    pub direction: Vec<f64>,
    /// a: and c cos(<a, w> + p) beside that; empty for none.
    pub wave: Vec<f64>,
    /// p.
    pub phase: f64,
}

impl Tilt {
    /// The linear part alone.
    #[must_use]
    pub fn linear(direction: Vec<f64>) -> Self {
        Self {
            share: 0.0,
            direction,
            wave: Vec::new(),
            phase: 0.0,
        }
    }

    /// Waves along so many unit directions, every other one near the first axis, with phases all over the circle: the same each time.
    #[must_use]
    pub fn waves(dim: usize, number: usize) -> Vec<Self> {
        // Multiples of irrational numbers, which are spread evenly.
        let golden = 0.5 * (5f64.sqrt() - 1.0);
        let spread = |i: usize, by: f64| (i as f64 * by).fract();
        let wave = |i: usize| {
            let entry = |j: usize| 2.0 * spread(i * dim + j + 1, 2f64.sqrt() * golden) - 1.0;
            let mut wave: Vec<f64> = (0..dim).map(entry).collect();
            if i.is_multiple_of(2) {
                wave[0] = 3.0;
            }
            let length = dpopt_linalg::norm(&wave);
            wave.iter_mut().for_each(|x| *x /= length);
            Self {
                wave,
                phase: std::f64::consts::TAU * spread(i + 1, golden),
                ..Self::linear(vec![0.0; dim])
            }
        };
        (0..number).map(wave).collect()
    }

    /// The opposite tilt: the mean of a record and its opposite is the problem, as
    /// cos(t + pi) = -cos t.
    #[must_use]
    pub fn opposite(&self) -> Self {
        Self {
            share: -self.share,
            direction: self.direction.iter().map(|x| -x).collect(),
            wave: self.wave.clone(),
            phase: self.phase + std::f64::consts::PI,
        }
    }
}

/// f(w; (s, x, a, p)) = (1 + s) F(w) + <x, w> + c cos(<a, w> + p), for a problem F.
///
/// # Constants
/// With |s| <= S, ||x|| <= X, ||a|| <= 1 for every record: L0 = (1 + S) L0(F) + X + c, L1 =
/// (1 + S) L1(F) + c, rho = (1 + S) rho(F) + c, C_F = (1 + S) C_F(F) + c, by the triangle inequality and |cos|, |sin| <= 1.
/// Where the shares, the directions and the waves have mean zero (as in
/// [`TiltedProblem::opposites`]) the mean loss over all records is F, exactly, and F0 is F's.
///
/// The bounds S, X and ||a|| <= 1 are public; records beyond them are clipped like any others. A
/// linear tilt alone makes differences of gradients free of sampling noise; the share and the wave
/// don't.
#[derive(Debug, Clone)]
pub struct TiltedProblem<P> {
    problem: P,
    share: f64,
    tilt: f64,
    wave: f64,
}

impl<P: Problem> TiltedProblem<P> {
    /// `problem` with bounds S < 1 and X on the tilts of records and the height c of their waves.
    ///
    /// # Errors
    /// [`ProblemError::OutOfRange`].
    pub fn new(problem: P, share: f64, tilt: f64, wave: f64) -> Result<Self, ProblemError> {
        for (name, value, high) in [
            ("share", share, 1.0),
            ("tilt", tilt, f64::MAX),
            ("wave", wave, f64::MAX),
        ] {
            in_range(name, value, 0.0, high)?;
        }
        Ok(Self {
            problem,
            share,
            tilt,
            wave,
        })
    }

    /// F.
    #[must_use]
    pub fn problem(&self) -> &P {
        &self.problem
    }

    /// Weighted records of these tilts and their opposites, `each` copies of each: their mean loss is F.
    ///
    /// # Errors
    /// [`WeightedError`].
    pub fn opposites(
        tilts: &[Tilt],
        each: u64,
    ) -> Result<WeightedRecords<Vec<Tilt>>, WeightedError> {
        let records: Vec<Tilt> = tilts
            .iter()
            .flat_map(|tilt| [tilt.clone(), tilt.opposite()])
            .collect();
        let multiplicities = vec![each; records.len()];
        WeightedRecords::new(records, multiplicities)
    }
}

impl<P: Problem + Sync> Loss for TiltedProblem<P> {
    type Records = Vec<Tilt>;

    fn dim(&self, _: &Vec<Tilt>) -> usize {
        self.problem.dim()
    }

    fn constants_on(&self, _: &Vec<Tilt>) -> Constants {
        let known = self.problem.constants();
        let most = 1.0 + self.share;
        let convex = known.weak_convexity == 0.0 && self.wave == 0.0;
        let convexity = if convex {
            Convexity::Convex
        } else {
            Convexity::Nonconvex
        };
        Constants::new(
            most * known.lipschitz + self.tilt + self.wave,
            most * known.smoothness + self.wave,
            known.initial_gap,
            convexity,
        )
        .with_hessian_lipschitz(most * known.hessian_lipschitz + self.wave)
        .with_hessian_frobenius(most * known.hessian_frobenius + self.wave)
    }

    fn value(&self, record: &Tilt, point: &[f64]) -> f64 {
        let mut value = (1.0 + record.share) * self.problem.value(point)
            + dpopt_linalg::dot(&record.direction, point);
        if !record.wave.is_empty() {
            value += self.wave * (dpopt_linalg::dot(&record.wave, point) + record.phase).cos();
        }
        value
    }
}

impl<P: Problem + Sync> Differentiable for TiltedProblem<P> {
    fn gradient(&self, record: &Tilt, point: &[f64], out: &mut [f64]) {
        let mut gradient = vec![0.0; point.len()];
        self.problem.gradient(point, &mut gradient);
        dpopt_linalg::add_scaled(out, 1.0 + record.share, &gradient);
        dpopt_linalg::add_scaled(out, 1.0, &record.direction);
        if !record.wave.is_empty() {
            let phase = dpopt_linalg::dot(&record.wave, point) + record.phase;
            dpopt_linalg::add_scaled(out, -self.wave * phase.sin(), &record.wave);
        }
    }
}

impl<P: SecondOrderProblem + Sync> TwiceDifferentiable for TiltedProblem<P> {
    fn hessian_vector(&self, record: &Tilt, point: &[f64], direction: &[f64], out: &mut [f64]) {
        let mut product = vec![0.0; point.len()];
        self.problem.hessian_vector(point, direction, &mut product);
        dpopt_linalg::add_scaled(out, 1.0 + record.share, &product);
        if !record.wave.is_empty() {
            let phase = dpopt_linalg::dot(&record.wave, point) + record.phase;
            let along = dpopt_linalg::dot(&record.wave, direction);
            dpopt_linalg::add_scaled(out, -self.wave * phase.cos() * along, &record.wave);
        }
    }
}
