//! What correlated noise does to the points of a walk with momentum, and the factor for which that is least.
//!
//! A walk that moves by eta times the heavy-ball mean of the steps' sums is at -eta W g after them, with
//! W(x) = 1/((1 - x)(1 - beta x)) as a power series. Under a Toeplitz factor C its noise is eta W C^-1 w; where step sizes fall at
//! the end, each of the last columns of W is times its own. Here C is a
//! [`TunedFactor`], on lines between its places, so that C^-1 takes one sum for each line and not one for each coefficient.

use dpopt_privacy::TunedFactor;

use super::schedule::cooled;

/// Momentum of the default plans: the usual one.
pub(super) const MOMENTUM: f64 = 0.9;
/// Over which share of the steps, at the end, the default plan's step size falls to zero.
pub(super) const COOL_DOWN: f64 = 0.0;
/// Most numbers that the noise keeps: bands times coordinates, of 16 bytes each.
const KEPT: u64 = 1 << 26;

/// Bands for so many steps of an epoch: as many, or what may be kept of so many coordinates.
pub(super) fn bands(slices: u64, dim: usize) -> u64 {
    let kept = KEPT / (dim as u64).max(1);
    slices.min(kept).clamp(1, TunedFactor::MAX_BAND)
}

/// Products that the noise of cooled steps may take: beyond, of every so-manieth column.
const COOLED: usize = 1 << 19;

/// Sums over so many slices, again in each of so many epochs, under momentum and a cool-down.
#[derive(Debug, Clone, Copy)]
pub(super) struct Workload {
    pub(super) epochs: u64,
    pub(super) slices: u64,
    pub(super) momentum: f64,
    /// Share of the steps, at the end, over which step sizes fall to zero.
    pub(super) cool_down: f64,
    /// Whether slices are sampled: then the noise is scaled to one sample of a record, and not to all its epochs.
    pub(super) sampled: bool,
}

/// What a factor costs and how much noise it leaves.
#[derive(Debug, Clone, Copy)]
pub(super) struct Error {
    /// Mean over the points of the variance of the noise, per coordinate, in units of (z s share eta)^2.
    pub(super) mean: f64,
    /// That of the last point.
    pub(super) last: f64,
}

/// A factor's coefficients at the first places, and its band.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Knots {
    pub(super) band: u64,
    pub(super) values: Vec<f64>,
}

/// First change of a coefficient's ratio to the one before, and the last one.
const COARSE: f64 = 0.08;
const FINE: f64 = 0.002;

impl Knots {
    /// How many places a band of so many diagonals has a say at: up to the first that is not below it.
    fn places(band: u64) -> usize {
        let inner = TunedFactor::PLACES
            .iter()
            .filter(|&&place| place + 1 < band);
        let count = inner.count() + 1;
        if band < 2 {
            0
        } else {
            count.min(TunedFactor::PLACES.len())
        }
    }

    /// The square root of W: c(x) = ((1 - x)(1 - beta x))^(-1/2), cut to a band (Kalinin and Lampert 2024).
    pub(super) fn square_root(band: u64, momentum: f64) -> Self {
        let places = &TunedFactor::PLACES[..Self::places(band)];
        let most = places.last().map_or(0, |&place| place as usize);
        // 2 k c_k = ... from (1 - x)(1 - beta x) c' = ((1 + beta) / 2 - beta x) c.
        let mut c = vec![1.0];
        for k in 1..=most {
            let j = k as f64;
            let before = if k > 1 { c[k - 2] } else { 0.0 };
            let next =
                ((1.0 + momentum) * (j - 0.5) * c[k - 1] - momentum * (j - 1.0) * before) / j;
            c.push(next.clamp(0.0, c[k - 1]));
        }
        let values = places.iter().map(|&place| c[place as usize]).collect();
        Self { band, values }
    }

    /// As a factor.
    pub(super) fn factor(&self) -> Option<TunedFactor> {
        TunedFactor::new(self.band, &self.values).ok()
    }

    /// The coefficients, and the decrements d_k as (first, last, value).
    fn lines(&self, len: usize) -> (Vec<f64>, Vec<(usize, usize, f64)>) {
        let band = (self.band as usize).min(len);
        let mut c = vec![1.0];
        let mut lines = Vec::new();
        let (mut from, mut high) = (0_usize, 1.0);
        for (&to, &low) in TunedFactor::PLACES.iter().zip(&self.values) {
            let to = to as usize;
            let slope = (high - low) / (to - from) as f64;
            let last = to.min(band.saturating_sub(1));
            c.extend((from + 1..=last).map(|k| high - slope * (k - from) as f64));
            if last > from {
                lines.push((from + 1, last, slope));
            }
            (from, high) = (to, low);
        }
        // Past the places given, and past the band: 0.
        let end = c.len();
        lines.push((end, end, c[end - 1]));
        (c, lines)
    }
}

impl Workload {
    /// Steps of all epochs.
    pub(super) fn steps(&self) -> u64 {
        self.epochs * self.slices
    }

    /// How much noise a factor leaves.
    pub(super) fn error(&self, knots: &Knots) -> Error {
        let len = self.steps() as usize;
        let (c, lines) = knots.lines(len);
        // Sums of the first column of B = 1/((1 - x) C): b_m = sum of d_k b_(m-k).
        let mut sums = Vec::with_capacity(len + 1);
        sums.push(0.0);
        let (cooling, plain) = self.cooling();
        let mut moved: Vec<f64> = Vec::with_capacity(plain);
        let (mut mean, mut last) = (0.0, 0.0);
        for m in 0..len {
            let b = if m == 0 {
                1.0
            } else {
                let reached = lines.iter().take_while(|(first, ..)| *first <= m);
                reached
                    .map(|&(first, until, d)| {
                        d * (sums[m - first + 1] - sums[m.saturating_sub(until)])
                    })
                    .sum()
            };
            sums.push(sums[m] + b);
            if m < plain {
                let x = self.momentum * moved.last().copied().unwrap_or(0.0) + b;
                moved.push(x);
                last += x * x;
                mean += x * x * (plain - m) as f64 / len as f64;
            }
        }
        if cooling > 0 {
            let cooled = self.cooled(&sums, &moved, (cooling, plain));
            last = cooled.last;
            mean += cooled.mean;
        }
        let square = self.squared_sensitivity(&c);
        Error {
            mean: square * mean,
            last: square * last,
        }
    }

    /// Steps with smaller and smaller step sizes, and the ones before.
    fn cooling(&self) -> (usize, usize) {
        let len = self.steps() as usize;
        let cooling = ((self.cool_down * len as f64).round() as usize).min(len);
        (cooling, len - cooling)
    }

    /// What the points of the cooled steps have, before the factor's sensitivity: their part of the mean, and the last one. `sums` are those
    /// of the first column of B, `moved` the points before.
    fn cooled(&self, sums: &[f64], moved: &[f64], (cooling, plain): (usize, usize)) -> Error {
        let len = cooling + plain;
        let sizes: Vec<f64> = (plain..len)
            .map(|step| cooled(step as u64, len as u64, self.cool_down))
            .collect();
        // The first column of C^-1: what a step moves by.
        let b = |m: usize| sums[m + 1] - sums[m];
        let column: Vec<f64> = (0..len)
            .map(|m| if m == 0 { b(0) } else { b(m) - b(m - 1) })
            .collect();
        let together = (len * cooling).div_ceil(COOLED).max(1);
        let mut all = Error {
            mean: 0.0,
            last: 0.0,
        };
        // Noise that was drawn for step j, in each of the points: columns that are beside each other are much alike.
        for from in (0..len).step_by(together) {
            let columns = together.min(len - from);
            let j = from + columns / 2;
            let (mut x, mut v) = (0.0, 0.0);
            if let Some(age) = plain.checked_sub(j + 1) {
                x = moved[age];
                v = x - age.checked_sub(1).map_or(0.0, |before| moved[before]);
            }
            let mut squares = 0.0;
            for t in j.max(plain)..len {
                v = self.momentum * v + sizes[t - plain] * column[t - j];
                x += v;
                squares += x * x;
            }
            all.mean += columns as f64 * squares / len as f64;
            all.last += columns as f64 * x * x;
        }
        all
    }

    /// Of the participations 0, b, 2b, ...: what the curator computes of the rounded coefficients.
    fn squared_sensitivity(&self, c: &[f64]) -> f64 {
        let len = self.steps() as usize;
        let apart = if self.sampled {
            len
        } else {
            self.slices as usize
        };
        let at = |t: usize| c.get(t).copied().unwrap_or(0.0);
        let mut rows = vec![0.0; len];
        let mut square = 0.0;
        for t in 0..len {
            rows[t] = at(t) + t.checked_sub(apart).map_or(0.0, |before| rows[before]);
            square += rows[t] * rows[t];
        }
        square
    }

    /// Noise of the last point over that of as many steps on all records at the same budget, along a direction in which nothing is
    /// forgotten: at least 1, but for what a velocity still holds at the end. With samples, what it is where multiplier over rate is
    /// 1/mu.
    pub(super) fn relative(&self, error: &Error) -> f64 {
        let len = self.steps();
        // How far steps of length 1, less what they are cooled by, go: each record has a share of epochs/len in it.
        let (mut reach, mut velocity) = (0.0, 0.0);
        for step in 0..len {
            velocity = self.momentum * velocity + cooled(step, len, self.cool_down);
            reach += velocity;
        }
        error.last.sqrt() * len as f64 / (self.epochs as f64 * reach)
    }

    /// The factor of this band with the least mean error, as far as a search by coordinates finds it: never a worse one than the better
    /// of the two square roots on lines between its knots.
    pub(super) fn tuned(&self, band: u64) -> Knots {
        let log = |knots: &Knots| self.error(knots).mean.ln();
        let mut best = Knots::square_root(band, self.momentum);
        let mut least = log(&best);
        let plain = Knots::square_root(band, 0.0);
        let plainly = log(&plain);
        if plainly < least {
            (best, least) = (plain, plainly);
        }
        let mut change = COARSE;
        while change >= FINE {
            let mut gained = 0.0;
            for place in 0..best.values.len() {
                for by in [change, -change] {
                    // With the ones after it in proportion, and alone.
                    for whole in [true, false] {
                        let Some(next) = best.changed(place, by, whole) else {
                            continue;
                        };
                        let found = log(&next);
                        if found < least {
                            gained += least - found;
                            (best, least) = (next, found);
                        }
                    }
                }
            }
            if gained < 1e-4 {
                change /= 2.0;
            }
        }
        best
    }
}

impl Knots {
    /// One coefficient (and the ones after it in proportion) times 1 + `by`, within its neighbours.
    fn changed(&self, place: usize, by: f64, whole: bool) -> Option<Self> {
        let mut next = self.clone();
        let before = if place == 0 {
            1.0
        } else {
            self.values[place - 1]
        };
        let after = self.values.get(place + 1).copied().unwrap_or(0.0);
        let value = (self.values[place] * (1.0 + by)).min(before);
        let value = if whole { value } else { value.max(after) };
        if value == self.values[place] || self.values[place] <= 0.0 {
            return None;
        }
        let ratio = value / self.values[place];
        next.values[place] = value;
        if whole {
            for later in &mut next.values[place + 1..] {
                *later = (*later * ratio).min(value);
            }
        }
        Some(next)
    }
}
