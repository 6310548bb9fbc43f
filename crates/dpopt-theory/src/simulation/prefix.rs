//! Correlated noise of prefix sums, in floating point.

use std::collections::VecDeque;

use dpopt_privacy::{Participation, PrefixError, PrefixKind, PrefixNoise};

/// The noise B w of the prefix sums of one period, for simulation: the law of the factorisation
/// itself, without the rounding to a lattice that a protected period adds.
///
/// # Formula
/// A = B C is the matrix of prefix sums, w standard normal, independent over draws and
/// coordinates; what [`FloatPrefixNoise::next`] returns at step t is scale (B w)_t:
///
/// - independent: the sum of the draws of t steps;
/// - tree: the sum of the nodes that the binary digits of t name; each step draws the nodes that
///   end there (for the Honaker tree all of them, joined with the estimates of their halves,
///   weighted by inverse variances);
/// - Toeplitz: C = sum_k c_k S^k with c_k = binom(2k, k)/4^k and S the shift, cut after `band`
///   terms; u = C^-1 w by its recurrence, and B w = A u.
#[derive(Debug, Clone)]
pub struct FloatPrefixNoise {
    noise: PrefixNoise,
    scale: f64,
    step: u64,
    state: State,
}

#[derive(Debug, Clone)]
enum State {
    Independent {
        total: Vec<f64>,
    },
    Tree {
        reduced: bool,
        /// For each height the noise of the last node that ended there.
        last: Vec<Vec<f64>>,
    },
    Toeplitz {
        /// c_1, c_2, ... of the factor C, as many as were needed.
        factor: Vec<f64>,
        band: usize,
        /// The last u, the newest first.
        recent: VecDeque<Vec<f64>>,
        total: Vec<f64>,
    },
}

impl FloatPrefixNoise {
    /// The noise of a period in `dim` coordinates, whose unit noise w has the standard deviation
    /// `scale`: that of a step's sensitivity times [`PrefixNoise::unit_noise`].
    ///
    /// # Errors
    /// [`PrefixError`], as [`PrefixNoise::new`].
    pub fn new(
        kind: PrefixKind,
        len: u64,
        participation: Participation,
        dim: usize,
        scale: f64,
    ) -> Result<Self, PrefixError> {
        let noise = PrefixNoise::new(kind, len, participation)?;
        let total = vec![0.0; dim];
        let toeplitz = |band: u64, total| State::Toeplitz {
            factor: Vec::new(),
            band: usize::try_from(band.min(len)).unwrap_or(usize::MAX),
            recent: VecDeque::new(),
            total,
        };
        let state = match kind {
            PrefixKind::Tree | PrefixKind::Honaker => State::Tree {
                reduced: kind == PrefixKind::Honaker,
                last: Vec::new(),
            },
            PrefixKind::Toeplitz => toeplitz(len, total),
            PrefixKind::Banded { band } => toeplitz(band, total),
            PrefixKind::Tuned(tuned) => {
                let mut factor = tuned.coefficients();
                factor.remove(0);
                factor.truncate(usize::try_from(len).unwrap_or(usize::MAX));
                State::Toeplitz {
                    band: factor.len() + 1,
                    factor,
                    recent: VecDeque::new(),
                    total,
                }
            }
            _ => State::Independent { total },
        };
        Ok(Self {
            noise,
            scale,
            step: 0,
            state,
        })
    }

    /// The public numbers of the factorisation.
    #[must_use]
    pub fn noise(&self) -> &PrefixNoise {
        &self.noise
    }

    /// Steps taken.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.step
    }

    /// Standard deviation per coordinate of the noise of prefix `step`, counted from 1; none
    /// beyond the period.
    #[must_use]
    pub fn standard_deviation(&self, step: u64) -> Option<f64> {
        let relative = self.noise.variance(step)?.sqrt() / self.noise.sensitivity();
        Some(relative * self.scale)
    }

    /// Writes the noise of the next prefix sum to `out`. `draw` fills its argument with
    /// independent standard normals, which must be fresh.
    ///
    /// # Errors
    /// [`PrefixError::Finished`] after the last step.
    pub fn next(
        &mut self,
        mut draw: impl FnMut(&mut [f64]),
        out: &mut [f64],
    ) -> Result<(), PrefixError> {
        let len = self.noise.len();
        if self.step >= len {
            return Err(PrefixError::Finished { len });
        }
        self.step += 1;
        let mut fresh = vec![0.0; out.len()];
        match &mut self.state {
            State::Independent { total } => {
                draw(&mut fresh);
                dpopt_linalg::add_scaled(total, 1.0, &fresh);
                out.copy_from_slice(total);
            }
            State::Tree { reduced, last } => {
                next_of_tree(self.step, *reduced, last, &mut draw, out);
            }
            State::Toeplitz {
                factor,
                band,
                recent,
                total,
            } => {
                draw(&mut fresh);
                if factor.len() < recent.len() {
                    // c_k = c_{k-1} (2k - 1)/(2k).
                    let k = recent.len() as f64;
                    let before = factor.last().copied().unwrap_or(1.0);
                    factor.push(before * (2.0 * k - 1.0) / (2.0 * k));
                }
                for (c, u) in factor.iter().zip(recent.iter()) {
                    dpopt_linalg::add_scaled(&mut fresh, -c, u);
                }
                dpopt_linalg::add_scaled(total, 1.0, &fresh);
                out.copy_from_slice(total);
                recent.push_front(fresh);
                recent.truncate(*band - 1);
            }
        }
        for x in out {
            *x *= self.scale;
        }
        Ok(())
    }
}

/// The noise of prefix `t`, and the nodes that end there.
fn next_of_tree(
    t: u64,
    reduced: bool,
    last: &mut Vec<Vec<f64>>,
    draw: &mut impl FnMut(&mut [f64]),
    out: &mut [f64],
) {
    let height = t.trailing_zeros() as usize;
    let mut node = vec![0.0; out.len()];
    draw(&mut node);
    if reduced {
        // Variance of the estimate of a node from itself and from its halves' estimates: of the
        // two, with variances 1 and 2v, the own one gets the weight 2v/(1 + 2v), and that is also
        // the variance of the estimate.
        let mut variance = 1.0;
        let mut own = node.clone();
        for left in last.iter().take(height) {
            draw(&mut own);
            variance = 2.0 * variance / (1.0 + 2.0 * variance);
            for ((node, own), left) in node.iter_mut().zip(&own).zip(left) {
                let halves = left + *node;
                *node = halves + variance * (own - halves);
            }
        }
    }
    while last.len() <= height {
        last.push(Vec::new());
    }
    last[height] = node;
    out.fill(0.0);
    for (h, node) in last.iter().enumerate() {
        if t >> h & 1 == 1 {
            dpopt_linalg::add_scaled(out, 1.0, node);
        }
    }
}

#[cfg(test)]
mod tests {
    use dpopt_privacy::TunedFactor;

    use super::*;

    fn kinds() -> [PrefixKind; 7] {
        [
            PrefixKind::Independent,
            PrefixKind::Tree,
            PrefixKind::Honaker,
            PrefixKind::Toeplitz,
            PrefixKind::Banded { band: 1 },
            PrefixKind::Banded { band: 5 },
            PrefixKind::Tuned(TunedFactor::new(5, &[1.0, 0.8, 0.8, 0.2]).unwrap()),
        ]
    }

    /// B, one row for each step, one column for each draw: the response to a draw of 1.
    fn matrix(kind: PrefixKind, len: u64) -> Vec<Vec<f64>> {
        let mut rows = vec![Vec::new(); len as usize];
        for impulse in 0..2 * len as usize {
            let mut noise =
                FloatPrefixNoise::new(kind, len, Participation::Single, 1, 1.0).unwrap();
            let mut draws = 0;
            for row in &mut rows {
                let mut out = [0.0];
                let draw = |w: &mut [f64]| {
                    w[0] = f64::from(u8::from(draws == impulse));
                    draws += 1;
                };
                noise.next(draw, &mut out).unwrap();
                row.push(out[0]);
            }
        }
        rows
    }

    /// The variances are those that the privacy crate plans with, and its events pay for.
    #[test]
    fn the_rows_have_the_planned_variances() {
        for kind in kinds() {
            for len in [1, 2, 7, 16, 33] {
                let planned = PrefixNoise::new(kind, len, Participation::Single).unwrap();
                let rows = matrix(kind, len);
                for (t, row) in rows.iter().enumerate() {
                    let seen: f64 = row.iter().map(|b| b * b).sum();
                    let planned =
                        planned.variance(t as u64 + 1).unwrap() / planned.sensitivity().powi(2);
                    assert!((seen / planned - 1.0).abs() < 1e-12, "{kind} {len} {t}");
                }
            }
        }
    }

    /// B C = A with the sensitivity of C: for the Toeplitz kinds C is known in closed form, so B is
    /// determined (C is invertible), and with it all covariances.
    #[test]
    fn the_toeplitz_factors_multiply_to_prefix_sums() {
        let len = 24;
        for (kind, band) in [
            (PrefixKind::Toeplitz, 24),
            (PrefixKind::Banded { band: 5 }, 5),
            (PrefixKind::Banded { band: 1 }, 1),
        ] {
            let rows = matrix(kind, len);
            // binom(2k, k)/4^k as a product of its own.
            let c = |k: usize| -> f64 {
                if k >= band {
                    return 0.0;
                }
                (1..=k).map(|j| (k + j) as f64 / (4.0 * j as f64)).product()
            };
            for t in 0..len as usize {
                for s in 0..len as usize {
                    let product: f64 = (s..len as usize).map(|j| rows[t][j] * c(j - s)).sum();
                    let prefix = f64::from(u8::from(s <= t));
                    assert!((product - prefix).abs() < 1e-12, "{kind} {t} {s}");
                }
            }
        }
    }

    /// Two prefixes share the noise of the nodes that both hold: with the plain tree the covariance
    /// of prefixes s < t is the number of binary digits that t keeps of s from the top.
    #[test]
    fn prefixes_of_the_tree_share_their_nodes() {
        let rows = matrix(PrefixKind::Tree, 31);
        for s in 1..=31_u32 {
            for t in s..=31 {
                let shared: f64 = rows[s as usize - 1]
                    .iter()
                    .zip(&rows[t as usize - 1])
                    .map(|(a, b)| a * b)
                    .sum();
                // Nodes of t: [t with its lowest digits cleared, one digit at a time).
                let ends = |mut t: u32| {
                    let mut ends = Vec::new();
                    while t > 0 {
                        ends.push((t, t & t.wrapping_neg()));
                        t &= t - 1;
                    }
                    ends
                };
                let of_t = ends(t);
                let common = ends(s).iter().filter(|node| of_t.contains(node)).count();
                assert_eq!(shared, common as f64, "{s} {t}");
            }
        }
    }

    #[test]
    fn a_period_ends() {
        let mut noise =
            FloatPrefixNoise::new(PrefixKind::Tree, 2, Participation::Every, 1, 3.0).unwrap();
        let mut out = [0.0];
        noise.next(|w| w.fill(1.0), &mut out).unwrap();
        noise.next(|w| w.fill(1.0), &mut out).unwrap();
        assert!((noise.standard_deviation(2).unwrap() - 3.0).abs() < 1e-14);
        assert_eq!(
            noise.next(|w| w.fill(1.0), &mut out),
            Err(PrefixError::Finished { len: 2 })
        );
    }
}
