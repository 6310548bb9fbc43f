//! Random allocations: which records take part in which step, drawn once and kept secret, and who pays for a step.

use std::collections::BTreeMap;
use std::ops::Range;

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
    /// Of the records of this slice alone.
    pub(super) slice: Option<u64>,
    pub(super) records: u64,
    pub(super) numbering: Numbering,
}

/// The allocations of which steps are left: of all records, and of each slice.
///
/// # Privacy
/// The places of the records are secret. A step is handed out once, whether it is released or not, and the whole is charged before the
/// first release. So at most one release is made at each step of one draw, and what `Event::RandomAllocation` costs is paid for it.
#[derive(Default)]
pub(super) struct Allocated {
    open: BTreeMap<Option<u64>, Open>,
    /// How many were drawn.
    drawn: u64,
}

struct Open {
    /// How many were drawn before it.
    number: u64,
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
        let payer = || terms.slice.map_or(Account::Whole, Account::Slice);
        let Some(open) = self.open.get(&terms.slice) else {
            return Ok(Turn {
                account: payer(),
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
                false => payer(),
            },
            number: open.number,
            step: open.next,
        })
    }

    /// Hands out the next step, with its records in increasing order. The first draws the allocation, of the records at `positions`;
    /// without a stream there are none.
    pub(super) fn step(
        &mut self,
        terms: AllocationTerms,
        positions: Range<u64>,
        stream: Option<KeyedStream>,
    ) -> Result<Zeroizing<Vec<u32>>, Refused> {
        let slice = terms.slice;
        if !self.open.contains_key(&slice) {
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
                Some(stream) => places(terms.allocation, positions.clone(), stream),
                None => (Zeroizing::default(), Vec::new()),
            };
            let open = Open {
                number: self.drawn,
                terms,
                paid: false,
                next: 0,
                places,
                starts,
            };
            self.drawn += 1;
            self.open.insert(slice, open);
        }
        let Some(open) = self.open.get_mut(&slice) else {
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
        read.retain(|&place| positions.contains(&u64::from(place)));
        if open.next == open.terms.allocation.steps {
            self.open.remove(&slice);
        }
        Ok(read)
    }

    /// The number of the allocation that the next step of this slice, or of all records, is of, and that of the step.
    pub(super) fn place(&self, slice: Option<u64>) -> (u64, u64) {
        match self.open.get(&slice) {
            Some(open) => (open.number, open.next),
            None => (self.drawn, 0),
        }
    }

    /// The allocation of this event was charged to this account.
    pub(super) fn pay(&mut self, event: &Event, account: &Account) {
        let slice = match account {
            Account::Whole => None,
            Account::Slice(slice) => Some(*slice),
            Account::Chain(_) | Account::Paid => return,
        };
        if let Some(open) = self.open.get_mut(&slice)
            && open.terms.event == *event
        {
            open.paid = true;
        }
    }

    /// Forgets the places.
    pub(super) fn close(&mut self) {
        self.open.clear();
    }

    /// Whether the next step of this slice, or of all records, is the first of another.
    pub(super) fn begins(&self, slice: Option<u64>) -> bool {
        !self.open.contains_key(&slice)
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
    positions: Range<u64>,
    mut stream: KeyedStream,
) -> (Zeroizing<Vec<u32>>, Vec<usize>) {
    let (steps, times) = (allocation.steps, allocation.participations);
    let count = positions.end.saturating_sub(positions.start);
    // The steps of each record, one record after the other.
    let mut drawn: Zeroizing<Vec<u32>> =
        Zeroizing::new(Vec::with_capacity((count * times) as usize));
    let mut starts = vec![0_usize; steps as usize + 1];
    // Who took each step last.
    let mut taken = Zeroizing::new(vec![u64::MAX; steps as usize]);
    for position in positions.clone() {
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
    for (position, own) in positions.zip(drawn.chunks_exact(times as usize)) {
        for &step in own {
            places[free[step as usize]] = position as u32;
            free[step as usize] += 1;
        }
    }
    (places, starts)
}
