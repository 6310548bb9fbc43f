//! Random allocations: which records take part in which step, drawn once and kept secret, and who pays for a step.

use zeroize::Zeroizing;

use crate::event::Event;
use crate::noise::KeyedStream;
use crate::noise::digits::BitSource;
use crate::order::Numbering;
use crate::refused::Refused;
use crate::which::{Account, Allocation};

/// Places that may be kept: 16 GiB of them.
const MOST_PLACES: u64 = 1 << 32;

/// What all steps of an allocation have in common: public.
#[derive(Clone)]
pub(super) struct AllocationTerms {
    pub(super) allocation: Allocation,
    /// What it costs as a whole.
    pub(super) event: Event,
    pub(super) records: u64,
    pub(super) numbering: Numbering,
}

/// The allocation of which steps are left, if there is one.
///
/// # Privacy
/// The places of the records are secret. A step is handed out once, whether it is released or not, and the whole is charged before the
/// first release. So at most one release is made at each step of one draw, and what `Event::RandomAllocation` costs is paid for it.
#[derive(Default)]
pub(super) struct Allocated {
    open: Option<Open>,
    /// How many were drawn.
    drawn: u64,
}

struct Open {
    terms: AllocationTerms,
    /// Whether the whole was charged.
    paid: bool,
    /// The next step.
    next: u64,
    /// Positions, step by step, and where the steps begin.
    places: Zeroizing<Vec<u32>>,
    starts: Vec<usize>,
}

/// The step that comes next.
pub(super) struct Turn {
    pub(super) account: Account,
    /// The allocation, and the step of it.
    pub(super) number: u64,
    pub(super) step: u64,
}

impl Allocated {
    /// The next step of an allocation with these terms: of the open one, or the first of another.
    pub(super) fn turn(&self, terms: &AllocationTerms) -> Result<Turn, Refused> {
        let Allocation {
            steps,
            participations,
        } = terms.allocation;
        if participations == 0 || participations > steps {
            return Err(Refused::Allocation {
                steps,
                participations,
            });
        }
        let Some(open) = &self.open else {
            return Ok(Turn {
                account: Account::Whole,
                number: self.drawn,
                step: 0,
            });
        };
        if !open.terms.are(terms) {
            return Err(Refused::OtherAllocation {
                left: open.terms.allocation.steps - open.next,
            });
        }
        Ok(Turn {
            account: match open.paid {
                true => Account::Paid,
                false => Account::Whole,
            },
            number: self.drawn - 1,
            step: open.next,
        })
    }

    /// Hands out the next step, with its records in increasing order. The first draws the allocation, of records at `positions` from 0 on;
    /// without a stream there are none.
    pub(super) fn step(
        &mut self,
        terms: AllocationTerms,
        positions: u64,
        stream: Option<KeyedStream>,
    ) -> Result<Zeroizing<Vec<u32>>, Refused> {
        if self.open.is_none() {
            let Allocation {
                steps,
                participations,
            } = terms.allocation;
            let kept = |n: u64| n.checked_mul(participations).filter(|n| *n < MOST_PLACES);
            // By the public number: under add-remove the true one is secret.
            let fits = steps < MOST_PLACES && kept(terms.records).is_some();
            if !fits {
                return Err(Refused::Allocation {
                    steps,
                    participations,
                });
            }
            let (places, starts) = match stream {
                Some(stream) => places(terms.allocation, positions, stream),
                None => (Zeroizing::default(), Vec::new()),
            };
            self.drawn += 1;
            self.open = Some(Open {
                terms,
                paid: false,
                next: 0,
                places,
                starts,
            });
        }
        let Some(open) = &mut self.open else {
            return Ok(Zeroizing::default());
        };
        let at = open.next as usize;
        open.next += 1;
        let range = match (open.starts.get(at), open.starts.get(at + 1)) {
            (Some(from), Some(to)) => *from..*to,
            _ => 0..0,
        };
        let mut read = Zeroizing::new(open.places[range].to_vec());
        // The same for all steps, unless the caller goes on with other records.
        read.retain(|&place| u64::from(place) < positions);
        if open.next == open.terms.allocation.steps {
            self.open = None;
        }
        Ok(read)
    }

    /// The number of the allocation that the next step is of, and that of the step.
    pub(super) fn place(&self) -> (u64, u64) {
        match &self.open {
            Some(open) => (self.drawn - 1, open.next),
            None => (self.drawn, 0),
        }
    }

    /// The allocation of this event was charged.
    pub(super) fn pay(&mut self, event: &Event) {
        if let Some(open) = &mut self.open
            && open.terms.event == *event
        {
            open.paid = true;
        }
    }

    /// Forgets the places.
    pub(super) fn close(&mut self) {
        self.open = None;
    }

    /// Whether the next step is the first of another.
    pub(super) fn begins(&self) -> bool {
        self.open.is_none()
    }
}

impl AllocationTerms {
    fn are(&self, other: &Self) -> bool {
        self.event == other.event
            && self.records == other.records
            && self.numbering == other.numbering
    }
}

/// Positions, step by step, and where each step begins.
fn places(
    allocation: Allocation,
    positions: u64,
    mut stream: KeyedStream,
) -> (Zeroizing<Vec<u32>>, Vec<usize>) {
    let (steps, times) = (allocation.steps, allocation.participations);
    // The steps of each record, one record after the other.
    let mut drawn: Zeroizing<Vec<u32>> =
        Zeroizing::new(Vec::with_capacity((positions * times) as usize));
    let mut starts = vec![0_usize; steps as usize + 1];
    // Who took each step last.
    let mut taken = Zeroizing::new(vec![u64::MAX; steps as usize]);
    for position in 0..positions {
        // A uniform set, by Floyd's algorithm.
        for last in steps - times..steps {
            let step = stream.below(last + 1);
            let step = match taken[step as usize] == position {
                true => last,
                false => step,
            };
            taken[step as usize] = position;
            drawn.push(step as u32);
            starts[step as usize + 1] += 1;
        }
    }
    for step in 0..steps as usize {
        starts[step + 1] += starts[step];
    }
    let mut free = Zeroizing::new(starts.clone());
    let mut places = Zeroizing::new(vec![0_u32; drawn.len()]);
    for (position, own) in drawn.chunks_exact(times as usize).enumerate() {
        for &step in own {
            places[free[step as usize]] = position as u32;
            free[step as usize] += 1;
        }
    }
    (places, starts)
}
