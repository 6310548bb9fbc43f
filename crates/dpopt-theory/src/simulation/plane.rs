//! A private oracle in any dimension, in a plane, where the problem looks the same in all directions of it.

use dpopt_linalg::{add_scaled, norm};
use dpopt_oracle::{
    Answer, AskError, Books, Linear, Mean, Number, Offers, Oracle, OracleFacts, Question,
};
use dpopt_privacy::noise::{KeyedStream, Purpose, ReplayKeyForTests, StreamId};
use dpopt_privacy::{Adjacency, Curator, NoiseMultiplier, Which};
use rand_distr::{ChiSquared, Distribution as _, StandardNormal};

use crate::problem::{Problem, ProblemError};

/// The oracle of a protected run in d dimensions, **for simulation only**, with k + 2 numbers for the d normals of a
/// release: dimensions may be 10^12. It answers for fields and their norms on all records; changes are refused.
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
/// Plan for d dimensions, and run the plan [`crate::Within`] k + 2 coordinates.
pub struct PlaneOracle<P> {
    problem: P,
    /// d - k - 1.
    across: f64,
    facts: OracleFacts,
    books: Books,
    noise: KeyedStream,
}

impl<P: Problem> PlaneOracle<P> {
    /// As over `records` records in `dim` dimensions, at least those of `problem`. Equal seeds give equal runs.
    ///
    /// # Errors
    /// [`ProblemError`].
    pub fn new(problem: P, dim: f64, records: u64, seed: u64) -> Result<Self, ProblemError> {
        let low = problem.dim().max(2) as f64;
        if problem.dim() < 2 || !(dim >= low) {
            return Err(ProblemError::TooFewDimensions(dim as usize));
        }
        let key = ReplayKeyForTests::from_seed(seed);
        let (adjacency, offers) = (Adjacency::ReplaceOne, Offers::MEANS | Offers::NORMS);
        Ok(Self {
            across: dim - low + 1.0,
            facts: OracleFacts::new(problem.dim(), records, adjacency, offers),
            books: Books::new(Curator::simulated(adjacency, seed), records),
            problem,
            noise: key.stream(StreamId::new(Purpose::Noise, 0)),
        })
    }

    /// The problem: values at points are those in d dimensions.
    #[must_use]
    pub fn problem(&self) -> &P {
        &self.problem
    }

    /// The clipped gradient plus a shift.
    fn gradient(&self, of: Linear<'_>, shift: &[f64]) -> Result<Vec<f64>, AskError> {
        let dim = self.facts.dim;
        if of.before().is_some() {
            return Err(AskError::NotOffered { what: "changes" });
        }
        if !(of.fits(dim) && (shift.is_empty() || shift.len() == dim)) {
            return Err(AskError::Shape { dim });
        }
        let mut gradient = vec![0.0; dim];
        self.problem.gradient(of.point(), &mut gradient);
        let kept = (of.clip().get() / norm(&gradient)).min(1.0);
        gradient.iter_mut().for_each(|x| *x *= kept);
        if !shift.is_empty() {
            add_scaled(&mut gradient, 1.0, shift);
        }
        Ok(gradient)
    }

    fn normal(&mut self) -> f64 {
        StandardNormal.sample(&mut self.noise)
    }

    /// Charges a release; the standard deviation of its noise.
    fn charge(&mut self, of: Linear<'_>, z: NoiseMultiplier) -> Result<f64, AskError> {
        let records = self.facts.records;
        let curator = self.books.curator_mut();
        curator.charge_simulated(Which::All, records, z)?;
        let read = self.facts.records as f64;
        self.books.count(read, 1.0, 0.0);
        Ok(2.0 * of.clip().get() * z.get() / read)
    }

    /// The gradient in the plane, with the noise of d dimensions.
    fn release(&mut self, mut released: Vec<f64>, std: f64) -> Vec<f64> {
        let plane = released.len() - 2;
        for x in &mut released[..plane] {
            *x += std * self.normal();
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
        released
    }
}

impl<P: Problem> Oracle for PlaneOracle<P> {
    fn facts(&self) -> OracleFacts {
        self.facts
    }

    fn books(&mut self) -> &mut Books {
        &mut self.books
    }

    fn answer(&mut self, question: Question<'_>) -> Result<Answer, AskError> {
        match question {
            Question::Mean {
                of,
                over: Which::All,
                noise,
            } => {
                let exact = self.gradient(of, &[])?;
                let std = self.charge(of, noise)?;
                Ok(Answer::Mean(Mean::new(self.release(exact, std), std)))
            }
            Question::Norm {
                of,
                within: None,
                shift,
                over: Which::All,
                noise,
            } => {
                let exact = norm(&self.gradient(of, shift)?);
                let std = self.charge(of, noise)?;
                Ok(Answer::Number(Number::new(
                    exact + std * self.normal(),
                    std,
                )))
            }
            other => Err(AskError::NotOffered { what: other.kind() }),
        }
    }
}
