//! Ticks, axes and numbers for people.

/// Multiplies an integer by 10^exponent with one rounding.
fn decimal(units: f64, exponent: i32) -> f64 {
    if exponent < 0 {
        units / 10f64.powi(-exponent)
    } else {
        units * 10f64.powi(exponent)
    }
}

/// Multiples of 1, 2 or 5 times a power of ten in `[lo, hi]`, about `target` of them and never
/// more than `2 * target + 1`. With `whole`, integers only.
fn linear_ticks(lo: f64, hi: f64, target: usize, whole: bool) -> Vec<f64> {
    if !(lo.is_finite() && hi.is_finite() && lo <= hi && target > 0) {
        return Vec::new();
    }
    let raw = (hi - lo) / target as f64;
    let mut exponent = if raw > 0.0 {
        raw.log10().floor() as i32
    } else {
        0
    };
    let fits = |units: &f64| decimal(*units, exponent) >= raw;
    let mut units = [1.0, 2.0, 5.0].into_iter().find(fits).unwrap_or(10.0);
    if whole && exponent < 0 {
        (units, exponent) = (1.0, 0);
    }
    let step = decimal(units, exponent);
    let (first, last) = ((lo / step).ceil(), (hi / step).floor());
    if !(step > 0.0 && step.is_finite() && last - first <= 2.0 * target as f64) {
        return Vec::new();
    }
    let count = (last - first + 1.0).max(0.0) as usize;
    (0..count)
        .map(|k| decimal((first + k as f64) * units, exponent))
        .filter(|tick| (lo..=hi).contains(tick))
        .collect()
}

/// Ticks for a logarithmic axis: 1-2-5 in each decade, or whole decades when those would be too
/// many, or 1-2-5 steps of the value itself when the range is narrow.
fn log_ticks(lo: f64, hi: f64, target: usize) -> Vec<f64> {
    if !(lo > 0.0 && hi.is_finite() && lo <= hi && target > 0) {
        return Vec::new();
    }
    let (first, last) = (lo.log10().floor() as i32, hi.log10().ceil() as i32);
    let inside = |units: f64, exponent: i32| {
        let tick = decimal(units, exponent);
        (lo <= tick && tick <= hi).then_some(tick)
    };
    let fine: Vec<f64> = (first..=last)
        .flat_map(|e| [1.0, 2.0, 5.0].map(|units| inside(units, e)))
        .flatten()
        .collect();
    if fine.len() <= target {
        return if fine.len() < 3 {
            linear_ticks(lo, hi, target.div_ceil(2), false)
        } else {
            fine
        };
    }
    let decades: Vec<f64> = (first..=last).filter_map(|e| inside(1.0, e)).collect();
    if decades.len() < 2 {
        return fine;
    }
    let stride = decades.len().div_ceil(target);
    decades.into_iter().step_by(stride).collect()
}

/// What an axis measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Numbers, evenly, with ticks at whole ones.
    Whole,
    /// Shares from 0 to 1, in per cent.
    Share,
    /// Positive numbers by their logarithm; others have no place.
    Log,
}

/// Maps values to pixels.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Axis {
    scale: Scale,
    lo: f64,
    hi: f64,
    from: f64,
    to: f64,
}

impl Scale {
    fn has(self, value: f64) -> bool {
        value.is_finite() && (self != Scale::Log || drawable(value))
    }

    /// The axis of `values` from one pixel to another; `None` where no value has a place.
    pub(crate) fn axis(
        self,
        values: impl Iterator<Item = f64>,
        from: f64,
        to: f64,
    ) -> Option<Axis> {
        let ends = (f64::INFINITY, f64::NEG_INFINITY);
        let values = values.filter(|v| self.has(*v));
        let (lo, hi) = values.fold(ends, |(lo, hi), v| (lo.min(v), hi.max(v)));
        if !(lo <= hi) {
            return None;
        }
        let (lo, hi) = match self {
            Scale::Share => (0.0, 1.0),
            Scale::Whole if lo == hi => (lo - 0.5, hi + 0.5),
            Scale::Whole => (lo, hi),
            Scale::Log => {
                let air = (hi / lo).powf(0.06).clamp(1.12, 10.0);
                ((lo / air).max(f64::MIN_POSITIVE), (hi * air).min(f64::MAX))
            }
        };
        let scale = self;
        Some(Axis {
            scale,
            lo,
            hi,
            from,
            to,
        })
    }
}

impl Axis {
    /// Pixels and labels of about `target` ticks.
    pub(crate) fn ticks(&self, target: usize) -> Vec<(f64, String)> {
        let ticks = match self.scale {
            Scale::Log => log_ticks(self.lo, self.hi, target),
            scale => linear_ticks(self.lo, self.hi, target, scale == Scale::Whole),
        };
        let label = |tick| match self.scale {
            Scale::Share => format!("{}%", number(100.0 * tick)),
            Scale::Whole | Scale::Log => number(tick),
        };
        let placed = ticks.into_iter();
        placed
            .filter_map(|tick| Some((self.at(tick)?, label(tick))))
            .collect()
    }

    /// The pixel of `value`; `None` where the axis has no place for it.
    pub(crate) fn at(&self, value: f64) -> Option<f64> {
        if !self.scale.has(value) {
            return None;
        }
        let [value, lo, hi] = [value, self.lo, self.hi].map(|v| match self.scale {
            Scale::Log => v.log10(),
            Scale::Whole | Scale::Share => v,
        });
        let pixel = self.from + (value - lo) / (hi - lo) * (self.to - self.from);
        pixel.is_finite().then_some(pixel)
    }
}

/// Whether a logarithmic axis has a place for `value`. Subnormal numbers count as zero.
#[must_use]
pub fn drawable(value: f64) -> bool {
    value.is_normal() && value > 0.0
}

/// A number to three significant digits (integers below a million in full).
#[must_use]
pub fn number(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e6 {
        return plain(value, 0);
    }
    rounded(value, 3)
}

/// A cost: four significant digits, never less than `value`.
#[must_use]
pub fn at_least(value: f64) -> String {
    if !value.is_finite() || value <= 0.0 {
        return number(value);
    }
    let nearest = format!("{value:.3e}");
    if nearest.parse::<f64>().is_ok_and(|shown| shown >= value) {
        return rounded(value, 4);
    }
    let unit = 10f64.powi(value.log10().floor() as i32 - 3);
    rounded(value + unit, 4)
}

/// A probability in per cent, rounded up to a tenth; below 1 % to a hundredth.
#[must_use]
pub fn percent_at_least(value: f64) -> String {
    let digits = if value < 0.01 { 1e4 } else { 1e3 };
    // A multiple of the unit stays one in spite of its rounding.
    let up = (value * digits * (1.0 - 1e-12)).ceil() / digits;
    format!("{}\u{a0}%", ((up * 1e6).round() / 1e4).min(100.0))
}

/// A number to `digits` significant digits, with a power of ten outside of [0.001, 1e6).
fn rounded(value: f64, digits: usize) -> String {
    if value.is_nan() {
        return "not a number".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "∞" } else { "−∞" }.to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let text = format!("{value:.*e}", digits - 1);
    let Some((mantissa, exponent)) = text.split_once('e') else {
        return text;
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-3..6).contains(&exponent) {
        let decimals = (digits as i32 - 1 - exponent).max(0) as usize;
        return plain(value, decimals);
    }
    let mantissa = trim(mantissa).replace('-', "−");
    let power = format!("10{}", superscript(exponent));
    match mantissa.as_str() {
        "1" => power,
        "−1" => format!("−{power}"),
        _ => format!("{mantissa}×{power}"),
    }
}

/// Without a power of ten, with commas between thousands.
fn plain(value: f64, decimals: usize) -> String {
    let text = format!("{:.decimals$}", value.abs());
    let text = trim(&text);
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut out = String::new();
    if value < 0.0 {
        out.push('−');
    }
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if !fraction.is_empty() {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

fn trim(text: &str) -> &str {
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        text
    }
}

fn superscript(exponent: i32) -> String {
    let digits = exponent.to_string();
    let raised = digits.chars().map(|c| match c.to_digit(10) {
        Some(digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹".chars().nth(digit as usize).unwrap_or(c),
        None => '⁻',
    });
    raised.collect()
}

/// Seconds as a person says them.
#[must_use]
pub fn duration(seconds: f64) -> String {
    if !(seconds.is_finite() && seconds >= 0.0) {
        return "unknown".to_owned();
    }
    if seconds < 0.95 {
        return format!("{:.0}\u{a0}ms", (1000.0 * seconds).max(1.0));
    }
    if seconds < 99.95 {
        return format!("{seconds:.1}\u{a0}s");
    }
    let minutes = (seconds / 60.0).floor();
    if minutes < 100.0 {
        format!("{minutes}\u{a0}min {:.0}\u{a0}s", (seconds % 60.0).floor())
    } else {
        format!(
            "{}\u{a0}h {:.0}\u{a0}min",
            (minutes / 60.0).floor(),
            minutes % 60.0
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_two_five(step: f64) -> bool {
        let mantissa = step / 10f64.powf(step.log10().floor());
        [1.0, 2.0, 5.0, 10.0]
            .iter()
            .any(|m| (mantissa / m - 1.0).abs() < 1e-6)
    }

    #[test]
    fn linear_ticks_are_even_inside_and_one_two_five() {
        for exponent in -12..12 {
            for span in [0.3, 1.0, 1.7, 4.9, 9.9] {
                let (lo, hi) = (0.37, 0.37 + span);
                let (lo, hi) = (lo * 10f64.powi(exponent), hi * 10f64.powi(exponent));
                let ticks = linear_ticks(lo, hi, 6, false);
                assert!((2..=13).contains(&ticks.len()), "{lo} {hi} {ticks:?}");
                assert!(ticks.iter().all(|t| (lo..=hi).contains(t)));
                let step = ticks[1] - ticks[0];
                assert!(one_two_five(step), "{step}");
                for pair in ticks.windows(2) {
                    assert!(((pair[1] - pair[0]) / step - 1.0).abs() < 1e-6);
                }
            }
        }
    }

    #[test]
    fn steps_get_whole_ticks() {
        assert_eq!(linear_ticks(0.0, 3.0, 6, true), [0.0, 1.0, 2.0, 3.0]);
        assert_eq!(linear_ticks(6.5, 7.5, 6, true), [7.0]);
        assert_eq!(
            linear_ticks(0.0, 1999.0, 5, true),
            [0.0, 500.0, 1000.0, 1500.0]
        );
        let huge = linear_ticks(0.0, u64::MAX as f64, 5, true);
        assert!((2..=11).contains(&huge.len()), "{huge:?}");
    }

    #[test]
    fn log_ticks_stay_inside_and_few() {
        for (lo, hi) in [
            (1e-3, 1.0),
            (0.9, 1.1),
            (0.31, 0.33),
            (1e-9, 1e9),
            (1e-300, 1e300),
            (0.004, 0.06),
            (3.0, 40.0),
        ] {
            let ticks = log_ticks(lo, hi, 8);
            assert!((2..=9).contains(&ticks.len()), "{lo} {hi} {ticks:?}");
            assert!(ticks.iter().all(|t| (lo..=hi).contains(t)), "{ticks:?}");
            assert!(ticks.windows(2).all(|p| p[0] < p[1]));
        }
        assert_eq!(log_ticks(0.004, 0.06, 8), [0.005, 0.01, 0.02, 0.05]);
    }

    #[test]
    fn ticks_of_nonsense_are_none() {
        for (lo, hi) in [
            (f64::NAN, 1.0),
            (0.0, f64::INFINITY),
            (2.0, 1.0),
            (f64::NEG_INFINITY, 0.0),
        ] {
            assert!(linear_ticks(lo, hi, 6, false).is_empty());
            assert!(log_ticks(lo, hi, 6).is_empty());
        }
        assert!(log_ticks(0.0, 1.0, 6).is_empty());
        let none = Scale::Log.axis([0.0, f64::NAN, -1.0].into_iter(), 0.0, 1.0);
        assert!(none.is_none());
    }

    #[test]
    fn axes_survive_the_ends_of_the_numbers() {
        let ends = [f64::MIN_POSITIVE, f64::MAX].into_iter();
        let axis = Scale::Log.axis(ends, 0.0, 100.0).unwrap();
        let (low, high) = (axis.at(f64::MIN_POSITIVE), axis.at(f64::MAX));
        assert!((0.0..=100.0).contains(&low.unwrap()));
        assert!((0.0..=100.0).contains(&high.unwrap()));
        assert_eq!(axis.at(0.0), None);
        assert!(axis.ticks(8).len() >= 2);
        let one = Scale::Whole.axis([3.0].into_iter(), 0.0, 10.0).unwrap();
        assert_eq!(one.at(3.0), Some(5.0));
    }

    #[test]
    fn numbers_read_well() {
        for (value, text) in [
            (0.0, "0"),
            (1.0, "1"),
            (2000.0, "2,000"),
            (199_523.0, "199,523"),
            (0.012_34, "0.0123"),
            (0.5, "0.5"),
            (1e-6, "10⁻⁶"),
            (2.5e-7, "2.5×10⁻⁷"),
            (3e12, "3×10¹²"),
            (-0.25, "−0.25"),
            (-1e-9, "−10⁻⁹"),
            (f64::NAN, "not a number"),
            (f64::INFINITY, "∞"),
            (12.34, "12.3"),
            (0.001, "0.001"),
        ] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn costs_are_never_shown_smaller_than_they_are() {
        for (value, text) in [
            (1.0, "1"),
            (0.3, "0.3"),
            (1.000_01, "1.001"),
            (0.999_999_9, "1"),
            (0.123_41, "0.1235"),
            (9.9999, "10"),
            (1e-6, "10⁻⁶"),
            (1.000_01e-6, "1.001×10⁻⁶"),
        ] {
            assert_eq!(at_least(value), text, "{value}");
        }
        for (share, shown) in [
            (0.135_92, "13.6"),
            (0.135_1, "13.6"),
            (0.05, "5"),
            (0.001, "0.1"),
            (0.73101, "73.2"),
            (0.731, "73.1"),
            (0.002_711, "0.28"),
            (0.999_99, "100"),
        ] {
            assert_eq!(percent_at_least(share), format!("{shown}\u{a0}%"));
        }
    }

    #[test]
    fn durations_read_well() {
        assert_eq!(duration(0.0123), "12\u{a0}ms");
        assert_eq!(duration(3.21), "3.2\u{a0}s");
        assert_eq!(duration(200.0), "3\u{a0}min 20\u{a0}s");
        assert_eq!(duration(f64::NAN), "unknown");
    }
}
