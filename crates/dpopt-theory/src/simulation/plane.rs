//! The private gradient estimator in any dimension, in a plane, where the problem looks the same in all directions of it.

use dpopt_linalg::norm;
use dpopt_oracle::{Counts, Estimate, Estimator, Number, Shifted};
use dpopt_privacy::noise::{KeyedStream, Purpose, ReplayKeyForTests, StreamId};
use dpopt_privacy::{Adjacency, Curator, Event, NoiseMultiplier, Reads, Refused, Spend};
use rand_distr::{ChiSquared, Distribution as _, StandardNormal};

use crate::problem::{Problem, ProblemError};

/// The estimator of a protected run in d dimensions, **for simulation only**, with k + 2 numbers for the d normals of a
/// release: dimensions may be 10^12. It offers anchors and norms; variations are refused.
///
/// The problem has k + 2 coordinates, and F(v, u) depends on u in R^(d-k) through ||u - c|| alone: [`crate::Radial`] in dimension
/// 2 (k = 0), [`crate::RampBowl`] in dimension 3 (k = 1). The last two coordinates stand for u.
///
/// # Formula
/// A release at noise s per coordinate is the gradient, plus s times a normal in each of the first k coordinates, plus s z along
/// the gradient in u and s sqrt(x) across it, z standard normal and x chi-squared with d - k - 1 degrees of freedom.
///
/// # Why it has the same law
/// The gradient in u points along u - c. Of a Gaussian vector the component along a direction is a normal, and the length of the rest
/// is chi with one degree of freedom less. A step w <- w - eta g leads to a distance from c that depends on these two alone, and
/// everything later (norms, values, steps by noise that is the same in all directions) depends on that distance alone. So values,
/// norms and stops have jointly the law that they have in d dimensions, for walks that add to a point a multiple of an
/// estimate at that point. One with momentum must not be run on this.
///
/// Plan for d dimensions, then set the dimension in the plan's facts to k + 2.
pub struct PlaneEstimator<P> {
    problem: P,
    /// d - k - 1.
    across: f64,
    clip: f64,
    records: u64,
    curator: Curator,
    noise: KeyedStream,
    estimate: Vec<f64>,
    counts: Counts,
}

impl<P: Problem> PlaneEstimator<P> {
    /// An estimator as over `records` records in `dim` dimensions, at least those of `problem`, which clips to `clip`. Equal seeds
    /// give equal runs.
    ///
    /// # Errors
    /// [`ProblemError`].
    pub fn new(
        problem: P,
        dim: f64,
        clip: f64,
        records: u64,
        seed: u64,
    ) -> Result<Self, ProblemError> {
        let low = problem.dim().max(2) as f64;
        if problem.dim() < 2 || !(dim >= low) {
            return Err(ProblemError::TooFewDimensions(dim as usize));
        }
        let key = ReplayKeyForTests::from_seed(seed);
        Ok(Self {
            across: dim - low + 1.0,
            estimate: vec![0.0; problem.dim()],
            problem,
            clip,
            records,
            curator: Curator::simulated(Adjacency::ReplaceOne, seed),
            noise: key.stream(StreamId::new(Purpose::Noise, 0)),
            counts: Counts::default(),
        })
    }

    /// The problem: values at points are those in d dimensions.
    #[must_use]
    pub fn problem(&self) -> &P {
        &self.problem
    }

    /// The clipped gradient.
    fn gradient(&self, point: &[f64]) -> Result<Vec<f64>, Refused> {
        let dim = self.problem.dim();
        if point.len() != dim {
            return Err(Refused::QueryShape { dim });
        }
        let mut gradient = vec![0.0; dim];
        self.problem.gradient(point, &mut gradient);
        let kept = (self.clip / norm(&gradient)).min(1.0);
        gradient.iter_mut().for_each(|x| *x *= kept);
        Ok(gradient)
    }

    fn normal(&mut self) -> f64 {
        StandardNormal.sample(&mut self.noise)
    }

    /// Charges a release; the standard deviation of its noise.
    fn charge(&mut self, noise_multiplier: NoiseMultiplier) -> Result<f64, Refused> {
        self.curator
            .charge_simulated(Reads::All, noise_multiplier)?;
        let read = self.records as f64;
        self.counts.releases += 1;
        self.counts.records += read;
        self.counts.gradients += read;
        self.counts.passes += 1.0;
        Ok(2.0 * self.clip * noise_multiplier.get() / read)
    }
}

impl<P: Problem> Estimator for PlaneEstimator<P> {
    fn dim(&self) -> usize {
        self.problem.dim()
    }

    fn reserve(&mut self, spend: &Spend) -> Result<(), Refused> {
        self.curator.reserve(spend)
    }

    fn refresh(
        &mut self,
        point: &[f64],
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Estimate<'_>, Refused> {
        let mut released = self.gradient(point)?;
        let std = self.charge(noise_multiplier)?;
        let plane = released.len() - 2;
        for x in &mut released[..plane] {
            let z: f64 = StandardNormal.sample(&mut self.noise);
            *x += std * z;
        }
        let (x, y) = (released[plane], released[plane + 1]);
        let length = x.hypot(y);
        let (c, s) = if length > 0.0 {
            (x / length, y / length)
        } else {
            (1.0, 0.0)
        };
        // Degrees of freedom are positive.
        let square = ChiSquared::new(self.across).map_or(0.0, |law| law.sample(&mut self.noise));
        let (along, across) = (length + std * self.normal(), std * square.sqrt());
        released[plane] = c * along - s * across;
        released[plane + 1] = s * along + c * across;
        self.estimate = released;
        Ok(Estimate::new(&self.estimate, std, std))
    }

    fn advance(&mut self, _: &[f64], _: NoiseMultiplier) -> Result<Estimate<'_>, Refused> {
        Err(Refused::NotOffered { what: "variations" })
    }

    fn offers_norms(&self) -> bool {
        true
    }

    fn norm(
        &mut self,
        at: Shifted<'_>,
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Number, Refused> {
        let exact = norm(&self.gradient(at.point)?);
        let std = self.charge(noise_multiplier)?;
        Ok(Number::new(exact + std * self.normal(), std))
    }

    fn draw_index(&mut self, bound: u64) -> u64 {
        self.curator.draw_index(bound)
    }

    fn settle(&mut self) -> Result<Event, Refused> {
        self.curator.settle()
    }

    fn counts(&self) -> Counts {
        self.counts
    }
}
