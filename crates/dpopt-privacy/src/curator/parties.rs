//! A curator that is a party: one of several that do not trust each other with their records.
//!
//! Each adds its own share of the noise before its sum leaves it. The argument is in `docs/privacy/parties.md`.

use std::borrow::Cow;

use zeroize::Zeroizing;

use crate::event::Event;
use crate::exchange::Together;
use crate::guarantee::Mode;
use crate::noise::{Key, NoiseError, Purpose, StreamId, of_steps};
use crate::prefix::{PrefixKind, PrefixNoise};
use crate::refused::Refused;

use super::Curator;
use super::grant::Gaussian;
use super::period::Prefix;
use super::reservation::Spend;

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

    /// By how much the noise of a release is above what its event says, as a factor of the standard deviation: `sqrt(P/h)` among P
    /// parties of which h are counted on, and 1 elsewhere. Bounds that were planned for the noise of the event don't cover more.
    #[must_use]
    pub fn noise_excess(&self) -> f64 {
        match self
            .parties()
            .and_then(|all| Some((all.ranks(), all.honest()?)))
        {
            Some((parties, honest)) => (parties as f64 / honest.get() as f64).sqrt(),
            None => 1.0,
        }
    }

    /// What the guarantee rests on, of a party.
    pub(super) fn rests_on_parties(&self) -> Option<Cow<'static, str>> {
        let all = self.parties()?;
        let (parties, honest) = (all.ranks(), all.honest()?.get());
        let against = match parties - honest {
            0 => "nobody is protected from a party".to_owned(),
            others => format!(
                "a record is protected from any {others} parties other than its own together"
            ),
        };
        Some(Cow::Owned(format!(
            "at least {honest} of {parties} parties add their share of the noise and keep it, their keys, masks and sums from whoever is to learn \
             nothing of a record, so that {against}"
        )))
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

    /// Refuses a spend that these ranks can't reserve together, before anything is written: see [`Together::of_parties`].
    ///
    /// # Errors
    /// [`Refused::UnsupportedSpend`].
    pub fn may_reserve(&self, spend: &Spend) -> Result<(), Refused> {
        self.party_may_reserve(spend, None)
    }

    /// Refuses what a party can't release: all but sums with Gaussian noise, of all records, of slices and of Poisson samples.
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
                why: ": parties that do not trust each other release sums with Gaussian noise, of all records, of slices and of Poisson samples",
            }),
        }
    }

    /// The standard deviation, in steps, of the noise that this process adds where that of the release is to be `scale`.
    pub(super) fn own_share(&self, scale: f64) -> Result<f64, NoiseError> {
        Ok(self.share(scale, MIN_SHARE, 1.0)?.0)
    }

    /// As [`Curator::own_share`], of the unit noise of a period, and how many draw so.
    pub(super) fn share_of_period(
        &self,
        scale: f64,
        noise: &PrefixNoise,
    ) -> Result<(f64, usize), Refused> {
        if let Some(together) = self
            .parties()
            .filter(|_| noise.kind() == PrefixKind::Honaker)
        {
            // A weighted mean of nodes is rounded by each party.
            together.trusting("a period with the noise of a reduced tree")?;
        }
        let min = 2.0 * MIN_SHARE * (noise.len() as f64).sqrt();
        Ok(self.share(scale, min, noise.worst_unit_variance())?)
    }

    /// A share of at least `min` of noise of which no sum has more than `variance` times the variance; and how many there are.
    fn share(&self, scale: f64, min: f64, variance: f64) -> Result<(f64, usize), NoiseError> {
        let all = self
            .parties()
            .and_then(|all| Some((all.ranks(), all.honest()?)));
        let Some((parties, honest)) = all else {
            return Ok((scale, 1));
        };
        // The square root and the quotient err by less than a unit each, and so does the square of this number times the parties.
        let share = scale / (honest.get() as f64).sqrt();
        let share = (0..4).fold(share, |share, _| share.next_up());
        let max = MAX_NOISE / (parties as f64 * variance).sqrt();
        if (min..=max).contains(&share) {
            return Ok((share, parties));
        }
        Err(NoiseError::ScaleOutOfRange {
            scale: share,
            min,
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

impl Prefix {
    /// A step of a party: its own sum, with what its noise of this step has more than that of the one before, is added to what was
    /// released last. No noise is left in `noise`, which held it.
    pub(super) fn add_step_of_parties(
        &mut self,
        together: &Together,
        own: &[i64],
        noise: &mut Zeroizing<Vec<i128>>,
    ) -> Result<(), Refused> {
        self.added.resize(own.len(), 0);
        let more = noise.iter().zip(self.added.iter()).zip(own);
        let more =
            more.map(|((now, before), x)| now.wrapping_sub(*before).wrapping_add((*x).into()));
        let mut step: Zeroizing<Vec<i64>> = Zeroizing::new(more.map(|k| k as i64).collect());
        together.noisy_sum("a step with noise", &mut step)?;
        for (total, k) in self.sum.iter_mut().zip(step.iter()) {
            *total = total.wrapping_add(i128::from(*k));
        }
        std::mem::swap(&mut self.added, noise);
        noise.iter_mut().for_each(|x| *x = 0);
        Ok(())
    }
}

/// What of this event is no release of a party.
fn other(event: &Event) -> Option<&Event> {
    match event {
        Event::NoOp | Event::Gaussian { .. } | Event::SingleEpochTreeAggregation { .. } => None,
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
