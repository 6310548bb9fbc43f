//! The logistic function of many numbers at once.

use dpopt_lanes::{Kernel, LANES, Lanes, dispatch};

/// Arguments below this are raised to it: the exponential stays a normal number.
const LOWEST: f64 = -708.0;
/// 1.5 * 2^52: adding it rounds to an integer, which the low bits then hold.
const MAGIC: f64 = 6_755_399_441_055_744.0;
/// The first 33 bits of ln 2, so that its product with an exponent is exact.
const LN_2_HIGH: f64 = f64::from_bits(0x3fe6_2e42_fee0_0000);
/// ln 2 less [`LN_2_HIGH`].
const LN_2_LOW: f64 = f64::from_bits(0x3dea_39ef_3579_3c76);
/// 1/2!, 1/3!, ..., 1/13!: the Taylor series of (e^r - 1 - r) / r^2. The first term left out is below
/// 2^-57 of e^r - 1 for |r| <= ln(2)/2.
const SERIES: [f64; 12] = [
    1.0 / 2.0,
    1.0 / 6.0,
    1.0 / 24.0,
    1.0 / 120.0,
    1.0 / 720.0,
    1.0 / 5_040.0,
    1.0 / 40_320.0,
    1.0 / 362_880.0,
    1.0 / 3_628_800.0,
    1.0 / 39_916_800.0,
    1.0 / 479_001_600.0,
    1.0 / 6_227_020_800.0,
];

/// 1/3, 1/5, ..., 1/21: the series of (artanh(s)/s - 1)/s^2 in s^2. The first term left out is below 2^-57 of artanh(s) for
/// |s| <= (sqrt(2) - 1)/(sqrt(2) + 1).
const ARTANH: [f64; 10] = [
    1.0 / 3.0,
    1.0 / 5.0,
    1.0 / 7.0,
    1.0 / 9.0,
    1.0 / 11.0,
    1.0 / 13.0,
    1.0 / 15.0,
    1.0 / 17.0,
    1.0 / 19.0,
    1.0 / 21.0,
];

/// Replaces every number z by 1 / (1 + e^-z).
///
/// # Accuracy
/// Within 4 units in the last place where z >= -708; below that the result is at most 2^-1021. NaN
/// stays NaN. A result depends on its argument alone, not on the other numbers or on its
/// place among them.
pub fn logistic(values: &mut [f64]) {
    dispatch(Logistic(values));
}

/// Replaces every number z by 1 / (1 + e^-(z + dz)) - 1 / (1 + e^-z), without cancellation.
///
/// # Formula
/// With h the larger and l the smaller of z and z + dz: the sign of dz times
/// (1 - e^-|dz|) / ((1 + e^-h) (1 + e^l)).
///
/// # Accuracy
/// Within 12 units in the last place of that formula with z + dz rounded once, where h >= -708 and
/// l <= 708; elsewhere the result is at most 2^-1020. NaN stays NaN. A result depends on its two arguments
/// alone.
///
/// # Shapes
/// `values` and `displacements` have the same length; the shorter one decides otherwise.
pub fn logistic_changes(values: &mut [f64], displacements: &[f64]) {
    dispatch(Changes(values, displacements));
}

/// Replaces every number z by 1 / (1 + e^-z), and writes 1 / (1 + e^z) to `others`, both without cancellation.
///
/// # Accuracy
/// As [`logistic`], of z and of -z.
///
/// # Shapes
/// As [`logistic_changes`].
pub fn logistic_pairs(values: &mut [f64], others: &mut [f64]) {
    dispatch(Pairs(values, others));
}

/// Replaces every margin m by 1 / (1 + e^m), and writes the logistic loss ln(1 + e^-m) to `losses`.
///
/// # Accuracy
/// The first as [`logistic`] of -m. Losses are within 4 units in the last place where m <= 708, and at most 2^-1021 above.
///
/// # Shapes
/// As [`logistic_changes`].
pub fn logistic_losses(margins: &mut [f64], losses: &mut [f64]) {
    dispatch(Losses(margins, losses));
}

struct Logistic<'a>(&'a mut [f64]);

impl Kernel for Logistic<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let (chunks, rest) = self.0.as_chunks_mut::<LANES>();
        for chunk in chunks {
            logistic_of_all(lanes, chunk);
        }
        if !rest.is_empty() {
            let mut last = [0.0; LANES];
            last[..rest.len()].copy_from_slice(rest);
            logistic_of_all(lanes, &mut last);
            rest.copy_from_slice(&last[..rest.len()]);
        }
    }
}

struct Changes<'a>(&'a mut [f64], &'a [f64]);

impl Kernel for Changes<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let count = self.0.len().min(self.1.len());
        let (values, rest) = self.0[..count].as_chunks_mut::<LANES>();
        let (displacements, last) = self.1[..count].as_chunks::<LANES>();
        for (values, displacements) in values.iter_mut().zip(displacements) {
            changes_of(lanes, values, *displacements);
        }
        if !rest.is_empty() {
            let (mut z, mut dz) = ([0.0; LANES], [0.0; LANES]);
            z[..rest.len()].copy_from_slice(rest);
            dz[..rest.len()].copy_from_slice(last);
            changes_of(lanes, &mut z, dz);
            rest.copy_from_slice(&z[..rest.len()]);
        }
    }
}

struct Pairs<'a>(&'a mut [f64], &'a mut [f64]);

impl Kernel for Pairs<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        in_pairs(self.0, self.1, |z| {
            let e = exponential_of(lanes, -z.abs());
            let (small, large) = (e / (1.0 + e), 1.0 / (1.0 + e));
            if z < 0.0 {
                (small, large)
            } else {
                (large, small)
            }
        });
    }
}

struct Losses<'a>(&'a mut [f64], &'a mut [f64]);

impl Kernel for Losses<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        in_pairs(self.0, self.1, |margin| {
            let e = exponential_of(lanes, -margin.abs());
            let slope = (if margin > 0.0 { e } else { 1.0 }) / (1.0 + e);
            // Where the margin is no number the second term is none.
            let linear = if margin < 0.0 { -margin } else { 0.0 };
            (slope, linear + log_of_one_and(lanes, e))
        });
    }
}

/// Replaces each value by the first of what `of` makes of it, and writes the second beside.
#[inline(always)]
fn in_pairs(values: &mut [f64], beside: &mut [f64], of: impl Fn(f64) -> (f64, f64)) {
    let count = values.len().min(beside.len());
    let (values, rest) = values[..count].as_chunks_mut::<LANES>();
    let (beside, last) = beside[..count].as_chunks_mut::<LANES>();
    for (values, beside) in values.iter_mut().zip(beside) {
        // Copies, which the compiler knows to be apart.
        let (all, mut first, mut second) = (*values, [0.0; LANES], [0.0; LANES]);
        for lane in 0..LANES {
            (first[lane], second[lane]) = of(all[lane]);
        }
        (*values, *beside) = (first, second);
    }
    if !rest.is_empty() {
        let (mut value, mut other) = ([0.0; LANES], [0.0; LANES]);
        value[..rest.len()].copy_from_slice(rest);
        for (value, other) in value.iter_mut().zip(&mut other) {
            (*value, *other) = of(*value);
        }
        rest.copy_from_slice(&value[..rest.len()]);
        last.copy_from_slice(&other[..last.len()]);
    }
}

#[inline(always)]
fn logistic_of_all<L: Lanes>(lanes: L, all: &mut [f64; LANES]) {
    for z in all {
        *z = logistic_of(lanes, *z);
    }
}

#[inline(always)]
fn changes_of<L: Lanes>(lanes: L, values: &mut [f64; LANES], displacements: [f64; LANES]) {
    // A copy, which the compiler knows to be apart.
    let z = *values;
    for lane in 0..LANES {
        values[lane] = change_of(lanes, z[lane], displacements[lane]);
    }
}

#[inline(always)]
fn logistic_of<L: Lanes>(lanes: L, z: f64) -> f64 {
    let e = exponential_of(lanes, -z.abs());
    let above = if z < 0.0 { e } else { 1.0 };
    above / (1.0 + e)
}

#[inline(always)]
fn change_of<L: Lanes>(lanes: L, z: f64, dz: f64) -> f64 {
    let moved = z + dz;
    let low = if dz < 0.0 { moved } else { z };
    let high = if dz < 0.0 { z } else { moved };
    let (power, less_one) = exponential(lanes, -dz.abs());
    // 1 - e^-|dz|, which does not cancel where the power is 1.
    let gap = lanes.mul_add_one(-power, less_one, 1.0 - power);
    let size = gap * logistic_of(lanes, high) * logistic_of(lanes, -low);
    size.copysign(dz)
}

/// e^x for x <= 0.
#[inline(always)]
fn exponential_of<L: Lanes>(lanes: L, x: f64) -> f64 {
    let (power, less_one) = exponential(lanes, x);
    lanes.mul_add_one(power, less_one, power)
}

/// ln(1 + e) for e from 0 to 1: 2 artanh(s) with s = e/(2 + e), or ln 2 and the same of (1 + e)/2 where 1 + e is above sqrt(2).
#[inline(always)]
fn log_of_one_and<L: Lanes>(lanes: L, e: f64) -> f64 {
    let long = e > std::f64::consts::SQRT_2 - 1.0;
    let start = if long { std::f64::consts::LN_2 } else { 0.0 };
    let top = if long { e - 1.0 } else { e };
    let s = top / (e + if long { 3.0 } else { 2.0 });
    let square = s * s;
    let mut series = ARTANH[9];
    for coefficient in ARTANH[..9].iter().rev() {
        series = lanes.mul_add_one(series, square, *coefficient);
    }
    start + 2.0 * lanes.mul_add_one(s * square, series, s)
}

/// (2^k, e^r - 1) with x = k ln 2 + r, |r| <= ln(2)/2, for x <= 0.
#[inline(always)]
fn exponential<L: Lanes>(lanes: L, x: f64) -> (f64, f64) {
    // Written so that NaN passes.
    let x = if x < LOWEST { LOWEST } else { x };
    let shifted = lanes.mul_add_one(x, std::f64::consts::LOG2_E, MAGIC);
    let k = shifted - MAGIC;
    let r = lanes.mul_add_one(k, -LN_2_HIGH, x);
    let r = lanes.mul_add_one(k, -LN_2_LOW, r);
    let mut series = SERIES[11];
    for coefficient in SERIES[..11].iter().rev() {
        series = lanes.mul_add_one(series, r, *coefficient);
    }
    let power = f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52);
    (power, lanes.mul_add_one(r * r, series, r))
}

#[cfg(test)]
mod tests;
