//! The different releases under a cap, and how often there was each.

use std::collections::BTreeMap;

use crate::event::Event;

/// The different releases, in the order of their first times.
///
/// # Complexity
/// A Gaussian is found in logarithmic time: a walk whose noise hangs on the lengths of its steps has as many different ones as steps.
#[derive(Default)]
pub(super) struct Made {
    all: Vec<(Event, u64)>,
    /// Where the Gaussians are, by the bits of their multipliers, which are positive.
    gaussians: BTreeMap<u64, usize>,
}

impl Made {
    /// Counts `event` once more: where it is.
    pub(super) fn count(&mut self, event: &Event) -> usize {
        let next = self.all.len();
        let at = match event {
            Event::Gaussian { noise_multiplier } => {
                let bits = noise_multiplier.get().to_bits();
                *self.gaussians.entry(bits).or_insert(next)
            }
            other => {
                let known = self.all.iter().position(|(known, _)| known == other);
                known.unwrap_or(next)
            }
        };
        match self.all.get_mut(at) {
            Some((_, count)) => *count += 1,
            None => self.all.push((event.clone(), 1)),
        }
        at
    }

    /// The release that is there.
    pub(super) fn get(&self, at: usize) -> Option<&Event> {
        self.all.get(at).map(|(event, _)| event)
    }

    /// All of them, with how often there was each.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Event, u64)> {
        self.all.iter().map(|(event, count)| (event, *count))
    }
}

#[cfg(test)]
mod tests {
    use super::Made;
    use crate::event::{Event, StepCounts};
    use crate::units::NoiseMultiplier;

    #[test]
    fn each_is_counted_where_it_was_first() {
        let z = |z| NoiseMultiplier::new(z).unwrap();
        let tree = |steps| Event::SingleEpochTreeAggregation {
            noise_multiplier: z(2.0),
            step_counts: StepCounts::One(steps),
        };
        // The last two are next to each other as numbers, and not the same.
        let four = [
            Event::gaussian(z(2.0)),
            tree(4),
            tree(5),
            Event::gaussian(z(f64::from_bits(2f64.to_bits() + 1))),
        ];
        let mut made = Made::default();
        for _ in 0..3 {
            for (at, event) in four.iter().enumerate() {
                assert_eq!(made.count(event), at);
            }
        }
        made.count(&four[2]);
        let counts: Vec<(&Event, u64)> = made.iter().collect();
        let expected: Vec<(&Event, u64)> = four.iter().zip([3, 3, 4, 3]).collect();
        assert_eq!(counts, expected);
        assert_eq!(made.get(1), Some(&four[1]));
        assert_eq!(made.get(4), None);
    }
}
