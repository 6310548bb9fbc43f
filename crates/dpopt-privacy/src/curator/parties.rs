//! A curator that is a party: one of several that do not trust each other with their records.
//!
//! Each adds its own share of the noise before its sum leaves it. The argument is in `docs/privacy/parties.md`.

use zeroize::Zeroizing;

use crate::event::Event;
use crate::exchange::Together;
use crate::guarantee::Mode;
use crate::noise::{Key, NoiseError, Purpose, StreamId, of_steps};
use crate::refused::Refused;

use super::Curator;
use super::grant::Gaussian;
use super::reservation::Spend;

/// What guarantees among parties rest on.
const HONEST: &str = "as many of the parties as were declared honest add their share of the noise and show nobody their keys, masks and sums";
/// The smallest share of the noise for which the claim is proved, in steps.
const MIN_SHARE: f64 = 16.0;
/// The largest noise of all parties together: sums modulo 2^64 don't wrap.
const MAX_NOISE: f64 = 4_503_599_627_370_496.0;

impl Curator {
    /// The others, where this is a party.
    pub(super) fn parties(&self) -> Option<Together> {
        let together = self.together.as_ref();
        together.filter(|all| all.honest().is_some()).cloned()
    }

    /// What the guarantee rests on, of a party.
    pub(super) fn rests_on_parties(&self) -> Option<&'static str> {
        self.parties().map(|_| HONEST)
    }

    /// The key of the streams of this purpose. What the analysis does not need to be secret is the same for all parties.
    pub(super) fn key_for(&self, purpose: Purpose) -> &Key {
        match (&self.common, purpose) {
            (Some(common), Purpose::Perturbation) => common,
            _ => &self.key,
        }
    }

    /// In a simulation: a key of its own, and the one of the seed for what is public.
    pub(super) fn simulate_party(&mut self, together: &Together) -> Result<(), Refused> {
        if self.mode == Mode::Replay {
            together.trusting("a replay for an audit")?;
        }
        let name = StreamId::new(Purpose::Noise, together.rank() as u32);
        let own = self.key.derive(&mut self.key.stream(name)?);
        self.common = Some(std::mem::replace(&mut self.key, own));
        Ok(())
    }

    /// Refuses what a party can't release: all but sums with independent Gaussian noise, of all records, of slices and of Poisson samples.
    pub(super) fn party_may_reserve(
        &self,
        spend: &Spend,
        argument: Option<&'static str>,
    ) -> Result<(), Refused> {
        let Some(together) = self.parties() else {
            return Ok(());
        };
        if argument.is_some() {
            together.trusting("a release of claimed sensitivity")?;
        }
        match other(spend.event()) {
            None => Ok(()),
            Some(event) => Err(Refused::UnsupportedSpend {
                event: event.clone(),
                why: ": parties that do not trust each other release sums with independent Gaussian noise, of all records, of slices and of Poisson samples",
            }),
        }
    }

    /// The standard deviation, in steps, of the noise that this process adds where that of the release is to be `scale`.
    pub(super) fn own_share(&self, scale: f64) -> Result<f64, NoiseError> {
        let Some((together, honest)) = self
            .parties()
            .and_then(|all| Some((all.clone(), all.honest()?)))
        else {
            return Ok(scale);
        };
        // The square root and the quotient err by less than a unit each, and so does the square of this number times the parties.
        let share = scale / (honest.get() as f64).sqrt();
        let share = (0..4).fold(share, |share, _| share.next_up());
        let max = MAX_NOISE / (together.ranks() as f64).sqrt();
        if (MIN_SHARE..=max).contains(&share) {
            return Ok(share);
        }
        Err(NoiseError::ScaleOutOfRange {
            scale: share,
            min: MIN_SHARE,
            max,
        })
    }

    /// Releases the sum over all parties of these integers, each with its share of the noise.
    pub(super) fn release_of_parties(
        &mut self,
        together: &Together,
        release: &Gaussian<'_>,
        mut own: Zeroizing<Vec<i64>>,
    ) -> Result<Vec<f64>, Refused> {
        let id = self.charge_gaussian(release, own.len())?;
        release
            .noise
            .add_release(&self.key, id, &self.threads, &mut own)?;
        together.noisy_sum("a sum with noise", &mut own)?;
        let step = release.bound.step();
        Ok(self.noted(own.iter().map(|&k| of_steps(k.into(), step)).collect()))
    }
}

/// What of this event is no release of a party.
fn other(event: &Event) -> Option<&Event> {
    match event {
        Event::NoOp | Event::Gaussian { .. } => None,
        Event::PoissonSampled { event: inner, .. } => match **inner {
            Event::Gaussian { .. } => None,
            _ => Some(event),
        },
        Event::SelfComposed { event, .. } => other(event),
        Event::Composed { events } | Event::ParallelComposed { events } => {
            events.iter().find_map(other)
        }
        _ => Some(event),
    }
}

#[cfg(test)]
mod tests;
