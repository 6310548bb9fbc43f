//! How many copies of a record a sample holds: binomial and hypergeometric numbers of any size.
//!
//! Both laws are log-concave, and one sampler serves them. With m a mode, p_k the probabilities
//! and q <= p_m, every log-concave law has
//!
//! ```text
//! p_{m+x} <= p_m min(1, exp(1 - q |x|)).
//! ```
//!
//! Proof. Let x > 0 (the other side is its mirror image) and t = p_{m+x}/p_m = e^(-s). By
//! log-concavity p_{m+j} >= p_m t^(j/x) for j = 0, ..., x, and these sum to at most 1; the first x
//! of them are at least p_m x (1 - t)/s. So p_m x (1 - t)/s <= 1, and p_m x <= s/(1 - e^(-s)) <=
//! 1 + s, as (1 + s) e^(-s) <= 1. That is t <= exp(1 - p_m x) <= exp(1 - q x).
//!
//! A real number y that rounds to x in size has x >= y - 1/2, so with w = 1 + q/2 the function
//! min(1, exp(w - q y)) lies above p_{m+x}/p_m on the whole unit interval that rounds to x: a
//! rejection from it needs only that *ratio*, in which the rounding errors of the normalising
//! constants cancel. It takes at most 4 + q proposals on average, whatever the parameters.
//! Source: Devroye, "A simple generator for discrete log-concave distributions" (1987).
//!
//! Binomial numbers of up to 2^32 trials come from `rand_distr`, some ten times faster. Beyond, its
//! (1 - p)^n has a relative error of up to n 2^-54, and half of the probability is lost at 2^53. Its
//! hypergeometric sampler does not serve at all: where the expected count is below 10 it runs a loop over
//! all records first (6 ns for each, measured), and it subtracts logarithms of factorials, by which its
//! variance was 12 % too small for 10^14 records.

use rand::Rng;
use rand_distr::Distribution as _;

/// The largest number of trials or records: 2^53, up to which every count is an `f64`.
pub(crate) const MAX_COUNT: u64 = 1 << 53;

/// Up to here the relative rounding errors of the library's binomial law stay below 3e-7.
const MAX_LIBRARY_TRIALS: u64 = 1 << 32;

/// The number of successes in `trials` independent trials of probability `rate`.
///
/// `trials` is at most [`MAX_COUNT`]; a rate outside [0, 1] counts as the nearer end.
pub(crate) fn binomial(trials: u64, rate: f64, stream: &mut impl Rng) -> u64 {
    if trials == 0 || !(rate > 0.0) {
        return 0;
    }
    if rate >= 1.0 {
        return trials;
    }
    if trials == 1 {
        return u64::from(uniform(stream) < rate);
    }
    if trials <= MAX_LIBRARY_TRIALS
        && let Ok(law) = rand_distr::Binomial::new(trials, rate)
    {
        return law.sample(stream);
    }
    // 1 - rate is exact for rates in [1/2, 1].
    if rate > 0.5 {
        trials - draw(&Binomial::new(trials, 1.0 - rate), stream)
    } else {
        draw(&Binomial::new(trials, rate), stream)
    }
}

/// The number of marked records among `size` drawn without replacement from `records`, of which
/// `marked` are marked. `marked` and `size` are at most `records`, and that at most [`MAX_COUNT`].
pub(crate) fn hypergeometric(records: u64, marked: u64, size: u64, stream: &mut impl Rng) -> u64 {
    if marked == 0 || size == 0 {
        return 0;
    }
    if marked == records {
        return size;
    }
    if size == records {
        return marked;
    }
    draw(&Hypergeometric::new(records, marked, size), stream)
}

/// Takes `size` records without replacement out of `left`, which holds `total` of them in kinds,
/// and writes how many of each kind were taken: multivariate hypergeometric, one kind after the
/// other. `size` is at most `total`.
pub(crate) fn without_replacement(
    left: &[u64],
    mut total: u64,
    mut size: u64,
    stream: &mut impl Rng,
    taken: &mut [u64],
) {
    for (&kind, taken) in left.iter().zip(taken) {
        *taken = hypergeometric(total, kind, size, stream);
        total -= kind;
        size -= *taken;
    }
}

/// A log-concave law on consecutive integers.
trait LogConcave {
    fn least(&self) -> u64;
    fn most(&self) -> u64;
    fn mode(&self) -> u64;
    /// ln p_k, for k from least to most.
    fn ln_mass(&self, k: u64) -> f64;
}

/// The rejection of the module's head.
fn draw<L: LogConcave>(law: &L, stream: &mut impl Rng) -> u64 {
    let mode = law.mode();
    let peak = law.ln_mass(mode);
    // Below p_m by more than its rounding errors.
    let q = peak.exp().min(1.0) * (1.0 - 1e-6);
    let w = 1.0 + 0.5 * q;
    loop {
        // The plateau has measure w/q, the tail 1/q.
        let u = uniform(stream) * (w + 1.0);
        let (y, ln_hat) = if u <= w {
            (u / q, 0.0)
        } else {
            let e = -(1.0 - (u - w)).max(f64::MIN_POSITIVE).ln();
            ((w + e) / q, -e)
        };
        let word = stream.next_u64();
        let x = y.round() as u64;
        let k = if word >> 63 == 1 {
            mode.checked_add(x).filter(|&k| k <= law.most())
        } else {
            mode.checked_sub(x).filter(|&k| k >= law.least())
        };
        let Some(k) = k else { continue };
        if uniform(stream).ln() + ln_hat <= law.ln_mass(k) - peak {
            return k;
        }
    }
}

struct Binomial {
    trials: u64,
    rate: f64,
    mean: f64,
    /// The exact mean is `mean` + `mean_rest`.
    mean_rest: f64,
    constant: f64,
}

impl Binomial {
    fn new(trials: u64, rate: f64) -> Self {
        let n = trials as f64;
        let mean = n * rate;
        Self {
            trials,
            rate,
            mean,
            mean_rest: n.mul_add(rate, -mean),
            constant: remainder(trials),
        }
    }
}

impl LogConcave for Binomial {
    fn least(&self) -> u64 {
        0
    }

    fn most(&self) -> u64 {
        self.trials
    }

    fn mode(&self) -> u64 {
        ((self.mean + self.rate) as u64).min(self.trials)
    }

    fn ln_mass(&self, k: u64) -> f64 {
        let n = self.trials as f64;
        let delta = (k as f64 - self.mean) - self.mean_rest;
        self.constant
            - remainder(k)
            - remainder(self.trials - k)
            - deviance(k as f64, self.mean, delta)
            - deviance((self.trials - k) as f64, n * (1.0 - self.rate), -delta)
    }
}

struct Hypergeometric {
    records: u64,
    marked: u64,
    size: u64,
    /// The whole part of marked size / records, and the rest.
    mean: u64,
    mean_rest: f64,
    /// Expected numbers: marked and taken, marked and left, unmarked and taken, unmarked and left.
    cells: [f64; 4],
    constant: f64,
}

impl Hypergeometric {
    fn new(records: u64, marked: u64, size: u64) -> Self {
        let product = u128::from(marked) * u128::from(size);
        let all = u128::from(records);
        let n = records as f64;
        let (other, rest) = ((records - marked) as f64, (records - size) as f64);
        let (marked_f, size_f) = (marked as f64, size as f64);
        Self {
            records,
            marked,
            size,
            mean: (product / all) as u64,
            mean_rest: (product % all) as f64 / n,
            cells: [
                marked_f * (size_f / n),
                marked_f * (rest / n),
                other * (size_f / n),
                other * (rest / n),
            ],
            constant: remainder(marked)
                + remainder(records - marked)
                + remainder(size)
                + remainder(records - size)
                - remainder(records),
        }
    }
}

impl LogConcave for Hypergeometric {
    fn least(&self) -> u64 {
        (self.marked + self.size).saturating_sub(self.records)
    }

    fn most(&self) -> u64 {
        self.marked.min(self.size)
    }

    fn mode(&self) -> u64 {
        let product = (u128::from(self.marked) + 1) * (u128::from(self.size) + 1);
        let mode = (product / (u128::from(self.records) + 2)) as u64;
        mode.clamp(self.least(), self.most())
    }

    /// ln of marked! unmarked! size! rest! / (records! a! b! c! d!), with a, b, c, d the numbers in
    /// the four cells. Where ln x! = x ln x - x + remainder(x), what is left of the first parts is
    /// minus the four deviances from independence, each of which is a + or - delta away.
    fn ln_mass(&self, k: u64) -> f64 {
        let numbers = [
            k,
            self.marked - k,
            self.size - k,
            self.records - self.marked - (self.size - k),
        ];
        // Exact up to one rounding: whole parts first.
        let delta = (i128::from(k) - i128::from(self.mean)) as f64 - self.mean_rest;
        let signs = [delta, -delta, -delta, delta];
        let mut ln = self.constant;
        for ((&number, &cell), delta) in numbers.iter().zip(&self.cells).zip(signs) {
            ln -= remainder(number) + deviance(number as f64, cell, delta);
        }
        ln
    }
}

/// ln x! - (x ln x - x).
///
/// From 16 on Stirling's series to the term in x^-9; the next is below 2e-16.
fn remainder(x: u64) -> f64 {
    if x < 16 {
        let factorial: u64 = (1..=x).product();
        let n = x as f64;
        return if x == 0 {
            0.0
        } else {
            (factorial as f64).ln() - n * n.ln() + n
        };
    }
    let n = x as f64;
    let s = 1.0 / (n * n);
    let series = 1.0 / 12.0
        - s * (1.0 / 360.0 - s * (1.0 / 1260.0 - s * (1.0 / 1680.0 - s * (1.0 / 1188.0))));
    0.5 * (std::f64::consts::TAU * n).ln() + series / n
}

/// x ln(x/mean) - x + mean, where x is mean + delta; without cancellation.
///
/// Source: Loader, "Fast and accurate computation of binomial probabilities" (2000), whose
/// `bd0` gets delta by subtraction instead.
fn deviance(x: f64, mean: f64, delta: f64) -> f64 {
    if x == 0.0 {
        return mean;
    }
    if delta.abs() >= 0.1 * (x + mean) {
        return x * (x / mean).ln() - delta;
    }
    // ln((1 + v)/(1 - v)) = 2 (v + v^3/3 + ...) with v = delta/(x + mean).
    let v = delta / (x + mean);
    let mut power = 2.0 * x * v;
    let mut sum = delta * v;
    let mut odd = 3.0;
    loop {
        power *= v * v;
        let next = sum + power / odd;
        if next == sum {
            return sum;
        }
        sum = next;
        odd += 2.0;
    }
}

/// Uniform in (0, 1), a multiple of 2^-54.
fn uniform(stream: &mut impl Rng) -> f64 {
    ((stream.next_u64() >> 11) as f64 + 0.5) * (0.5 * f64::EPSILON)
}

#[cfg(test)]
#[path = "counts_tests.rs"]
mod tests;
