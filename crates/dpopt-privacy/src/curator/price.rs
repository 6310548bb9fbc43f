//! What a release costs, who pays for it, and how its records are drawn: the only match of its kind.

use std::ops::Range;

use crate::adjacency::Adjacency;
use crate::event::Event;
use crate::lattice::{FixedBlocks, LatticeError, MAX_RECORDS};
use crate::order::Numbering;
use crate::refused::Refused;
use crate::replay::{ReplayedReads, SampleOf};
use crate::sample::{Body, Read, Sample};
use crate::slice::{Pool, PoolError, Slice};
use crate::ticket::Price;
use crate::units::SamplingRate;
use crate::which::{Account, Which};

use super::Curator;
use super::allocated::AllocationTerms;

/// A release that may be made, with its records not drawn yet.
pub(super) struct Priced {
    pub(super) price: Price,
    draw: Draw,
    denominator: f64,
    blocks: Option<FixedBlocks>,
}

impl Priced {
    /// The allocation of which a step is priced.
    pub(super) fn allocation(&self) -> Option<AllocationTerms> {
        match &self.draw {
            Draw::Allocated { terms, .. } => Some(terms.clone()),
            _ => None,
        }
    }
}

/// How its records are drawn.
enum Draw {
    Range(Range<u64>),
    Poisson {
        rate: SamplingRate,
        positions: u64,
        here: Option<(u64, u64)>,
    },
    Sampled {
        slice: Slice,
        rate: SamplingRate,
        records: u64,
        numbering: Numbering,
        here: Option<(u64, u64)>,
    },
    FixedSize {
        size: u64,
        records: u64,
    },
    Truncated {
        rate: SamplingRate,
        most: u32,
        records: u64,
    },
    Allocated {
        terms: AllocationTerms,
        positions: Range<u64>,
    },
    Next {
        len: u64,
        records: u64,
        numbering: Numbering,
    },
    Slice {
        slice: Slice,
        records: u64,
        numbering: Numbering,
    },
}

impl Curator {
    /// As [`Curator::price_of_any_size`], from no more records than a sum can hold.
    pub(super) fn price(
        &self,
        which: Which<'_>,
        body: Body,
        event: Event,
    ) -> Result<Priced, Refused> {
        let priced = self.price_of_any_size(which, body, event)?;
        match priced.draw {
            Draw::Poisson { positions: n, .. }
            | Draw::FixedSize { records: n, .. }
            | Draw::Truncated { records: n, .. }
            | Draw::Sampled { records: n, .. } => at_most(n)?,
            Draw::Allocated { ref positions, .. } => at_most(positions.end)?,
            Draw::Range(_) | Draw::Next { .. } | Draw::Slice { .. } => {}
        }
        Ok(priced)
    }

    /// The event of a release, who pays for it, and how its records are drawn: the only match of
    /// its kind. `event` is that of the release on what is read.
    pub(super) fn price_of_any_size(
        &self,
        which: Which<'_>,
        body: Body,
        event: Event,
    ) -> Result<Priced, Refused> {
        let Body {
            records,
            positions,
            numbering,
            here,
        } = body;
        if let Some(own) = self.inner.as_ref().and_then(|inner| inner.part)
            && numbering.part != Some(own)
        {
            return Err(Refused::OtherPart {
                own,
                found: numbering.part,
            });
        }
        let adjacency = self.adjacency;
        let of_samples = |rate| FixedBlocks::of_samples(adjacency, rate);
        Ok(match which {
            Which::All => Priced {
                price: Price {
                    event,
                    account: Account::Whole,
                    reads: ReplayedReads::All,
                },
                draw: Draw::Range(0..positions),
                denominator: records as f64,
                blocks: FixedBlocks::of_all(adjacency),
            },
            Which::Poisson(rate) => Priced {
                price: Price {
                    event: event.poisson_sampled(rate),
                    account: Account::Whole,
                    reads: ReplayedReads::Poisson(rate),
                },
                draw: Draw::Poisson {
                    rate,
                    positions,
                    here,
                },
                denominator: records as f64 * rate.get(),
                blocks: of_samples(rate),
            },
            Which::FixedSize(size) => {
                // There is a theorem for no other.
                if adjacency != Adjacency::ReplaceOne {
                    return Err(Refused::FixedSizeAdjacency { adjacency });
                }
                if size == 0 || size > records {
                    return Err(Refused::SampleSize { size, records });
                }
                let rate = SamplingRate::new(size as f64 / records as f64);
                Priced {
                    price: Price {
                        event: Event::SampledWithoutReplacement {
                            source_dataset_size: records,
                            sample_size: size,
                            event: Box::new(event),
                        },
                        account: Account::Whole,
                        reads: ReplayedReads::FixedSize { size, records },
                    },
                    draw: Draw::FixedSize { size, records },
                    denominator: size as f64,
                    blocks: rate.ok().and_then(of_samples),
                }
            }
            Which::Truncated(rate, most) => {
                // Under add-remove how often the limit binds depends on a number that nobody may know.
                if !adjacency.record_count_is_public() {
                    return Err(Refused::TruncatedAdjacency { adjacency });
                }
                let mean = records as f64 * rate.get();
                if most == 0 || f64::from(most) < mean {
                    return Err(Refused::LargestBatch { most, mean });
                }
                let Event::Gaussian { noise_multiplier } = event else {
                    return Err(Refused::NotReserved { event, slice: None });
                };
                Priced {
                    price: Price {
                        event: Event::TruncatedSubsampledGaussian {
                            dataset_size: records,
                            sampling_probability: rate,
                            truncated_batch_size: most,
                            noise_multiplier,
                        },
                        account: Account::Whole,
                        reads: ReplayedReads::Truncated { rate, most },
                    },
                    draw: Draw::Truncated {
                        rate,
                        most,
                        records,
                    },
                    denominator: mean,
                    blocks: of_samples(rate),
                }
            }
            Which::Allocated(allocation) => {
                let terms = AllocationTerms {
                    allocation,
                    event: allocation.event(event),
                    slice: None,
                    records,
                    numbering,
                };
                let turn = self.allocated.turn(&terms)?;
                let reads = ReplayedReads::Allocated {
                    number: turn.number,
                    step: turn.step,
                };
                self.step_of(terms, (turn.account, reads), 0..positions)
            }
            Which::AllocatedIn(slice, allocation) => {
                self.check_slice(slice, numbering)?;
                let terms = AllocationTerms {
                    allocation,
                    event: allocation.event(event),
                    slice: Some(slice.number()),
                    records: slice.len(),
                    numbering,
                };
                let turn = self.allocated.turn(&terms)?;
                let drawn = SampleOf::Allocated {
                    allocation,
                    number: turn.number,
                    step: turn.step,
                };
                let reads = ReplayedReads::Sampled(slice.number(), drawn);
                self.step_of(terms, (turn.account, reads), within(slice, records))
            }
            Which::Next(len) => {
                let pool = self.pool.as_ref().ok_or(PoolError::NotOpen)?;
                pool.same_numbering(numbering)?;
                let number = pool.next_slice(len)?;
                Priced {
                    price: Price {
                        event,
                        account: Account::Slice(number),
                        reads: ReplayedReads::Slices(vec![number]),
                    },
                    draw: Draw::Next {
                        len,
                        records,
                        numbering,
                    },
                    denominator: len as f64,
                    blocks: FixedBlocks::of_all(adjacency),
                }
            }
            Which::Slice(slice) => {
                self.check_slice(slice, numbering)?;
                Priced {
                    price: Price {
                        event,
                        account: Account::Slice(slice.number()),
                        reads: ReplayedReads::Slices(vec![slice.number()]),
                    },
                    denominator: slice.len() as f64,
                    draw: Draw::Slice {
                        slice: slice.clone(),
                        records,
                        numbering,
                    },
                    blocks: FixedBlocks::of_all(adjacency),
                }
            }
            Which::Sampled(slice, rate) => {
                self.check_slice(slice, numbering)?;
                Priced {
                    price: Price {
                        event: event.poisson_sampled(rate),
                        account: Account::Slice(slice.number()),
                        reads: ReplayedReads::Sampled(slice.number(), SampleOf::Poisson(rate)),
                    },
                    denominator: slice.len() as f64 * rate.get(),
                    draw: Draw::Sampled {
                        slice: slice.clone(),
                        rate,
                        records,
                        numbering,
                        here,
                    },
                    blocks: of_samples(rate),
                }
            }
        })
    }

    /// A step of an allocation.
    fn step_of(
        &self,
        terms: AllocationTerms,
        (account, reads): (Account, ReplayedReads),
        positions: Range<u64>,
    ) -> Priced {
        let share = terms.allocation.share();
        let rate = SamplingRate::new(share).ok();
        Priced {
            price: Price {
                event: terms.event.clone(),
                account,
                reads,
            },
            denominator: terms.records as f64 * share,
            blocks: rate.and_then(|rate| FixedBlocks::of_samples(self.adjacency, rate)),
            draw: Draw::Allocated { terms, positions },
        }
    }

    /// Refuses a slice of another pool, or of records that are numbered otherwise.
    fn check_slice(&self, slice: &Slice, numbering: Numbering) -> Result<(), PoolError> {
        let own = |pool: &&Pool| pool.id() == slice.pool();
        self.pool
            .as_ref()
            .filter(own)
            .ok_or(PoolError::ForeignSlice)?
            .same_numbering(numbering)
    }

    /// Draws the records of a release that may be made.
    pub(super) fn draw(&mut self, priced: Priced) -> Result<(Price, Sample), Refused> {
        let read = match priced.draw {
            Draw::Range(range) => Read::Range(range),
            Draw::Poisson {
                rate,
                positions,
                here,
            } => Read::Drawn(self.draw_poisson(rate, 0..positions, here)?),
            Draw::Sampled {
                slice,
                rate,
                records,
                numbering,
                here,
            } => {
                self.fix_numbering(numbering)?;
                Read::Drawn(self.draw_poisson(rate, within(&slice, records), here)?)
            }
            Draw::FixedSize { size, records } => Read::Drawn(self.draw_fixed_size(size, records)?),
            Draw::Truncated {
                rate,
                most,
                records,
            } => Read::Drawn(self.draw_truncated(rate, most, records)?),
            Draw::Allocated { terms, positions } => {
                if terms.slice.is_some() {
                    self.fix_numbering(terms.numbering)?;
                }
                Read::Drawn(self.draw_allocated(terms, positions)?)
            }
            Draw::Next {
                len,
                records,
                numbering,
            } => {
                self.fix_numbering(numbering)?;
                of_slice(self.take_slice(len)?, records)
            }
            Draw::Slice {
                slice,
                records,
                numbering,
            } => {
                self.fix_numbering(numbering)?;
                of_slice(slice, records)
            }
        };
        let sample = Sample {
            read,
            denominator: priced.denominator,
            blocks: priced.blocks,
            adjacency: self.adjacency,
        };
        Ok((priced.price, sample))
    }

    fn fix_numbering(&mut self, numbering: Numbering) -> Result<(), PoolError> {
        let pool = self.pool.as_mut().ok_or(PoolError::NotOpen)?;
        pool.fix_numbering(numbering)
    }
}

fn of_slice(slice: Slice, records: u64) -> Read {
    let positions = within(&slice, records);
    Read::Slice(slice, positions)
}

/// The positions of a slice: a pool of more positions than there are records is a mistake of
/// the caller. Their number is public wherever there are slices.
fn within(slice: &Slice, records: u64) -> Range<u64> {
    let Range { start, end } = slice.positions();
    let end = end.min(records);
    start.min(end)..end
}

/// Refuses to draw from more records than a sum can hold.
pub(super) fn at_most(records: u64) -> Result<(), LatticeError> {
    if records > MAX_RECORDS {
        return Err(LatticeError::TooManyRecords {
            records,
            limit: MAX_RECORDS,
        });
    }
    Ok(())
}
