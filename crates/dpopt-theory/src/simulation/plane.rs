//! The private gradient estimator on a radial problem of any dimension, in a plane.

use dpopt_linalg::norm;
use dpopt_oracle::{Counts, Estimate, Estimator, Number, Shifted};
use dpopt_privacy::noise::{KeyedStream, Purpose, ReplayKeyForTests, StreamId};
use dpopt_privacy::{Adjacency, Curator, Event, NoiseMultiplier, Reads, Refused, Spend};
use rand_distr::{ChiSquared, Distribution as _, StandardNormal};

use crate::problem::{Problem as _, ProblemError};
use crate::zoo::{Profile, Radial};

/// The estimator of a protected run on phi(||w - c||) in d dimensions, **for simulation only**, with two numbers for the d normals of a
/// release: dimensions may be 10^12. It offers anchors and norms; variations are refused.
///
/// # Formula
/// Points have 2 coordinates. A release at noise s per coordinate is the gradient of the problem in the plane, plus s z along it
/// and s sqrt(c) across it, z standard normal and c chi-squared with d - 1 degrees of freedom.
///
/// # Why it has the same law
/// The gradient points along w - c. Of a Gaussian vector the component along a direction is a normal, and the length of the rest
/// is chi with d - 1 degrees of freedom. A step w <- w - eta g leads to a radius that depends on these two alone, and everything
/// later (norms, values, steps by noise that is the same in all directions) depends on the radius alone. So the radii, the
/// norms and the stops have jointly the law that they have in d dimensions, for walks that add to a point a multiple of an
/// estimate at that point. One with momentum must not be run on this.
///
/// Plan for d dimensions, then set the dimension in the plan's facts to 2.
pub struct PlaneEstimator<P> {
    problem: Radial<P>,
    /// d - 1.
    across: f64,
    clip: f64,
    records: u64,
    curator: Curator,
    noise: KeyedStream,
    estimate: Vec<f64>,
    counts: Counts,
}

impl<P: Profile> PlaneEstimator<P> {
    /// An estimator as over `records` records in `dim` dimensions (at least 2), which clips to `clip`, started at radius `start`
    /// from the centre. Equal seeds give equal runs.
    ///
    /// # Errors
    /// [`ProblemError`].
    pub fn new(
        profile: P,
        dim: f64,
        start: f64,
        clip: f64,
        records: u64,
        seed: u64,
    ) -> Result<Self, ProblemError> {
        if !(dim >= 2.0) {
            return Err(ProblemError::TooFewDimensions(dim as usize));
        }
        let key = ReplayKeyForTests::from_seed(seed);
        Ok(Self {
            problem: Radial::new(profile, 2, start, start)?,
            across: dim - 1.0,
            clip,
            records,
            curator: Curator::simulated(Adjacency::ReplaceOne, seed),
            noise: key.stream(StreamId::new(Purpose::Noise, 0)),
            estimate: vec![0.0; 2],
            counts: Counts::default(),
        })
    }

    /// The problem in the plane: values at points are those in d dimensions.
    #[must_use]
    pub fn problem(&self) -> &Radial<P> {
        &self.problem
    }

    /// The clipped gradient, in the plane.
    fn gradient(&self, point: &[f64]) -> Result<[f64; 2], Refused> {
        if point.len() != 2 {
            return Err(Refused::QueryShape { dim: 2 });
        }
        let mut gradient = [0.0; 2];
        self.problem.gradient(point, &mut gradient);
        let kept = (self.clip / norm(&gradient)).min(1.0);
        Ok(gradient.map(|x| x * kept))
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

impl<P: Profile> Estimator for PlaneEstimator<P> {
    fn dim(&self) -> usize {
        2
    }

    fn reserve(&mut self, spend: &Spend) -> Result<(), Refused> {
        self.curator.reserve(spend)
    }

    fn refresh(
        &mut self,
        point: &[f64],
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Estimate<'_>, Refused> {
        let [x, y] = self.gradient(point)?;
        let std = self.charge(noise_multiplier)?;
        let length = x.hypot(y);
        let (c, s) = if length > 0.0 {
            (x / length, y / length)
        } else {
            (1.0, 0.0)
        };
        let z: f64 = StandardNormal.sample(&mut self.noise);
        // Degrees of freedom are positive.
        let square = ChiSquared::new(self.across).map_or(0.0, |law| law.sample(&mut self.noise));
        let (along, across) = (length + std * z, std * square.sqrt());
        self.estimate = vec![c * along - s * across, s * along + c * across];
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
        let [x, y] = self.gradient(at.point)?;
        let std = self.charge(noise_multiplier)?;
        let z: f64 = StandardNormal.sample(&mut self.noise);
        Ok(Number::new(x.hypot(y) + std * z, std))
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
