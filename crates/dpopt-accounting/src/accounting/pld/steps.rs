//! An event as the kinds of steps that the composition works on.

use super::error::PldError;
use super::laplace::LaplacePair;
use super::law::Kind;
use super::pair::{AnyPair, Pair};
use super::plan::Step;
use crate::{Adjacency, Event};

/// Largest number of steps of one kind: counts below it are exact as doubles.
const MAX_COUNT: u64 = 1 << 40;
const NOISE_RANGE: (f64, f64) = (1e-4, 1e6);

/// A kind of release: sampling rate (1: not sampled), noise and its multiplier, count.
#[derive(Debug, Clone, Copy)]
pub(super) struct Release {
    pub(super) rate: f64,
    noise: f64,
    laplace: bool,
    count: u64,
}

fn unsupported(event: &Event) -> PldError {
    PldError::Unsupported {
        event: event.to_string(),
    }
}

/// Sum of `count / noise^2` over a composition of plain Gaussians, which is one Gaussian.
fn precision(event: &Event) -> Result<f64, PldError> {
    let mut total = 0.0;
    for (leaf, count) in event.leaves() {
        let Event::Gaussian { noise_multiplier } = leaf else {
            return Err(unsupported(&leaf));
        };
        check_count(count)?;
        total += inverse_square(count, noise_multiplier.get())?;
    }
    Ok(total)
}

/// `count / noise^2`. Noise so large that this underflows is refused, lest a release vanish.
fn inverse_square(count: u64, noise: f64) -> Result<f64, PldError> {
    let share = count as f64 / (noise * noise);
    if share > 0.0 {
        return Ok(share);
    }
    Err(out_of_range(noise))
}

fn out_of_range(noise: f64) -> PldError {
    PldError::Noise {
        value: noise,
        smallest: NOISE_RANGE.0,
        largest: NOISE_RANGE.1,
    }
}

fn check_count(count: u64) -> Result<(), PldError> {
    if count > MAX_COUNT {
        return Err(PldError::TooManySteps {
            count,
            limit: MAX_COUNT,
        });
    }
    Ok(())
}

/// What has been met so far; the plain Gaussians compose exactly to one.
#[derive(Default)]
struct Found {
    plain: f64,
    others: Vec<Release>,
}

impl Found {
    fn push(&mut self, new: Release) -> Result<(), PldError> {
        let same = |r: &&mut Release| {
            r.rate == new.rate && r.noise == new.noise && r.laplace == new.laplace
        };
        match self.others.iter_mut().find(same) {
            Some(known) => {
                known.count = known.count.saturating_add(new.count);
                check_count(known.count)
            }
            None => {
                self.others.push(new);
                Ok(())
            }
        }
    }

    fn add(&mut self, event: &Event, times: u64, adjacency: Adjacency) -> Result<(), PldError> {
        for (leaf, count) in event.leaves() {
            let count = count.saturating_mul(times);
            check_count(count)?;
            match &leaf {
                Event::Gaussian { noise_multiplier } => {
                    self.plain += inverse_square(count, noise_multiplier.get())?;
                }
                Event::Laplace { noise_multiplier } => self.push(Release {
                    rate: 1.0,
                    noise: noise_multiplier.get(),
                    laplace: true,
                    count,
                })?,
                Event::PoissonSampled {
                    sampling_probability,
                    event,
                } => {
                    let rate = sampling_probability.get();
                    if rate == 1.0 {
                        self.add(event, count, adjacency)?;
                        continue;
                    }
                    let (laplace, noise) = match event.leaves().as_slice() {
                        [(Event::Laplace { noise_multiplier }, 1)] => {
                            if adjacency == Adjacency::ReplaceOne {
                                return Err(unsupported(&leaf));
                            }
                            (true, noise_multiplier.get())
                        }
                        _ => match precision(event)? {
                            0.0 => continue,
                            inner => (false, 1.0 / inner.sqrt()),
                        },
                    };
                    self.push(Release {
                        rate,
                        noise,
                        laplace,
                        count,
                    })?;
                }
                other => return Err(unsupported(other)),
            }
        }
        Ok(())
    }
}

pub(super) fn releases(event: &Event, adjacency: Adjacency) -> Result<Vec<Release>, PldError> {
    let mut found = Found::default();
    found.add(event, 1, adjacency)?;
    let mut out = found.others;
    if found.plain > 0.0 {
        // Gaussians compose exactly to one Gaussian: one step instead of many.
        out.push(Release {
            rate: 1.0,
            noise: 1.0 / found.plain.sqrt(),
            laplace: false,
            count: 1,
        });
    }
    for release in &out {
        if !(NOISE_RANGE.0..=NOISE_RANGE.1).contains(&release.noise) {
            return Err(out_of_range(release.noise));
        }
    }
    Ok(out)
}

pub(super) fn steps(releases: &[Release], sampled: Kind) -> Vec<Step> {
    releases
        .iter()
        .map(|release| {
            let kind = if release.rate == 1.0 {
                Kind::Plain
            } else {
                sampled
            };
            let q = release.rate;
            let pair = if release.laplace {
                AnyPair::Laplace(LaplacePair {
                    kind,
                    q,
                    end: 1.0 / release.noise,
                })
            } else {
                // The noise multiplier is over a sensitivity of two clip norms; the pair that
                // replaces is written in units of one.
                let units = if kind == Kind::Replace { 2.0 } else { 1.0 };
                AnyPair::Normal(Pair {
                    kind,
                    q,
                    s: units * release.noise,
                })
            };
            Step {
                pair,
                count: release.count,
            }
        })
        .collect()
}
