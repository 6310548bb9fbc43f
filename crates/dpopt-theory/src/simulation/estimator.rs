//! The private estimator on a problem that is known in closed form.

use dpopt_linalg::distance;
use dpopt_oracle::{Counts, Estimate, Estimator};
use dpopt_privacy::noise::{KeyedStream, Purpose, ReplayKeyForTests, StreamId};
use dpopt_privacy::{Adjacency, Event, NoiseMultiplier, Refused, Spend};
use rand::Rng as _;
use rand_distr::{Distribution as _, StandardNormal};

use crate::problem::Problem;

/// How large the noise of a variation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoiseRule {
    /// By the clip radius of the difference, min(L1 ||w - w'||, 2 L0): what
    /// [`PrivateGradient`](dpopt_oracle::PrivateGradient) does.
    Displacement,
    /// By 2 L0 whatever the displacement: a broken twin. It protects as well, but forgoes what a
    /// difference is asked for, and the rate with it. For controls of experiments only.
    Lipschitz,
}

/// An [`Estimator`] that knows the mean gradient of a [`Problem`] and adds floating-point Gaussian
/// noise as large as the real estimator's.
///
/// # Formula
/// Noise per coordinate of a release: s C z/n with z the noise multiplier, s the sensitivity of a
/// sum (2 under replace-one, else 1), C = L0 at an anchor and min(L1 ||w - w'||, 2 L0) at a
/// variation. Nothing is clipped: the constants of a [`Problem`] are exact.
///
/// Reservations are kept, matched and settled as the curator keeps them.
///
/// # Privacy
/// None: there are no records, the noise is floating point and can be repeated from the seed. It
/// has no way to state a guarantee.
pub struct SimulatedEstimator<'a, P: ?Sized> {
    problem: &'a P,
    records: u64,
    adjacency: Adjacency,
    rule: NoiseRule,
    key: ReplayKeyForTests,
    noise: KeyedStream,
    draws: u32,
    point: Vec<f64>,
    exact: Vec<f64>,
    scratch: Vec<f64>,
    estimate: Vec<f64>,
    noise_variance: f64,
    reserved: Option<Reservation>,
    spent: Vec<(Event, u64)>,
    counts: Counts,
}

struct Reservation {
    all: Vec<(Event, u64)>,
    left: Vec<(Event, u64)>,
}

impl<'a, P: Problem + ?Sized> SimulatedEstimator<'a, P> {
    /// An estimator as over `records` records under `adjacency`, all with the loss of `problem`.
    /// Equal seeds give equal runs. A number of records of 0 counts as 1.
    #[must_use]
    pub fn new(problem: &'a P, records: u64, adjacency: Adjacency, seed: u64) -> Self {
        let dim = problem.dim();
        let key = ReplayKeyForTests::from_seed(seed);
        let noise = key.stream(StreamId::new(Purpose::Noise, 0));
        Self {
            problem,
            records: records.max(1),
            adjacency,
            rule: NoiseRule::Displacement,
            key,
            noise,
            draws: 0,
            point: vec![0.0; dim],
            exact: initial_gradient(problem),
            scratch: vec![0.0; dim],
            estimate: vec![0.0; dim],
            noise_variance: 0.0,
            reserved: None,
            spent: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// Scales the noise of variations by `rule` instead.
    #[must_use]
    pub fn with_rule(mut self, rule: NoiseRule) -> Self {
        self.rule = rule;
        self
    }

    /// Everything "released" so far, as one event.
    #[must_use]
    pub fn spent(&self) -> Event {
        Event::composed(
            self.spent
                .iter()
                .map(|(event, count)| event.clone().repeated(*count))
                .collect(),
        )
    }

    /// Takes one release off the reservation.
    fn charge(&mut self, noise_multiplier: NoiseMultiplier, gradients: u64) -> Result<(), Refused> {
        let event = Event::gaussian(noise_multiplier);
        let left = self
            .reserved
            .as_mut()
            .and_then(|r| r.left.iter_mut().find(|(leaf, n)| *n > 0 && *leaf == event));
        let Some((_, left)) = left else {
            return Err(Refused::NotReserved { event, slice: None });
        };
        *left -= 1;
        match self.spent.iter_mut().find(|(known, _)| *known == event) {
            Some((_, count)) => *count += 1,
            None => self.spent.push((event, 1)),
        }
        self.counts.releases += 1;
        self.counts.gradients += gradients as f64 * self.records as f64;
        self.counts.passes = self.counts.gradients / self.records as f64;
        Ok(())
    }

    /// s C z/n.
    fn noise_std(&self, radius: f64, noise_multiplier: NoiseMultiplier) -> f64 {
        self.adjacency.sum_sensitivity() * radius * noise_multiplier.get() / self.records as f64
    }

    fn current(&self, release_std: f64) -> Estimate<'_> {
        Estimate::new(&self.estimate, self.noise_variance.sqrt(), release_std)
    }
}

fn initial_gradient<P: Problem + ?Sized>(problem: &P) -> Vec<f64> {
    let origin = vec![0.0; problem.dim()];
    let mut gradient = origin.clone();
    problem.gradient(&origin, &mut gradient);
    gradient
}

impl<P: Problem + ?Sized> Estimator for SimulatedEstimator<'_, P> {
    fn dim(&self) -> usize {
        self.problem.dim()
    }

    fn reserve(&mut self, spend: &Spend) -> Result<(), Refused> {
        if self.reserved.is_some() {
            return Err(Refused::AlreadyReserved);
        }
        let all = spend.event().leaves();
        if let Some((event, _)) = all
            .iter()
            .find(|(leaf, _)| !matches!(leaf, Event::Gaussian { .. }))
        {
            return Err(Refused::UnsupportedSpend {
                event: event.clone(),
                why: "",
            });
        }
        let left = all.clone();
        self.reserved = Some(Reservation { all, left });
        Ok(())
    }

    fn refresh(
        &mut self,
        point: &[f64],
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Estimate<'_>, Refused> {
        self.charge(noise_multiplier, 1)?;
        let std = self.noise_std(self.problem.lipschitz(), noise_multiplier);
        self.point.copy_from_slice(point);
        self.problem.gradient(point, &mut self.exact);
        for (estimate, exact) in self.estimate.iter_mut().zip(&self.exact) {
            let z: f64 = StandardNormal.sample(&mut self.noise);
            *estimate = exact + std * z;
        }
        self.noise_variance = std * std;
        Ok(self.current(std))
    }

    fn advance(
        &mut self,
        point: &[f64],
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Estimate<'_>, Refused> {
        let reach = self.problem.smoothness() * distance(point, &self.point);
        let cap = 2.0 * self.problem.lipschitz();
        if reach == 0.0 {
            return Ok(self.current(0.0));
        }
        self.charge(noise_multiplier, 2)?;
        let radius = match self.rule {
            NoiseRule::Displacement => reach.min(cap),
            NoiseRule::Lipschitz => cap,
        };
        let std = self.noise_std(radius, noise_multiplier);
        self.point.copy_from_slice(point);
        self.problem.gradient(point, &mut self.scratch);
        for ((estimate, new), old) in self.estimate.iter_mut().zip(&self.scratch).zip(&self.exact) {
            let z: f64 = StandardNormal.sample(&mut self.noise);
            *estimate += new - old + std * z;
        }
        std::mem::swap(&mut self.exact, &mut self.scratch);
        self.noise_variance += std * std;
        Ok(self.current(std))
    }

    fn draw_index(&mut self, bound: u64) -> u64 {
        let id = StreamId::new(Purpose::Perturbation, self.draws);
        self.draws = self.draws.wrapping_add(1);
        let word = self.key.stream(id).next_u64();
        ((u128::from(word) * u128::from(bound)) >> 64) as u64
    }

    fn settle(&mut self) -> Result<Event, Refused> {
        let Some(Reservation { all, left }) = self.reserved.take() else {
            return Ok(Event::NoOp);
        };
        Ok(Event::composed(
            all.into_iter()
                .zip(left)
                .filter(|((_, total), (_, left))| total > left)
                .map(|((event, total), (_, left))| event.repeated(total - left))
                .collect(),
        ))
    }

    fn counts(&self) -> Counts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ramp_bowl::{Ramp, RampBowl};

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
        assert!((step.release_std - 0.5 * 2.0 * 3.0 / 100.0).abs() < 1e-15);
        assert!((step.noise_std - 1.25f64.sqrt() * 2.0 * 3.0 / 100.0).abs() < 1e-15);
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
