//! Many different Poisson-sampled Gaussians as mixtures of few.
//!
//! A release at rate q and total variation `w = erf(1 / (2 sqrt(2) z))` of its unsampled Gaussian is dominated by one of four
//! releases at the corners of a grid, drawn with public coins that have its q and w as their means: hockey-stick
//! curves are convex in each of the two (`docs/privacy/accounting.md`). Its moment function is then the same mean of theirs.

use realfft::num_complex::Complex64;

use super::error::ExactError;
use super::moments::{Cumulant, Entry, Moments};
use super::pair::{Direction, Pair};
use super::sampled::Sampled;
use crate::accounting::releases::SampledGaussian;

/// Largest number of releases of one kind: counts below it are exact as doubles.
pub(super) const MAX_COUNT: u64 = 1 << 40;

/// Most releases at corners.
const MOST_CORNERS: usize = 256;
/// Length of a side of a cell in the noise, as a logarithm: the finest, and by how much others are coarser. Tuned.
const SIDE: (f64, f64) = (0.005, 1.2);
/// The same in the rate, over it: the curves bend less there. Tuned.
const RATE_SIDE: f64 = 3.0;
/// By how much q and w are overstated for rounding, relatively.
const SLACK: f64 = 1e-12;
/// Largest rate that is merged.
const MOST_RATE: f64 = 0.999;

/// One direction of a schedule.
pub(super) struct Schedule {
    corners: Vec<Sampled>,
    cells: Vec<Cell>,
    /// All releases.
    total: f64,
}

/// Releases between the same corners.
struct Cell {
    /// Least rate and noise, most rate, most noise, both.
    corners: [usize; 4],
    /// Weights of the corners, and how many such releases.
    members: Vec<([f64; 4], u64)>,
}

/// Corners as (rate step, noise step), and releases by cell, with the steps' lengths.
type Places = std::collections::BTreeMap<(i64, i64), Vec<([f64; 4], u64)>>;

fn distance(noise: f64) -> f64 {
    libm::erf(0.5 * std::f64::consts::FRAC_1_SQRT_2 / noise)
}

struct Grid {
    least: (f64, f64),
    side: f64,
}

impl Grid {
    fn rate(&self, i: i64) -> f64 {
        self.least.0 * (RATE_SIDE * self.side * i as f64).exp()
    }

    fn noise(&self, j: i64) -> f64 {
        self.least.1 * (self.side * j as f64).exp()
    }

    /// The cells of all releases.
    fn places(&self, releases: &[SampledGaussian]) -> Places {
        let mut places = Places::new();
        for release in releases {
            let rate = release.rate * (1.0 + SLACK);
            let i = ((rate / self.least.0).ln() / (RATE_SIDE * self.side)).floor() as i64;
            let j = ((release.noise_multiplier / self.least.1).ln() / self.side).floor() as i64;
            let (low, high) = (self.rate(i), self.rate(i + 1));
            let along = ((rate - low) / (high - low)).clamp(0.0, 1.0);
            // Less noise is farther apart.
            let (far, near) = (distance(self.noise(j)), distance(self.noise(j + 1)));
            let w = distance(release.noise_multiplier) * (1.0 + SLACK);
            let quiet = ((w - near) / (far - near)).clamp(0.0, 1.0);
            let weights = [
                (1.0 - along) * quiet,
                along * quiet,
                (1.0 - along) * (1.0 - quiet),
                along * (1.0 - quiet),
            ];
            places
                .entry((i, j))
                .or_default()
                .push((weights, release.count));
        }
        places
    }
}

fn corners_of((i, j): (i64, i64)) -> [(i64, i64); 4] {
    [(i, j), (i + 1, j), (i, j + 1), (i + 1, j + 1)]
}

impl Schedule {
    /// One direction of all `releases`; `units` is the standard deviation over the noise multiplier. None where a rate is too near 1, or the
    /// corners would be too far apart to be of use.
    pub(super) fn new(
        releases: &[SampledGaussian],
        direction: Direction,
        units: f64,
    ) -> Result<Option<Self>, ExactError> {
        let least = releases.iter().fold((1.0_f64, f64::INFINITY), |least, r| {
            (least.0.min(r.rate), least.1.min(r.noise_multiplier))
        });
        let most = releases.iter().map(|r| r.rate).fold(0.0, f64::max);
        let count = releases
            .iter()
            .fold(0_u64, |n, r| n.saturating_add(r.count));
        if count > MAX_COUNT {
            return Err(ExactError::TooManySteps {
                count,
                limit: MAX_COUNT,
            });
        }
        let mut side = SIDE.0;
        let (grid, places, used) = loop {
            let grid = Grid {
                least: (least.0, least.1 * (1.0 - SLACK)),
                side,
            };
            let places = grid.places(releases);
            let mut used: Vec<(i64, i64)> = places.keys().copied().flat_map(corners_of).collect();
            used.sort_unstable();
            used.dedup();
            if used.len() <= MOST_CORNERS {
                break (grid, places, used);
            }
            side *= SIDE.1;
        };
        if most * (2.0 * RATE_SIDE * side).exp() > MOST_RATE || side > 0.3 {
            return Ok(None);
        }
        let total = count as f64;
        let corners = used
            .iter()
            .map(|&(i, j)| {
                let pair = Pair {
                    direction,
                    rate: grid.rate(i),
                    sigma: units * grid.noise(j),
                };
                Sampled::new(pair, total)
            })
            .collect::<Result<Vec<_>, _>>()?;
        let cells = places
            .into_iter()
            .map(|(place, members)| Cell {
                corners: corners_of(place).map(|c| used.binary_search(&c).unwrap_or(0)),
                members,
            })
            .collect();
        Ok(Some(Self {
            corners,
            cells,
            total,
        }))
    }

    /// `of` each corner, of one release.
    fn each<T>(&self, of: impl Fn(&Sampled) -> T) -> Vec<T> {
        self.corners.iter().map(of).collect()
    }
}

impl Cell {
    fn of<T: Copy>(&self, values: &[T]) -> [T; 4] {
        self.corners.map(|c| values[c])
    }

    fn count(&self) -> f64 {
        self.members.iter().map(|m| m.1 as f64).sum()
    }
}

fn mean(weights: &[f64; 4], values: &[f64; 4]) -> f64 {
    weights.iter().zip(values).map(|(w, v)| w * v).sum()
}

impl Moments for Schedule {
    fn extend(&mut self, theta: f64) -> Result<(), ExactError> {
        self.corners.iter_mut().try_for_each(|c| c.extend(theta))
    }

    fn supremum(&self) -> f64 {
        let each = self.each(|c| c.supremum() / self.total);
        self.cells
            .iter()
            .map(|cell| cell.count() * cell.of(&each).into_iter().fold(0.0, f64::max))
            .sum()
    }

    fn cumulant(&self, theta: f64) -> Cumulant {
        let each = self.each(|c| c.cumulant(theta));
        let mut total = Cumulant::default();
        for cell in &self.cells {
            let corner = cell.of(&each);
            let top = corner.map(|c| c.value / self.total);
            let base = top.into_iter().fold(f64::NEG_INFINITY, f64::max);
            let size = top.map(|v| (v - base).exp_m1());
            let first = corner.map(|c| c.mean / self.total);
            let second = corner.map(|c| {
                let mean = c.mean / self.total;
                c.variance / self.total + mean * mean
            });
            for (weights, count) in &cell.members {
                let count = *count as f64;
                let excess = mean(weights, &size);
                let share = [0, 1, 2, 3].map(|i| weights[i] * (1.0 + size[i]) / (1.0 + excess));
                let average = mean(&share, &first);
                total.value += count * (base + excess.ln_1p());
                total.mean += count * average;
                total.variance += count * (mean(&share, &second) - average * average).max(0.0);
            }
        }
        total
    }

    fn value(&self, theta: f64) -> f64 {
        let each = self.each(|c| c.value(theta) / self.total);
        self.cells
            .iter()
            .map(|cell| {
                let value = cell.of(&each);
                let base = value.into_iter().fold(f64::NEG_INFINITY, f64::max);
                let size = value.map(|v| (v - base).exp_m1());
                cell.members
                    .iter()
                    .map(|(weights, count)| *count as f64 * (base + mean(weights, &size).ln_1p()))
                    .sum::<f64>()
            })
            .sum()
    }

    fn prepare_decay(&mut self, theta: f64) -> Result<(), ExactError> {
        self.corners
            .iter_mut()
            .try_for_each(|c| c.prepare_decay(theta))
    }

    /// A mean of numbers is no larger than the largest.
    fn ln_decay(&self, t: f64) -> f64 {
        let each = self.each(|c| c.ln_decay(t) / self.total);
        self.cells
            .iter()
            .map(|cell| {
                let worst = cell.of(&each).into_iter().fold(f64::NEG_INFINITY, f64::max);
                cell.count() * worst.min(0.0)
            })
            .sum::<f64>()
            * (1.0 - 1e-12)
    }

    fn weight(&self) -> f64 {
        self.corners.iter().map(Moments::weight).sum()
    }

    fn table(&self, theta: f64, h: f64, out: &mut [Entry]) -> Result<(), ExactError> {
        let mut tables = Vec::with_capacity(self.corners.len());
        for corner in &self.corners {
            let mut table = vec![Entry::default(); out.len()];
            corner.table(theta, h, &mut table)?;
            tables.push(table);
        }
        for (k, entry) in out.iter_mut().enumerate() {
            for cell in &self.cells {
                let at = cell.corners.map(|c| tables[c][k]);
                cell.enter(&at, self.total, entry);
            }
        }
        Ok(())
    }
}

impl Cell {
    /// Adds the logarithms of all members at one argument. `at` are `total log M` of the corners.
    fn enter(&self, at: &[Entry; 4], total: f64, entry: &mut Entry) {
        let ln = at.map(|e| e.ln.unscale(total));
        let base = ln.iter().map(|l| l.re).fold(f64::NEG_INFINITY, f64::max);
        let size = ln.map(|l| (l.re - base).exp());
        if at.iter().any(|e| e.unknown) {
            // Bounds on sizes are all that is known, of some corners with an error.
            let worst = at.iter().map(|e| e.error / total).fold(0.0, f64::max);
            for (weights, count) in &self.members {
                let bound = base + mean(weights, &size).ln() + 1.1 * worst;
                entry.ln.re += *count as f64 * bound;
            }
            entry.unknown = true;
            return;
        }
        let value = ln.map(|l| Complex64::from_polar((l.re - base).exp(), l.im));
        let reach = ln.iter().map(|l| l.norm()).fold(0.0, f64::max);
        let worst = at.iter().map(|e| e.error / total).fold(0.0, f64::max);
        // Of each corner's value, relatively.
        let relative = 1.1 * worst + f64::EPSILON * (16.0 + 4.0 * reach);
        let (mut product, mut factors) = (Complex64::new(1.0, 0.0), 0);
        for (weights, count) in &self.members {
            let mut sum = Complex64::default();
            for (weight, value) in weights.iter().zip(&value) {
                sum += value.scale(*weight);
            }
            let norm = sum.norm();
            let count = *count as f64;
            let all = mean(weights, &size);
            if !(norm > 0.5 * all) || worst > 0.01 {
                entry.ln.re += count * (base + all.ln() + relative);
                entry.unknown = true;
                continue;
            }
            entry.error += count * (2.0 * relative + f64::EPSILON * (8.0 + 4.0 * base.abs()));
            entry.ln.re += count * base;
            if count == 1.0 {
                product *= sum;
                factors += 1;
                if factors == 16 {
                    entry.ln += product.ln();
                    (product, factors) = (Complex64::new(1.0, 0.0), 0);
                }
            } else {
                entry.ln += sum.ln().scale(count);
            }
        }
        entry.ln += product.ln();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIRECTIONS: [Direction; 3] = [Direction::Remove, Direction::Add, Direction::Replace];

    fn release(rate: f64, noise_multiplier: f64) -> SampledGaussian {
        SampledGaussian {
            rate,
            noise_multiplier,
            count: 1,
        }
    }

    /// The mean of `e^{theta L}` of one release by its own quadrature, and of its mixture.
    #[test]
    fn a_mixture_is_above_its_release_and_close() {
        for direction in DIRECTIONS {
            for (rate, noise) in [(0.01, 1.0), (0.3, 0.7), (1e-3, 4.0), (0.05, 2.0)] {
                for theta in [0.3, 1.0, 3.0] {
                    let list = [release(rate, noise), release(rate / 1.01, noise * 1.007)];
                    let mut all = Schedule::new(&list, direction, 1.0).unwrap().unwrap();
                    all.extend(theta).unwrap();
                    let mut truth = 0.0;
                    for one in list {
                        let pair = Pair {
                            direction,
                            rate: one.rate,
                            sigma: one.noise_multiplier,
                        };
                        let mut own = Sampled::new(pair, 1.0).unwrap();
                        own.extend(theta).unwrap();
                        truth += own.value(theta);
                    }
                    let mixed = all.value(theta);
                    let at = format!("{direction:?} {rate} {noise} {theta} {mixed} {truth}");
                    assert!(mixed >= truth * (1.0 - 1e-9), "{at}");
                    // What a far tail sees of a side of a cell.
                    assert!(mixed <= truth * (1.0 + 5e-3), "{at}");
                    // Weights that belong to the other noise make too little of it somewhere.
                    let swap = |members: &mut Vec<([f64; 4], u64)>| {
                        for (w, _) in members {
                            *w = [w[2], w[3], w[0], w[1]];
                        }
                    };
                    let count = all.cells.len() as f64;
                    all.cells
                        .iter_mut()
                        .for_each(|cell| swap(&mut cell.members));
                    let twin = all.value(theta);
                    assert!((twin - mixed).abs() > 1e-6 * mixed / count, "{at}");
                }
            }
        }
    }

    /// Each corner's logarithm may be off by its error; so may that of their mean.
    #[test]
    fn unknown_corners_leave_room_for_errors_of_the_others() {
        let cell = Cell {
            corners: [0, 1, 2, 3],
            members: vec![([0.25; 4], 3)],
        };
        let known = Entry {
            error: 0.5,
            ..Entry::default()
        };
        let mut at = [known; 4];
        at[2].unknown = true;
        let mut entry = Entry::default();
        cell.enter(&at, 2.0, &mut entry);
        assert!(entry.unknown && entry.ln.re + entry.error >= 3.0 * 0.25);
    }

    #[test]
    fn a_table_agrees_with_products() {
        let list: Vec<_> = (0..40)
            .map(|i| release(0.01 + 0.0003 * f64::from(i), 1.0 + 0.01 * f64::from(i)))
            .collect();
        for direction in DIRECTIONS {
            let mut all = Schedule::new(&list, direction, 1.0).unwrap().unwrap();
            all.extend(3.0).unwrap();
            all.prepare_decay(3.0).unwrap();
            let mut out = vec![Entry::default(); 60];
            all.table(3.0, 0.4, &mut out).unwrap();
            assert!((out[0].ln.re - all.value(3.0)).abs() <= 1e-9);
            for (k, entry) in out.iter().enumerate() {
                let bound = all.ln_decay(0.4 * k as f64);
                assert!(
                    entry.unknown || entry.ln.re - out[0].ln.re <= bound + 1e-9,
                    "{k}"
                );
            }
        }
    }
}
