//! The tape of a replay: what was released, and the secret integers behind it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::event::Event;
use crate::prefix::{PrefixNoise, squared_displacement};
use crate::refused::Refused;
use crate::which::Allocation;

use super::{
    ChangedRecord, Divergence, ReplayReport, ReplayedMechanism, ReplayedReads, ReplayedRelease,
};

/// A curator's place at the tape.
#[derive(Clone)]
pub(crate) struct Seat {
    tape: Arc<Mutex<Tape>>,
    replaying: bool,
}

/// What is public about a release.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Facts {
    pub(crate) mechanism: ReplayedMechanism,
    pub(crate) reads: ReplayedReads,
    pub(crate) charged: Event,
    pub(crate) noise_steps: f64,
    pub(crate) radius_steps: f64,
    pub(crate) limit: f64,
}

/// One line of the tape.
#[derive(Debug, Clone, PartialEq)]
enum Entry {
    /// A Gaussian release.
    Sum(Facts),
    /// A period was opened.
    Period(Facts),
    /// A step of a period.
    Step { period: u64, reads: ReplayedReads },
    /// A selection.
    Choice(Facts),
    /// A refusal.
    Refused(String),
}

/// Secret beside an entry: exact integers and what was released.
#[derive(Clone, Default)]
struct Secret {
    exact: Vec<i128>,
    released: Vec<i128>,
}

pub(crate) struct Tape {
    pub(crate) changed: ChangedRecord,
    entries: Vec<(Entry, Secret)>,
    /// Number of records and positions of each sample.
    samples: Vec<(u64, Vec<u32>)>,
    /// Place of the replay.
    at: usize,
    sample_at: usize,
    open: Vec<Open>,
    divergence: Option<Divergence>,
    /// By the number of the allocation.
    handed: BTreeMap<u64, Handed>,
}

/// How often the steps of an allocation have handed out each position from the first one on, and the step that is due.
#[derive(Default)]
struct Handed {
    due: u64,
    first: u64,
    times: Vec<u64>,
}

impl Handed {
    fn of(positions: Range<u64>) -> Self {
        Self {
            due: 0,
            first: positions.start,
            times: vec![0; positions.end.saturating_sub(positions.start) as usize],
        }
    }

    /// What is wrong with a step that hands out these positions of so many: an allocation is a partition of the records, each counted as often
    /// as it takes part.
    fn wrong(
        &mut self,
        of: Allocation,
        (number, step): (u64, u64),
        drawn: &[u32],
    ) -> Option<Divergence> {
        let expected = self.due;
        self.due = step + 1;
        if step != expected {
            return Some(Divergence::OutOfTurn {
                number,
                step,
                expected,
            });
        }
        for &position in drawn {
            let at = u64::from(position).checked_sub(self.first);
            let times = at.and_then(|at| self.times.get_mut(at as usize));
            match times {
                Some(times) => *times = times.saturating_add(1),
                None => self.times.push(u64::MAX),
            }
        }
        let most = of.participations;
        // In one step twice is twice the sensitivity, whatever the count is in the end.
        let mut sorted = drawn.to_vec();
        sorted.sort_unstable();
        if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
            return Some(Divergence::Allocation {
                number,
                step,
                times: most.saturating_add(1),
                participations: most,
            });
        }
        let last = step + 1 == of.steps;
        let bad = |times: &&u64| **times > most || last && **times != most;
        self.times
            .iter()
            .find(bad)
            .map(|&times| Divergence::Allocation {
                number,
                step,
                times,
                participations: most,
            })
    }
}

/// A release of the replay: what is known so far.
struct Open {
    facts: Facts,
    /// Displacement of each step of a period, or of the one sum.
    shifts: Vec<Vec<f64>>,
    measure: Measure,
}

enum Measure {
    Gaussian,
    Period(PrefixNoise),
    Spread,
}

pub(crate) fn locked(tape: &Mutex<Tape>) -> MutexGuard<'_, Tape> {
    tape.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Seat {
    pub(crate) fn new(tape: Arc<Mutex<Tape>>, replaying: bool) -> Self {
        Self { tape, replaying }
    }

    /// A sum or norm: what is released in the place of `noisy`.
    pub(crate) fn sum(&self, facts: Facts, exact: Vec<i128>, noisy: Vec<i128>) -> Vec<i128> {
        let entry = Entry::Sum(facts.clone());
        let (released, shift) = self.pass(entry, exact, noisy);
        self.open(facts, Measure::Gaussian, shift.into_iter().collect());
        released
    }

    /// A period was opened; its number.
    pub(crate) fn period(&self, facts: Facts, noise: &PrefixNoise) -> u64 {
        self.pass(Entry::Period(facts.clone()), Vec::new(), Vec::new());
        self.open(facts, Measure::Period(noise.clone()), Vec::new())
    }

    /// A step of a period: what is released in the place of `noisy`.
    pub(crate) fn step(
        &self,
        period: u64,
        reads: ReplayedReads,
        exact: Vec<i128>,
        noisy: Vec<i128>,
    ) -> Vec<i128> {
        let entry = Entry::Step {
            period,
            reads: reads.clone(),
        };
        let (released, shift) = self.pass(entry, exact, noisy);
        let mut tape = locked(&self.tape);
        if let Some(open) = tape.open.get_mut(period as usize) {
            open.facts.reads.join(reads);
            open.shifts.extend(shift);
        }
        released
    }

    /// A selection among these scores: what is chosen in the place of `chosen`.
    pub(crate) fn choice(&self, facts: Facts, scores: &[i64], chosen: usize) -> usize {
        let exact = scores.iter().map(|&k| i128::from(k)).collect();
        let entry = Entry::Choice(facts.clone());
        let (released, shift) = self.pass(entry, exact, vec![chosen as i128]);
        self.open(facts, Measure::Spread, shift.into_iter().collect());
        released.first().map_or(chosen, |&k| k as usize)
    }

    /// A refusal, which must come in both runs or in none.
    pub(crate) fn refused(&self, refused: &Refused) {
        let entry = Entry::Refused(refused.to_string());
        self.pass(entry, Vec::new(), Vec::new());
    }

    /// The positions of a sample from these: the changed record is among them where it can be, and the others are those
    /// of the recorded run.
    pub(crate) fn sample(&self, from: Range<u64>, mut drawn: Vec<u32>, fixed: bool) -> Vec<u32> {
        let mut tape = locked(&self.tape);
        // Where positions stay, a part of them has the same bounds in both runs.
        let records = from.end;
        if self.replaying {
            return tape.replayed_sample(records, drawn);
        }
        if let ChangedRecord::InPlace(at) | ChangedRecord::Removed(at) = tape.changed
            && from.contains(&at)
            && !drawn.contains(&(at as u32))
        {
            if fixed {
                drawn.pop();
            }
            drawn.push(at as u32);
            drawn.sort_unstable();
        }
        tape.samples.push((records, drawn.clone()));
        drawn
    }

    /// A step of an allocation hands out these positions of so many, before the changed record is put among them.
    pub(crate) fn allocated(
        &self,
        of: Allocation,
        place: (u64, u64),
        drawn: &[u32],
        positions: Range<u64>,
    ) {
        let mut tape = locked(&self.tape);
        let handed = tape
            .handed
            .entry(place.0)
            .or_insert_with(|| Handed::of(positions));
        if let Some(wrong) = handed.wrong(of, place, drawn) {
            tape.diverge(wrong);
        }
    }

    /// Records an entry, or compares it with the recorded one; what is released, and the
    /// displacement of the exact integers in a replay.
    fn pass(
        &self,
        entry: Entry,
        exact: Vec<i128>,
        noisy: Vec<i128>,
    ) -> (Vec<i128>, Option<Vec<f64>>) {
        let mut tape = locked(&self.tape);
        if !self.replaying {
            let released = noisy.clone();
            tape.entries.push((entry, Secret { exact, released }));
            return (noisy, None);
        }
        let at = tape.at;
        tape.at += 1;
        let Some((recorded, secret)) = tape.entries.get(at).cloned() else {
            let replayed = format!("{entry:?}");
            tape.diverge(Divergence::TooLong { replayed });
            return (noisy, None);
        };
        if recorded != entry || secret.exact.len() != exact.len() {
            tape.diverge(Divergence::Different {
                entry: at,
                recorded: format!("{recorded:?}"),
                replayed: format!("{entry:?}"),
            });
            return (noisy, None);
        }
        // Differences are below 2^53 where the sensitivity is enforced; where it is not, an error in the
        // last digit does not matter.
        let shift = exact
            .iter()
            .zip(&secret.exact)
            .map(|(new, old)| new.wrapping_sub(*old) as f64)
            .collect();
        (secret.released, Some(shift))
    }

    /// Begins a release; its number.
    fn open(&self, facts: Facts, measure: Measure, shifts: Vec<Vec<f64>>) -> u64 {
        let mut tape = locked(&self.tape);
        tape.open.push(Open {
            facts,
            shifts,
            measure,
        });
        tape.open.len() as u64 - 1
    }
}

impl Tape {
    pub(crate) fn empty(changed: ChangedRecord) -> Self {
        Self {
            changed,
            entries: Vec::new(),
            samples: Vec::new(),
            at: 0,
            sample_at: 0,
            open: Vec::new(),
            divergence: None,
            handed: BTreeMap::new(),
        }
    }

    pub(crate) fn rewind(&mut self) {
        self.handed.clear();
        self.at = 0;
        self.sample_at = 0;
        self.open.clear();
        self.divergence = None;
    }

    /// Keeps the first one.
    fn diverge(&mut self, divergence: Divergence) {
        self.divergence.get_or_insert(divergence);
    }

    fn replayed_sample(&mut self, records: u64, drawn: Vec<u32>) -> Vec<u32> {
        let Some((recorded, positions)) = self.samples.get(self.sample_at).cloned() else {
            let replayed = "a sample".to_owned();
            self.diverge(Divergence::TooLong { replayed });
            return drawn;
        };
        self.sample_at += 1;
        let expected = match self.changed {
            ChangedRecord::InPlace(_) => recorded,
            ChangedRecord::Added(_) => recorded + 1,
            ChangedRecord::Removed(_) => recorded.saturating_sub(1),
        };
        if records != expected {
            self.diverge(Divergence::Sample {
                recorded,
                replayed: records,
            });
            return drawn;
        }
        match self.changed {
            ChangedRecord::InPlace(_) => positions,
            ChangedRecord::Added(at) => {
                let moved = |k: u32| k + u32::from(u64::from(k) >= at);
                let mut moved: Vec<u32> = positions.into_iter().map(moved).collect();
                moved.push(at as u32);
                moved.sort_unstable();
                moved
            }
            ChangedRecord::Removed(at) => {
                let others = positions.into_iter().filter(|&k| u64::from(k) != at);
                others.map(|k| k - u32::from(u64::from(k) > at)).collect()
            }
        }
    }

    pub(crate) fn report(&self) -> ReplayReport {
        let too_short = (self.at < self.entries.len()).then_some(Divergence::TooShort {
            recorded: self.entries.len(),
            replayed: self.at,
        });
        ReplayReport {
            releases: self.open.iter().map(Open::release).collect(),
            divergence: self.divergence.clone().or(too_short),
        }
    }
}

impl Open {
    fn release(&self) -> ReplayedRelease {
        let Facts {
            mut mechanism,
            reads,
            charged,
            noise_steps,
            radius_steps,
            mut limit,
        } = self.facts.clone();
        // Of so many samples with the record in each.
        if let ReplayedReads::SampledSteps(steps) = &reads {
            let of = |slice: u64| steps.iter().filter(|(number, _)| *number == slice).count();
            let most = steps.iter().map(|&(slice, _)| of(slice)).max();
            limit *= (most.unwrap_or(0) as f64).sqrt();
        }
        if let ReplayedMechanism::Prefix { steps, .. } = &mut mechanism {
            *steps = self.shifts.len() as u64;
        }
        let displacement = match &self.measure {
            Measure::Gaussian => squared(self.shifts.iter().flatten()).sqrt() / noise_steps,
            Measure::Period(noise) => {
                squared_displacement(noise, &self.shifts).sqrt() / noise_steps
            }
            Measure::Spread => {
                let (low, high) = ends(self.shifts.iter().flatten());
                (high - low) / noise_steps
            }
        };
        ReplayedRelease {
            mechanism,
            reads,
            charged,
            noise_steps,
            radius_steps,
            displacement,
            limit,
        }
    }
}

fn squared<'a>(numbers: impl Iterator<Item = &'a f64>) -> f64 {
    numbers.map(|x| x * x).sum()
}

/// Least and largest; zeros where there is none.
fn ends<'a>(numbers: impl Iterator<Item = &'a f64>) -> (f64, f64) {
    numbers
        .fold(None, |ends: Option<(f64, f64)>, &x| match ends {
            None => Some((x, x)),
            Some((low, high)) => Some((low.min(x), high.max(x))),
        })
        .unwrap_or((0.0, 0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the tape says of steps that hand out these of three records, from position 5 on, as step and records.
    fn said(of: Allocation, steps: &[(u64, &[u32])]) -> Option<Divergence> {
        let mut handed = Handed::of(5..8);
        let all = steps.iter();
        all.filter_map(|(step, drawn)| {
            let drawn: Vec<u32> = drawn.iter().map(|at| at + 5).collect();
            handed.wrong(of, (0, *step), &drawn)
        })
        .next()
    }

    #[test]
    fn steps_that_are_no_partition_are_told() {
        let once = Allocation::to_one_of(3);
        let twice = Allocation {
            steps: 3,
            participations: 2,
        };
        assert_eq!(said(once, &[(0, &[1]), (1, &[]), (2, &[0, 2])]), None);
        assert_eq!(
            said(twice, &[(0, &[0, 1]), (1, &[1, 2]), (2, &[0, 2])]),
            None
        );
        // Ended early: who is left has not taken part.
        assert_eq!(said(once, &[(0, &[1]), (1, &[0])]), None);
        let told = |of, steps: &[(u64, &[u32])], times| {
            let said = said(of, steps);
            let found = matches!(said, Some(Divergence::Allocation { times: t, .. }) if t == times);
            assert!(found, "{said:?}");
        };
        // Twins: one record handed out twice, one of two never, a position that there is not.
        told(once, &[(0, &[1]), (1, &[1]), (2, &[0, 2])], 2);
        told(once, &[(0, &[1]), (1, &[]), (2, &[2])], 0);
        told(twice, &[(0, &[0, 1]), (1, &[0, 1]), (2, &[0, 2])], 3);
        // Drawn with replacement: twice in one step, as often as it should be in all.
        told(twice, &[(0, &[0, 1, 1]), (1, &[0, 2]), (2, &[2])], 3);
        told(once, &[(0, &[1, 3]), (1, &[]), (2, &[0, 2])], u64::MAX);
        // A step that is handed out twice, or left out.
        for steps in [[(0, [1]), (0, [2])], [(0, [1]), (2, [0])]] {
            let steps = steps.map(|(step, drawn)| (step, drawn));
            let steps: Vec<(u64, &[u32])> = steps.iter().map(|(s, d)| (*s, &d[..])).collect();
            let said = said(once, &steps);
            assert!(
                matches!(said, Some(Divergence::OutOfTurn { .. })),
                "{said:?}"
            );
        }
    }
}
