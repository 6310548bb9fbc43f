//! The private gradient estimator over a simulated population.

use dpopt_oracle::{
    Access, Counts, Differentiable, Estimate, Estimator, Means as _, Momentum, Number, Recursion,
    Shifted,
};
use dpopt_privacy::{Adjacency, ClipNorm, Epsilon, Event, NoiseMultiplier, Refused, Spend};

use super::means::{NoiseRule, SimulatedMeans};
use super::population::{ClosedForm, Population, WeightedLoss};
use super::weighted::WeightedRecords;
use crate::problem::Problem;

/// The [`Recursion`] of a protected run over [`SimulatedMeans`]: an [`Estimator`] of the mean gradient of
/// a [`Population`], with floating-point Gaussian noise as large as the real estimator's.
///
/// # Formula
/// Noise per coordinate of a release: s C z/m with z the noise multiplier, s the sensitivity of a
/// sum (2 under replace-one, else 1), m the public number of records read, C the clip radius: L0
/// at an anchor, unless set otherwise, and min(L1 ||w - w'||, 2 C) at a variation.
///
/// # Privacy
/// None; see [`SimulatedMeans`].
pub struct SimulatedEstimator<P: Population> {
    recursion: Recursion<SimulatedMeans<P>>,
    access: Access,
}

impl<'a, P: Problem + ?Sized> SimulatedEstimator<ClosedForm<'a, P>> {
    /// An estimator as over `records` records under `adjacency`, all with the loss of `problem`.
    /// Equal seeds give equal runs. A number of records of 0 counts as 1.
    #[must_use]
    pub fn new(problem: &'a P, records: u64, adjacency: Adjacency, seed: u64) -> Self {
        Self::over(ClosedForm::new(problem, records), adjacency, seed)
    }
}

impl<'a, L: Differentiable> SimulatedEstimator<WeightedLoss<'a, L>> {
    /// An estimator over weighted records. Equal seeds give equal runs.
    #[must_use]
    pub fn weighted(
        loss: &'a L,
        data: &'a WeightedRecords<L::Records>,
        adjacency: Adjacency,
        seed: u64,
    ) -> Self {
        Self::over(WeightedLoss::new(loss, data), adjacency, seed)
    }
}

impl<P: Population> SimulatedEstimator<P> {
    /// An estimator over any population, clipping to its L0. (Where that is infinite, to
    /// [`ClipNorm::HUGE`], with noise to match: set a radius by [`SimulatedEstimator::with_clip`].)
    #[must_use]
    pub fn over(population: P, adjacency: Adjacency, seed: u64) -> Self {
        let clip = ClipNorm::new(population.lipschitz()).unwrap_or(ClipNorm::HUGE);
        let means = SimulatedMeans::new(population, adjacency, seed);
        Self {
            recursion: Recursion::over(means, clip),
            access: Access::FullBatch,
        }
    }

    /// Clips gradients to `clip` instead.
    #[must_use]
    pub fn with_clip(mut self, clip: ClipNorm) -> Self {
        self.recursion = self.recursion.with_clip(clip);
        self
    }

    /// Reads records as `access` says.
    #[must_use]
    pub fn with_access(mut self, access: Access) -> Self {
        self.access = access;
        self.recursion = self.recursion.with_access(access);
        self
    }

    /// Scales the noise of variations by `rule` instead.
    #[must_use]
    pub fn with_rule(self, rule: NoiseRule) -> Self {
        let clip = self.recursion.clip();
        let means = self.recursion.into_means().with_rule(rule);
        Self {
            recursion: Recursion::over(means, clip).with_access(self.access),
            access: self.access,
        }
    }

    /// Everything "released" so far, as one event.
    #[must_use]
    pub fn spent(&self) -> Event {
        self.means().spent()
    }

    /// The means below.
    #[must_use]
    pub fn means(&self) -> &SimulatedMeans<P> {
        self.recursion.means()
    }
}

impl<P: Population> Estimator for SimulatedEstimator<P> {
    fn dim(&self) -> usize {
        self.means().dim()
    }

    fn reserve(&mut self, spend: &Spend) -> Result<(), Refused> {
        self.recursion.reserve(spend)
    }

    fn refresh(
        &mut self,
        point: &[f64],
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Estimate<'_>, Refused> {
        self.recursion.refresh(point, noise_multiplier)
    }

    fn advance(
        &mut self,
        point: &[f64],
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Estimate<'_>, Refused> {
        self.recursion.advance(point, noise_multiplier)
    }

    fn advance_with_momentum(
        &mut self,
        point: &[f64],
        momentum: Momentum,
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Estimate<'_>, Refused> {
        self.recursion
            .advance_with_momentum(point, momentum, noise_multiplier)
    }

    fn set_clip(&mut self, clip: ClipNorm) -> bool {
        Estimator::set_clip(&mut self.recursion, clip)
    }

    fn offers_norms(&self) -> bool {
        true
    }

    fn norm(
        &mut self,
        at: Shifted<'_>,
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Number, Refused> {
        self.recursion.norm(at, noise_multiplier)
    }

    fn least_norm(&mut self, among: &[Shifted<'_>], epsilon: Epsilon) -> Result<usize, Refused> {
        self.recursion.least_norm(among, epsilon)
    }

    fn draw_index(&mut self, bound: u64) -> u64 {
        self.recursion.draw_index(bound)
    }

    fn settle(&mut self) -> Result<Event, Refused> {
        self.recursion.settle()
    }

    fn counts(&self) -> Counts {
        self.recursion.counts()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zoo::{Ramp, RampBowl};

    fn problem() -> RampBowl {
        RampBowl::new(4, 1.0, 1.0, 0.5, Ramp::Straight, 0.1).unwrap()
    }

    fn z(value: f64) -> NoiseMultiplier {
        NoiseMultiplier::new(value).unwrap()
    }

    fn fixed(value: f64, count: u64) -> Spend {
        Spend::Fixed(Event::gaussian(z(value)).repeated(count))
    }

    #[test]
    fn the_noise_scales_are_those_of_the_real_estimator() {
        let problem = problem();
        let mut sim = SimulatedEstimator::new(&problem, 100, Adjacency::ReplaceOne, 1);
        sim.reserve(&fixed(3.0, 10)).unwrap();
        let anchor = sim.refresh(&[0.0; 4], z(3.0)).unwrap();
        assert!((anchor.release_std - 2.0 * 3.0 / 100.0).abs() < 1e-15);
        let step = sim.advance(&[0.3, 0.4, 0.0, 0.0], z(3.0)).unwrap();
        // The radius of a variation is rounded up by 1e-12.
        assert!((step.release_std - 0.5 * 2.0 * 3.0 / 100.0).abs() < 1e-13);
        assert!((step.noise_std - 1.25f64.sqrt() * 2.0 * 3.0 / 100.0).abs() < 1e-13);
        let far = sim.advance(&[1e9, 0.0, 0.0, 0.0], z(3.0)).unwrap();
        assert!((far.release_std - 2.0 * 2.0 * 3.0 / 100.0).abs() < 1e-15);

        let mut broken = SimulatedEstimator::new(&problem, 100, Adjacency::AddRemove, 1)
            .with_rule(NoiseRule::Lipschitz);
        broken.reserve(&fixed(3.0, 10)).unwrap();
        let tiny = broken.advance(&[1e-9, 0.0, 0.0, 0.0], z(3.0)).unwrap();
        assert!((tiny.release_std - 2.0 * 3.0 / 100.0).abs() < 1e-15);
    }

    #[test]
    fn a_step_of_zero_releases_and_charges_nothing() {
        let problem = problem();
        let mut sim = SimulatedEstimator::new(&problem, 100, Adjacency::ReplaceOne, 1);
        sim.reserve(&fixed(3.0, 1)).unwrap();
        let point = [0.1, 0.2, 0.3, 0.4];
        let before = sim.refresh(&point, z(3.0)).unwrap().gradient.to_vec();
        // The reservation is used up, and still this is no refusal.
        let held = sim.advance(&point, z(3.0)).unwrap();
        assert_eq!((held.gradient, held.release_std), (&before[..], 0.0));
        assert_eq!(sim.spent().release_count(), 1);
        assert_eq!(sim.counts().gradients, 100.0);
    }

    #[test]
    fn only_what_was_reserved_is_released() {
        let problem = problem();
        let mut sim = SimulatedEstimator::new(&problem, 100, Adjacency::ReplaceOne, 1);
        assert!(matches!(
            sim.refresh(&[0.0; 4], z(1.0)),
            Err(Refused::NotReserved { .. })
        ));
        sim.reserve(&fixed(1.0, 2)).unwrap();
        assert!(matches!(
            sim.reserve(&fixed(1.0, 2)),
            Err(Refused::AlreadyReserved)
        ));
        sim.refresh(&[0.0; 4], z(1.0)).unwrap();
        assert!(sim.refresh(&[0.0; 4], z(0.5)).is_err());
        sim.advance(&[1.0; 4], z(1.0)).unwrap();
        assert!(sim.refresh(&[0.0; 4], z(1.0)).is_err());
        assert_eq!(sim.settle().unwrap().release_count(), 2);
        assert_eq!(sim.counts().gradients, 300.0);
    }

    #[test]
    fn equal_seeds_give_equal_runs() {
        let problem = problem();
        let run = |seed| {
            let mut sim = SimulatedEstimator::new(&problem, 100, Adjacency::ReplaceOne, seed);
            sim.reserve(&fixed(1.0, 2)).unwrap();
            let index = sim.draw_index(1 << 40);
            let mut all = sim.refresh(&[0.1; 4], z(1.0)).unwrap().gradient.to_vec();
            all.extend(sim.advance(&[0.2; 4], z(1.0)).unwrap().gradient);
            (index, all)
        };
        assert_eq!(run(5), run(5));
        assert_ne!(run(5), run(6));
    }
}
