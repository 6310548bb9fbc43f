//! One pass of projected gradient steps over a slice in order, released with output perturbation.
//!
//! Arora, Bassily, Gonzalez, Guzman, Menart, Ullah (arXiv 2206.00846), Algorithm 6, averaging the points after
//! each step. This is the one operation of the crate that is no mean of a query; the privacy argument is in
//! `docs/privacy/estimator.md`.

mod ranks;
mod weights;

#[cfg(test)]
mod tests;

use dpopt_linalg::{norm, norm_upper};
use dpopt_privacy::{
    Adjacency, Body, ClipNorm, Curator, NoiseMultiplier, PoolError, Refused, SensitivityClaim,
    Which,
};

use crate::data::PrivateData;
use crate::error::{AskError, EstimatorError, PassError};
use crate::loss::{ConvexSmooth, guarded};
use crate::oracle::{Answer, Books, Mean, Offers, Oracle, OracleFacts, Pass, Question};
use crate::positions::Places;
use crate::records::Records;
use weights::{influence, shares};

pub use weights::pass_influence;

/// Passes over private records.
///
/// # Formula
/// w_1 = start on the ball; for j = 1..m: w_{j+1} = P(w_j - eta (grad f(w_j; x_j) + M (w_j - c))), P the projection on
/// the ball around `origin`. Released: sum_j p_j w_{j+1} + noise, p_j proportional to (1 - eta M)^-j.
///
/// The noise has standard deviation z s in each coordinate, s being the sensitivity (of replacing one record)
/// 2 eta L0 max_{j=0..m-1} (m - j)(1 - eta M)^-(j+1) / sum_{i=1..m} (1 - eta M)^-i, and the rounding of the whole
/// computation beside it.
///
/// # Privacy
/// One event: a Gaussian release on one slice of the pool, **provided that** the loss is what
/// [`ConvexSmooth`] promises. Guarantees say so.
pub struct OutputPerturbed<'a, L: ConvexSmooth> {
    data: &'a PrivateData<L::Records>,
    loss: L,
    facts: OracleFacts,
    books: Books,
}

impl<'a, L: ConvexSmooth> OutputPerturbed<'a, L> {
    /// Passes over `data`.
    ///
    /// # Errors
    /// [`EstimatorError::AdjacencyMismatch`], [`EstimatorError::Pool`] under add/remove,
    /// [`EstimatorError::InAFile`] for records that are not in memory, and [`dpopt_privacy::Refused::NotMadeUp`] for a curator that does
    /// not protect, on records that were not declared made-up.
    pub fn new(
        data: &'a PrivateData<L::Records>,
        loss: L,
        curator: Curator,
    ) -> Result<Self, EstimatorError> {
        data.check_curator(&curator)?;
        let adjacency = data.adjacency();
        if curator.adjacency() != adjacency {
            return Err(EstimatorError::AdjacencyMismatch {
                curator: curator.adjacency(),
                data: adjacency,
            });
        }
        if !adjacency.record_count_is_public() {
            return Err(PoolError::Adjacency { adjacency }.into());
        }
        if data.stored().is_some() {
            return Err(EstimatorError::InAFile);
        }
        let constants = loss.constants_on(data.records());
        let (dim, records) = (loss.dim(data.records()), data.public_records());
        let facts = OracleFacts::new(dim, records, adjacency, Offers::PASSES)
            .with_all_constants(&constants);
        data.agree_on(&facts).map_err(Refused::from)?;
        Ok(Self {
            facts,
            data,
            loss,
            books: Books::new(curator, records).resting_on(L::ARGUMENT),
        })
    }

    /// The curator, for its ledger and guarantee.
    #[must_use]
    pub fn curator(&self) -> &Curator {
        self.books.curator()
    }

    /// The curator, to open a pool. Exchanging it for one that does not protect has all passes refused, unless the records
    /// were declared made-up.
    pub fn curator_mut(&mut self) -> &mut Curator {
        self.books.curator_mut()
    }

    /// The curator again, when no more passes are to be made.
    #[must_use]
    pub fn into_curator(self) -> Curator {
        self.books.into_curator()
    }

    /// The public numbers of a pass: checked, and with its sensitivity.
    fn terms(&self, pass: &Pass<'_>) -> Result<Terms, AskError> {
        for point in [pass.start, pass.centre, pass.origin] {
            if point.len() != self.facts.dim {
                return Err(PassError::Shape {
                    found: point.len(),
                    dim: self.facts.dim,
                }
                .into());
            }
        }
        let constants = self.loss.constants_on(self.data.records());
        let centre = norm_upper(pass.centre);
        let origin = norm_upper(pass.origin);
        // Far inside the range of numbers, so that nothing overflows and underflow is below any rounding.
        let wide = |x: f64| (1e-60..=1e60).contains(&x);
        for (name, value, fine) in [
            (
                "the Lipschitz constant",
                constants.lipschitz,
                wide(constants.lipschitz),
            ),
            (
                "the smoothness",
                constants.smoothness,
                constants.smoothness == 0.0 || wide(constants.smoothness),
            ),
            (
                "the modulus",
                pass.modulus,
                pass.modulus == 0.0 || wide(pass.modulus),
            ),
            ("the step size", pass.step_size, wide(pass.step_size)),
            ("the radius", pass.radius, wide(pass.radius)),
            ("the start", norm(pass.start), norm(pass.start) <= 1e60),
            ("the centre", centre, centre <= 1e60),
            ("the origin of the ball", origin, origin <= 1e60),
            (
                "the number of records",
                pass.records as f64,
                pass.records > 0 && pass.records <= dpopt_privacy::MAX_RECORDS,
            ),
        ] {
            if !fine {
                return Err(PassError::Terms { name, value }.into());
            }
        }
        let limit = 1.0 / (constants.smoothness + pass.modulus);
        if !(pass.step_size <= limit * (1.0 + 1e-14)) {
            return Err(PassError::StepTooLong {
                step_size: pass.step_size,
                limit,
            }
            .into());
        }
        let decay = (pass.step_size * pass.modulus).min(1.0);
        let shares = shares(decay, pass.records);
        let lipschitz = constants.lipschitz * (1.0 + 1e-9);
        // Every point of the pass is at most this long, a hair for the rounding of the projection.
        let reach =
            (origin + pass.radius) * (1.0 + 1e-6 + 4.0 * self.facts.dim as f64 * f64::EPSILON);
        let slack = self.slack(pass, decay, lipschitz, reach, centre, origin);
        let moved = self.data.adjacency().sum_sensitivity() * pass.step_size * lipschitz;
        let sensitivity = moved * influence(decay, &shares) * (1.0 + 1e-9) + 2.0 * slack;
        let longest = pass.records as f64 * (pass.step_size * lipschitz + decay * (reach + centre));
        let claim = SensitivityClaim::new(
            ClipNorm::new(sensitivity).map_err(|_| PassError::Terms {
                name: "the sensitivity",
                value: sensitivity,
            })?,
            (2.0 * reach).min(longest + slack) * (1.0 + 1e-9),
            self.facts.dim,
            self.data.adjacency(),
            L::ARGUMENT,
        )?;
        Ok(Terms {
            decay,
            shares,
            claim,
        })
    }

    /// How far the output as computed can be from the one in real numbers: `docs/privacy/estimator.md`.
    fn slack(
        &self,
        pass: &Pass<'_>,
        decay: f64,
        lipschitz: f64,
        reach: f64,
        centre: f64,
        origin: f64,
    ) -> f64 {
        let unit = f64::EPSILON;
        let before = reach + decay * (reach + centre) + pass.step_size * lipschitz;
        let rounding =
            (4.0 * self.facts.dim as f64 + 64.0) * unit * (before + reach + centre + origin);
        let gradient = self.loss.gradient_error(self.data.records(), reach);
        let step = pass.step_size * gradient + rounding;
        // Later steps shrink an error, and so do later averages.
        let steps = (pass.records as f64).min(1.0 / decay);
        1.01 * steps * (step + 16.0 * unit * reach) + 16.0 * unit * reach
    }

    /// The average of a pass over these records less its start, and the start. **Secret**.
    fn walk(
        &self,
        pass: &Pass<'_>,
        terms: &Terms,
        start: &[f64],
        places: Places<'_>,
    ) -> Result<Vec<f64>, AskError> {
        let (mut point, mut average) = (start.to_vec(), start.to_vec());
        match self.data.shard() {
            Some(shard) => {
                let with = (pass, terms, places);
                self.walk_over_ranks(shard, with, (&mut point, &mut average))?;
            }
            None => {
                let rows = places.without_order();
                let all = rows.iter().zip(&terms.shares);
                self.steps(pass, terms, all, (&mut point, &mut average));
            }
        }
        for (average, start) in average.iter_mut().zip(start) {
            *average -= start;
        }
        Ok(average)
    }

    /// Steps over records that are here, with their shares.
    fn steps<'s>(
        &self,
        pass: &Pass<'_>,
        terms: &Terms,
        over: impl Iterator<Item = (usize, &'s f64)>,
        (point, average): (&mut Vec<f64>, &mut [f64]),
    ) {
        let records = self.data.records();
        let mut gradient = vec![0.0; self.facts.dim];
        for (i, theta) in over {
            gradient.fill(0.0);
            let finished = guarded::<L, _>(|| {
                self.loss.gradient(records.record(i), point, &mut gradient);
            });
            // The promise excludes this; nothing may stop or show all the same.
            if !(finished && gradient.iter().all(|g| g.is_finite())) {
                gradient.fill(0.0);
            }
            for ((w, c), g) in point.iter_mut().zip(pass.centre).zip(&gradient) {
                *w -= terms.decay * (*w - c) + pass.step_size * g;
            }
            project(point, pass.origin, pass.radius);
            for (average, w) in average.iter_mut().zip(point.iter()) {
                *average += theta * (w - *average);
            }
        }
    }
}

struct Terms {
    /// eta M as it is multiplied with.
    decay: f64,
    shares: Vec<f64>,
    claim: SensitivityClaim,
}

impl<L: ConvexSmooth> OutputPerturbed<'_, L> {
    fn release(
        &mut self,
        pass: &Pass<'_>,
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Mean, AskError> {
        self.data.check_curator(self.books.curator())?;
        let adjacency = self.data.adjacency();
        let vanishes = L::VANISHES_ON_ERASED || !<L::Records as Records>::HAS_ERASED;
        if adjacency == Adjacency::ZeroOut && !vanishes {
            return Err(AskError::ZeroRows);
        }
        let terms = self.terms(pass)?;
        self.books.open_pool()?;
        // The weights are those of all positions: a pool of more than there are records, which its opener may have made, ends
        // with the records. A shorter walk has larger weights, and the claim would be too small.
        let unread = self
            .data
            .public_records()
            .saturating_sub(self.books.curator_mut().records_taken());
        let left = self.books.curator_mut().records_left().min(unread);
        if pass.records > left {
            return Err(PoolError::UsedUp {
                asked: pass.records,
                left,
            }
            .into());
        }
        let mut start = pass.start.to_vec();
        project(&mut start, pass.origin, pass.radius);
        let body = Body::of(self.data.public_records()).numbered(self.data.numbering());
        let next = Which::Next(pass.records);
        let curator = self.books.curator_mut();
        let ticket = curator.grant_claimed(next, body, &terms.claim, noise_multiplier)?;
        let moved = self.walk(pass, &terms, &start, Places::of(ticket.sample()))?;
        let mut released = self.books.curator_mut().redeem_claimed(ticket, &moved)?;
        for (released, start) in released.iter_mut().zip(&start) {
            *released += start;
        }
        let read = pass.records as f64;
        self.books.count(read, 1.0, 0.0);
        let noise_std = noise_multiplier.get() * terms.claim.sensitivity();
        Ok(Mean::new(released, noise_std))
    }
}

/// It answers [`Question::Pass`] alone.
impl<L: ConvexSmooth> Oracle for OutputPerturbed<'_, L> {
    fn facts(&self) -> OracleFacts {
        self.facts
    }

    fn books(&mut self) -> &mut Books {
        &mut self.books
    }

    fn answer(&mut self, question: Question<'_>) -> Result<Answer, AskError> {
        if let Some(together) = self.data.together() {
            question.note(together);
        }
        match question {
            Question::Pass { pass, noise } => Ok(Answer::Mean(self.release(&pass, noise)?)),
            other => Err(AskError::NotOffered { what: other.kind() }),
        }
    }
}

/// Brings `point` into the ball, along the line to its centre.
fn project(point: &mut [f64], origin: &[f64], radius: f64) {
    let squares: f64 = point
        .iter()
        .zip(origin)
        .map(|(w, o)| (w - o) * (w - o))
        .sum();
    let length = squares.sqrt();
    if length > radius {
        let keep = radius / length;
        for (w, o) in point.iter_mut().zip(origin) {
            *w = o + keep * (*w - o);
        }
    }
}
