//! `saddle-certificate`: what two released norms and one released Hessian say of the value function.

use dpopt_linalg::{distance, lifted, norm};
use dpopt_oracle::query::{HessianMatrix, MAX_PRIVATE_HESSIAN_DIM, unpack_symmetric};
use dpopt_oracle::{AskError, Linear, NoSample, Offers, Oracle};
use dpopt_privacy::{ClipNorm, NoiseMultiplier, Slice, UnitError, Which};
use dpopt_solver::{
    Certified, Covered, Known, Premises, PublicFacts, ReleasedNorm, RestsOn, SecondOrderTargets,
    Withheld, normal_reach, paid,
};
use serde::Serialize;

use crate::facts::SaddleFacts;

/// Beyond this products with rows may overflow, and records count as zero.
pub(crate) const FAR: f64 = 1e100;
/// Share of a certificate's cost that is the Hessian's. A choice.
const HESSIAN_SHARE: f64 = 0.5;

/// Multipliers of the releases of a certificate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CertificateNoise {
    /// Of the norm of grad_x.
    pub x: NoiseMultiplier,
    /// Of the norm of grad_y; none without y.
    pub y: Option<NoiseMultiplier>,
    /// Of the Hessian; none for a certificate of first order.
    pub hessian: Option<NoiseMultiplier>,
}

impl CertificateNoise {
    /// The multipliers that a squared mu of `cost` pays for: half of it for the Hessian, and the norms such that the bound is the least.
    ///
    /// # Errors
    /// [`UnitError`] for a cost that no multiplier in range pays.
    pub fn for_cost(
        facts: &SaddleFacts,
        scale: f64,
        cost: f64,
        second_order: bool,
    ) -> Result<Self, UnitError> {
        let norms = if second_order {
            (1.0 - HESSIAN_SHARE) * cost
        } else {
            cost
        };
        let hessian = second_order.then(|| NoiseMultiplier::new((HESSIAN_SHARE * cost).powf(-0.5)));
        let hessian = hessian.transpose()?;
        if facts.y_dim() == 0 {
            let (x, y) = (NoiseMultiplier::new(norms.powf(-0.5))?, None);
            return Ok(Self { x, y, hessian });
        }
        // 1/z_x^2 + 1/z_y^2 = cost, and z_x + c z_y is least, at z_x = c^(1/3) z_y.
        let ratio = (facts.mean.coupling() / scale).cbrt();
        let y = ((1.0 + ratio.powi(-2)) / norms).sqrt();
        Ok(Self {
            x: NoiseMultiplier::new(ratio * y)?,
            y: Some(NoiseMultiplier::new(y)?),
            hessian,
        })
    }

    /// What it costs, in squared mu.
    #[must_use]
    pub fn cost(&self) -> f64 {
        let each = [Some(self.x), self.y, self.hessian];
        let each = each.into_iter().flatten();
        each.map(|z| z.get().powi(-2)).sum()
    }
}

/// Why a certificate says nothing of the Hessian of Phi.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum OnlyFirstOrder {
    /// y* may touch the boundary of its domain, where Phi may have no Hessian.
    DomainMayBind,
    /// No Hessian was to be released: the facts know no bound on it, or on how it changes with y, or there are too many coordinates.
    NoHessian,
    /// The released matrix can't be evaluated.
    NotEvaluated,
    /// F is convex in x, and so is Phi: its Hessian has no eigenvalue below zero, and none was released to say so.
    Convex,
}

impl std::fmt::Display for OnlyFirstOrder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::DomainMayBind => {
                "the best y may touch the boundary of its domain, where the largest value may have no second derivative"
            }
            Self::NoHessian => {
                "no Hessian was to be released: none is above 1,024 coordinates, nor without bounds on it"
            }
            Self::NotEvaluated => "the released matrix could not be evaluated",
            Self::Convex => {
                "the objective is convex in the weights, and so is its largest value: no eigenvalue of its Hessian is below zero"
            }
        })
    }
}

/// What holds at a point with probability 1 - p. Public.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SaddleCertificate {
    /// ||grad Phi(x)|| is at most that.
    pub gradient: f64,
    /// ||y - y*(x)|| is at most that.
    pub distance: f64,
    /// What is known of the Hessian of Phi at x, or why nothing is.
    pub hessian: Result<ReleasedCurvature, OnlyFirstOrder>,
    /// The released norm of grad_x.
    pub norm: ReleasedNorm,
    /// Squared mu of what was released.
    pub cost: f64,
    /// Whether all of it is for records of which each group and class has exactly its public share.
    pub given_shares: bool,
    covered: Covered,
}

/// A certificate that is not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SaddleCertificateError {
    /// A premise of the theorem does not hold. Nothing was released.
    #[error("no certificate: {0}")]
    NotCovered(#[from] Withheld),
    /// A release was refused.
    #[error(transparent)]
    Ask(#[from] AskError),
}

/// What releases at a point came to: what is certified there, if all that it rests on holds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Measured {
    pub(crate) gradient: f64,
    pub(crate) distance: f64,
    pub(crate) hessian: Result<ReleasedCurvature, OnlyFirstOrder>,
    pub(crate) norm: ReleasedNorm,
    pub(crate) cost: f64,
    /// Whether records of a slice stand for the population.
    of_population: bool,
}

impl Measured {
    /// For the end of a run, which compares what it rests on.
    pub(crate) fn certified(&self, facts: &SaddleFacts, scale: f64) -> Certified {
        let hessian = self.hessian.as_ref();
        Certified {
            reached: SecondOrderTargets {
                gradient: self.gradient,
                curvature: hessian.map_or(f64::INFINITY, |found| -found.least),
            },
            rests_on: rests_on(facts, scale, hessian.is_ok(), self.of_population),
        }
    }

    fn covered(self, facts: &SaddleFacts, covered: Covered) -> SaddleCertificate {
        SaddleCertificate {
            gradient: self.gradient,
            distance: self.distance,
            hessian: self.hessian,
            norm: self.norm,
            cost: self.cost,
            given_shares: facts.rarest.is_some(),
            covered,
        }
    }
}

/// A whole Hessian is clipped in Frobenius norm, and its margin for a sample has L.
fn rests_on(facts: &SaddleFacts, scale: f64, hessian: bool, of_population: bool) -> RestsOn {
    RestsOn {
        smoothness: of_population && hessian,
        frobenius: hessian.then(|| facts.record.frobenius(scale)),
    }
}

/// What a certificate rests on: with a Hessian or without, of the population or of the records.
pub(crate) fn premises(
    facts: &SaddleFacts,
    scale: f64,
    (hessian, of_population): (bool, bool),
) -> Premises {
    let joint = facts.joint(scale);
    let rests_on = rests_on(facts, scale, hessian, of_population);
    Premises {
        records: facts.records,
        adjacency: facts.adjacency,
        counted: true,
        unread: of_population,
        unregularized: false,
        asked: Offers::NORMS | Offers::HESSIANS,
        lipschitz: joint.lipschitz,
        smoothness: if rests_on.smoothness {
            joint.smoothness
        } else {
            f64::INFINITY
        },
        frobenius: rests_on.frobenius.unwrap_or(f64::INFINITY),
        saddle: facts.shape(scale),
    }
}

/// Refuses what the theorem does not cover, before anything is released: `sample` is that of a slice.
fn covered(
    facts: &SaddleFacts,
    scale: f64,
    hessian: bool,
    sample: Option<Result<(), NoSample>>,
    oracle: &mut dyn Oracle,
) -> Result<Covered, Withheld> {
    if !facts.whole {
        return Err(Withheld::Shortened);
    }
    let premises = premises(facts, scale, (hessian, sample.is_some()));
    premises.hold(&Known {
        sample: sample.unwrap_or(Ok(())),
        ..Known::of(&oracle.facts())
    })
}

/// What a released Hessian says of that of Phi. Public.
#[derive(Debug, Clone, PartialEq)]
pub struct ReleasedCurvature {
    /// The least eigenvalue of the Hessian of Phi is at least that.
    pub least: f64,
    /// That of the released matrix.
    pub estimate: f64,
    /// A unit eigenvector of it, in x.
    pub direction: Vec<f64>,
}

/// Releases a certificate at a joint point; none where the cap does not pay for it, or the point is too far away for products.
///
/// # Formula
/// Of the mean F of losses whose gradients and Hessians the clips leave whole, with q the upper normal quantile at p/5, t = sqrt(2 ln(5/p)), noise s_x and s_y of the
/// norms and s of the Hessian's packed coordinates, in the coordinates of the joint point:
/// - delta = (N_y + q s_y)/m >= ||y - y*(x)||;
/// - ||grad Phi(x)|| <= N_x + q s_x + L_xy delta;
/// - where y is further than delta from the boundary of Y, for any X made of the release, W = ||X||, S = [I; X]^T M' [I; X]:
///   lambda_min(hess Phi(x)) >= lambda_min(S) - s (q + sqrt 2 W (sqrt d2 + t) + W^2 (sqrt(2 d2) + t)) - rho_J delta (1 + (scale W)^2).
///
/// X is C'^-1 B'^T, with eigenvalues of C' below m raised to it. Rounding to the lattice, of the point into Y and of the eigenproblem is added. See
/// `docs/theory/minimax.md`.
///
/// # Privacy
/// Up to three Gaussian releases on all records: two norms, and a Hessian clipped in Frobenius norm. The last is left out where the first two say that
/// it is of no use.
///
/// # Errors
/// [`SaddleCertificateError::NotCovered`], before anything is released: under add-remove, whose mean is over a declared number of records; for a field
/// that clips may shorten ([`SaddleFacts::whole`]); and where the oracle's constants, domain or blocks are not those of the facts.
/// [`SaddleCertificateError::Ask`].
pub fn saddle_certificate(
    facts: &SaddleFacts,
    scale: f64,
    point: &[f64],
    (noise, failure): (&CertificateNoise, f64),
    oracle: &mut dyn Oracle,
) -> Result<Option<SaddleCertificate>, SaddleCertificateError> {
    let covered = covered(facts, scale, noise.hessian.is_some(), None, oracle)?;
    let added = Sampling::none(failure);
    let found = measured(facts, scale, point, (noise, &added), Which::All, oracle)?;
    Ok(found.map(|found| found.covered(facts, covered)))
}

/// Releases a certificate of the **population** on a slice that nothing was read of before: of the mean loss over what the records were drawn
/// from.
///
/// # Formula
/// As [`saddle_certificate`] with p/2 for the noise, and for the n' records of the slice, u = sqrt(2 ln(10/p)), L the Lipschitz constant of a record's
/// joint field: C_x u/sqrt n' more in N_x, C_y u/sqrt n' more in N_y, and of the least eigenvalue
/// L (u + 2 W (1 + u) + W^2 min(sqrt(8 ln(10 d2/p)), sqrt d2 (1 + u)))/sqrt n' less. No power of d1.
///
/// # Privacy
/// Up to three Gaussian releases on one slice, beside whatever was released of other slices.
///
/// # The caller's part
/// The point may depend on any other records, and on nothing that was computed from these: what this curator released is checked, what others
/// read can't be. The records are independent draws, in an order that
/// tells nothing.
///
/// # Errors
/// As [`saddle_certificate`]; [`Withheld::NoSample`] where something was released of the slice, or of all records or a sample of them, where the
/// curator does not know, and but under replace-one ([`dpopt_oracle::Books::check_sample_of`]).
pub fn saddle_certificate_unread(
    facts: &SaddleFacts,
    scale: f64,
    point: &[f64],
    (noise, failure): (&CertificateNoise, f64),
    (slice, oracle): (&Slice, &mut dyn Oracle),
) -> Result<Option<SaddleCertificate>, SaddleCertificateError> {
    let sample = Some(oracle.books().check_sample_of(slice));
    let covered = covered(facts, scale, noise.hessian.is_some(), sample, oracle)?;
    let added = Sampling::of(facts, scale, slice.len(), failure);
    let over = Which::Slice(slice);
    let found = measured(facts, scale, point, (noise, &added), over, oracle)?;
    Ok(found.map(|found| found.covered(facts, covered)))
}

/// What a certificate of the population adds for the sample that it is made on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sampling {
    /// p that is left for the noise.
    failure: f64,
    /// C_x u/sqrt n', s C_y u/sqrt n'.
    x: f64,
    y: f64,
    /// L u/sqrt n', L (1 + u)/sqrt n', and the bound on the block of y.
    direct: f64,
    cross: f64,
    of_y: f64,
}

impl Sampling {
    pub(crate) fn none(failure: f64) -> Self {
        Self {
            failure,
            x: 0.0,
            y: 0.0,
            direct: 0.0,
            cross: 0.0,
            of_y: 0.0,
        }
    }

    pub(crate) fn of(facts: &SaddleFacts, scale: f64, records: u64, failure: f64) -> Self {
        let root = (1.0 + 1e-12) / (records as f64).sqrt();
        let u = (2.0 * (10.0 / failure).ln()).sqrt();
        let d2 = (facts.y_dim() as f64).max(1.0);
        let joint = facts.joint(scale).smoothness * root;
        Self {
            failure: 0.5 * failure,
            x: facts.record.lipschitz_x * u * root,
            y: scale * facts.record.lipschitz_y * u * root,
            direct: joint * u,
            cross: joint * (1.0 + u),
            of_y: joint
                * (8.0 * (10.0 * d2 / failure).ln())
                    .sqrt()
                    .min(d2.sqrt() * (1.0 + u)),
        }
    }

    fn of_hessian(&self, w: f64) -> f64 {
        self.direct + 2.0 * w * self.cross + w * w * self.of_y
    }
}

/// Makes the releases of a certificate. Whoever states what they came to compares what it rests on first ([`covered`], or the end of a run).
pub(crate) fn measured(
    facts: &SaddleFacts,
    scale: f64,
    point: &[f64],
    (noise, added): (&CertificateNoise, &Sampling),
    over: Which<'_>,
    oracle: &mut dyn Oracle,
) -> Result<Option<Measured>, AskError> {
    let failure = added.failure;
    let fits = point.len() == facts.x_dim + facts.y_dim();
    if !fits || !point.iter().all(|w| w.abs() <= FAR) {
        return Ok(None);
    }
    let blocks = facts.blocks(scale);
    let q = normal_reach(failure / 5.0);
    let clip = facts.joint(scale).lipschitz;
    let Ok(radius) = ClipNorm::new(clip) else {
        return Ok(None);
    };
    let rounding = PublicFacts::rounding(clip, point.len());
    let mut cost = 0.0;
    let mut norm_of = |within, z: NoiseMultiplier, oracle: &mut dyn Oracle| {
        let field = Linear::field(point, radius);
        let released = paid(oracle.norm_within(field, Some(within), &[], (over, z)))?;
        if released.is_some() {
            cost += z.get().powi(-2);
        }
        Ok::<_, AskError>(released)
    };
    let Some(of_x) = norm_of(0..blocks.x, noise.x, oracle)? else {
        return Ok(None);
    };
    let norm = ReleasedNorm {
        step: 0,
        norm: of_x.number,
        noise_std: of_x.noise_std,
        upper: of_x.number + q * of_x.noise_std + rounding + added.x,
    };
    let (_, y) = blocks.split(point);
    let mut slope = None;
    if let Some(z) = noise.y.filter(|_| blocks.y > 0) {
        let Some(of_y) = norm_of(blocks.x..point.len(), z, oracle)? else {
            return Ok(None);
        };
        slope = Some((of_y.number + q * of_y.noise_std + rounding + added.y) / scale);
    }
    let (gradient, delta) = first_order(facts, &y, (norm.upper.max(rounding), slope));
    let mut found = Measured {
        gradient,
        distance: delta,
        hessian: Err(OnlyFirstOrder::NoHessian),
        norm,
        cost,
        of_population: matches!(over, Which::Slice(_)),
    };
    if let Some(z) = noise.hessian {
        let (hessian, paid) = curvature(facts, scale, (point, delta), (z, added), (over, oracle))?;
        found.hessian = hessian;
        found.cost += paid;
    }
    Ok(Some(found))
}

/// Upper bounds on the norm of the gradient of Phi and on the distance from y to y*: from those on the norms of grad_x, and of grad_y where
/// there is a y.
pub(crate) fn first_order(
    facts: &SaddleFacts,
    y: &[f64],
    (of_x, of_y): (f64, Option<f64>),
) -> (f64, f64) {
    let mean = &facts.mean;
    let Some(slope) = of_y else {
        return (of_x, 0.0);
    };
    // How far y is from y*, by strong concavity; and how far the nearest point of Y is from y, by rounding.
    let mut inside = y.to_vec();
    facts.domain.project(&mut inside);
    let off = distance(&inside, y);
    let delta = off + (slope.max(0.0) + mean.smooth_yy * off) / mean.strong_concavity;
    let of_distance = if delta > 0.0 {
        mean.smooth_xy * delta
    } else {
        0.0
    };
    (of_x + of_distance, delta)
}

/// What a released Hessian says at a joint point whose y is within a distance of y*, and what it cost in squared mu.
pub(crate) fn curvature(
    facts: &SaddleFacts,
    scale: f64,
    (point, delta): (&[f64], f64),
    (z, added): (NoiseMultiplier, &Sampling),
    (over, oracle): (Which<'_>, &mut dyn Oracle),
) -> Result<(Result<ReleasedCurvature, OnlyFirstOrder>, f64), AskError> {
    let (blocks, mean) = (facts.blocks(scale), &facts.mean);
    let none = (Err(OnlyFirstOrder::NoHessian), 0.0);
    if !knows_hessians(facts) {
        return Ok(none);
    }
    let (_, y) = blocks.split(point);
    // NaN is no margin.
    if !(facts.domain.margin(&y) > delta) {
        return Ok((Err(OnlyFirstOrder::DomainMayBind), 0.0));
    }
    let Ok(radius) = ClipNorm::new(facts.record.frobenius(scale)) else {
        return Ok(none);
    };
    let of = HessianMatrix { point, radius };
    let Some(released) = paid(oracle.hessian(of, over, z))? else {
        return Ok(none);
    };
    let cost = z.get().powi(-2);
    let matrix = unpack_symmetric(point.len(), &released.mean);
    let matrix = matrix.ok_or(AskError::Shape { dim: point.len() })?;
    let floor = scale * scale * mean.strong_concavity;
    // Noise beyond the range of numbers, or an iteration that does not converge on a matrix that is public by then.
    let Ok(lift) = lifted(point.len(), &matrix, blocks.x, floor) else {
        return Ok((Err(OnlyFirstOrder::NotEvaluated), cost));
    };
    let w = lift.lift;
    let spread = spread(w, blocks.y, added.failure);
    let drift = if delta > 0.0 {
        mean.joint_hessian_lipschitz * delta * (1.0 + (scale * w).powi(2))
    } else {
        0.0
    };
    let rounded = PublicFacts::rounding(radius.get(), of.coordinates()) * (1.0 + w * w);
    let sampled = added.of_hessian(w);
    let least =
        lift.least - lift.rounding - released.noise_std * spread - drift - rounded - sampled;
    let found = ReleasedCurvature {
        least,
        estimate: lift.least,
        direction: lift.direction,
    };
    Ok((Ok(found), cost))
}

/// How many deviations of the noise of a released Hessian are subtracted, for a lift of norm W.
pub(crate) fn spread(w: f64, y: usize, failure: f64) -> f64 {
    let (q, d2) = (normal_reach(failure / 5.0), y as f64);
    let t = (2.0 * (5.0 / failure).ln()).sqrt();
    q + std::f64::consts::SQRT_2 * w * (d2.sqrt() + t) + w * w * ((2.0 * d2).sqrt() + t)
}

/// Whether enough is known for a certificate of second order.
pub(crate) fn knows_hessians(facts: &SaddleFacts) -> bool {
    let coordinates = facts.x_dim + facts.y_dim();
    coordinates <= MAX_PRIVATE_HESSIAN_DIM
        && facts.record.hessian_frobenius.is_finite()
        && (facts.y_dim() == 0 || facts.mean.joint_hessian_lipschitz.is_finite())
}

/// How long a vector is, as far as it is known to be one.
pub(crate) fn unit(direction: &[f64]) -> Vec<f64> {
    let length = norm(direction);
    if !(length > 0.0) {
        return vec![0.0; direction.len()];
    }
    direction.iter().map(|u| u / length).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::tests::unit as facts;

    /// Costs add up to what was asked for, and no other ratio has a smaller bound.
    #[test]
    fn noise_of_norms_is_split_best() {
        let facts = facts(1000);
        for (scale, second) in [(0.5, true), (1.0, false), (3.0, true)] {
            let noise = CertificateNoise::for_cost(&facts, scale, 0.01, second).unwrap();
            assert!((noise.cost() / 0.01 - 1.0).abs() < 1e-12);
            assert_eq!(noise.hessian.is_some(), second);
            let (x, y) = (noise.x.get(), noise.y.unwrap().get());
            let norms = x.powi(-2) + y.powi(-2);
            let bound = |x: f64, y: f64| x + facts.mean.coupling() / scale * y;
            for change in [0.97f64, 1.03] {
                let other = x * change;
                let rest = (norms - other.powi(-2)).powf(-0.5);
                assert!(bound(other, rest) > bound(x, y));
            }
        }
    }

    /// Records that were read, whole or of this slice, and records that may be erased, certify nothing of a population: refused before anything is
    /// asked.
    #[test]
    fn certificates_of_the_population_need_a_fresh_sample() {
        use dpopt_linalg::Design;
        use dpopt_oracle::{Glm, NoSample, PrivateData, PrivateMean};
        use dpopt_privacy::{Adjacency, Curator, Event, Spend};

        let facts = facts(1000);
        let noise = CertificateNoise::for_cost(&facts, 1.0, 0.01, false).unwrap();
        let z = NoiseMultiplier::new(9.0).unwrap();
        let one = ClipNorm::new(1.0).unwrap();
        let refused = |adjacency, read: &dyn Fn(&mut PrivateMean<'_, Glm>, &Slice)| {
            let rows = Design::dense(10, vec![0.1; 200]).unwrap();
            let data = PrivateData::made_up(rows, vec![1.0; 20], one, adjacency, None).unwrap();
            let mut curator = Curator::simulated(adjacency, 1);
            let on_slices = Event::ParallelComposed {
                events: vec![Event::gaussian(z)],
            };
            let spend = Event::composed(vec![Event::gaussian(z), on_slices]);
            curator.reserve(&Spend::Fixed(spend)).unwrap();
            let mut means = PrivateMean::new(&data, Glm::Welsch, curator).unwrap();
            let slice = means.books().take_slice(10).unwrap();
            read(&mut means, &slice);
            let before = means.books().curator().spent();
            let with = (&noise, 0.05);
            let asked = (&slice, &mut means as &mut dyn Oracle);
            let found = saddle_certificate_unread(&facts, 1.0, &[0.0; 10], with, asked);
            assert_eq!(means.books().curator().spent(), before);
            found.err()
        };
        let at = [0.0; 10];
        let all = |means: &mut PrivateMean<'_, Glm>, _: &Slice| {
            means.mean(Linear::field(&at, one), Which::All, z).unwrap();
        };
        let slice = |means: &mut PrivateMean<'_, Glm>, slice: &Slice| {
            let over = Which::Slice(slice);
            means.mean(Linear::field(&at, one), over, z).unwrap();
        };
        let other = |means: &mut PrivateMean<'_, Glm>, _: &Slice| {
            let over = Which::Next(10);
            means.mean(Linear::field(&at, one), over, z).unwrap();
        };
        let nothing = |_: &mut PrivateMean<'_, Glm>, _: &Slice| {};
        use SaddleCertificateError::NotCovered;
        use Withheld::NoSample as Of;
        let replace = Adjacency::ReplaceOne;
        assert!(matches!(
            refused(replace, &all),
            Some(NotCovered(Of(NoSample::ReadBefore { .. })))
        ));
        assert!(matches!(
            refused(replace, &slice),
            Some(NotCovered(Of(NoSample::SliceRead { slice: 0 })))
        ));
        assert!(matches!(
            refused(Adjacency::ZeroOut, &nothing),
            Some(NotCovered(Of(NoSample::Adjacency { .. })))
        ));
        // The sample is fresh, and the next premise is another one: 20 records where 1000 were planned for.
        for read in [
            &nothing as &dyn Fn(&mut PrivateMean<'_, Glm>, &Slice),
            &other,
        ] {
            assert!(matches!(
                refused(replace, read),
                Some(NotCovered(Withheld::OtherRecords { found: 20, .. }))
            ));
        }
    }
}
