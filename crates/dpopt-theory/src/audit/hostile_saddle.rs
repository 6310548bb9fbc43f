//! Records that try to break a solver of saddle problems.

use dpopt_linalg::Domain;
use dpopt_minimax::{
    MeanFacts, Plan, PlanError, RgdaAnytimePlan, RgdaAnytimeSettings, SaddleFacts,
};
use dpopt_oracle::{Joint, PrivateData, PrivateMean, SaddleConstants, SaddleLoss, TwiceSaddle};
use dpopt_privacy::{Adjacency, Curator};

use super::common::budget;
use super::hostile::neighbours;
use super::{Behaviour, CheckError, Hostile, Pair};

/// A saddle loss whose records answer what they like: in x only, in y only, or in both, by their axis. Its constants are lies.
#[derive(Debug, Clone, Copy)]
pub(super) struct HostileSaddle {
    pub(super) x: usize,
    pub(super) y: usize,
}

impl SaddleLoss for HostileSaddle {
    type Records = Vec<Hostile>;

    fn x_dim(&self, _: &Vec<Hostile>) -> usize {
        self.x
    }

    fn domain(&self) -> Domain {
        Domain::ball(self.y, 1.0)
    }

    fn saddle_constants(&self, _: &Vec<Hostile>) -> SaddleConstants {
        constants()
    }

    fn value(&self, record: &Hostile, x: &[f64], _: &[f64]) -> f64 {
        record.sign * x.first().copied().unwrap_or(0.0)
    }

    fn gradient(&self, record: &Hostile, x: &[f64], y: &[f64], out: (&mut [f64], &mut [f64])) {
        if record.axis == ONE_BLOCK {
            // The same in x, whatever its sign; opposite in y.
            out.0.iter_mut().take(1).for_each(|g| *g += 1.0);
            out.1.iter_mut().take(1).for_each(|g| *g += record.sign);
            return;
        }
        let mut joint = vec![0.0; self.x + self.y];
        record.add_gradient(&[x, y].concat(), &mut joint);
        for (out, g) in out.0.iter_mut().chain(out.1).zip(joint) {
            *out += g;
        }
    }
}

impl TwiceSaddle for HostileSaddle {
    fn hessian_vector(
        &self,
        record: &Hostile,
        x: &[f64],
        y: &[f64],
        direction: &[f64],
        out: &mut [f64],
    ) {
        use Behaviour::{Flip, Hashed, NanSomewhere};
        if record.axis == ONE_BLOCK {
            let along = direction.first().copied().unwrap_or(0.0);
            out.iter_mut()
                .take(1)
                .for_each(|g| *g += record.sign * along);
            return;
        }
        if matches!(record.behaviour, Hashed | Flip | NanSomewhere) {
            record.add_gradient(&[x, y, direction].concat(), out);
            return;
        }
        let mut answer = vec![0.0; out.len()];
        record.add_gradient(&[x, y].concat(), &mut answer);
        let along = direction[record.axis % direction.len().max(1)];
        for (out, g) in out.iter_mut().zip(answer) {
            *out += if g == 0.0 { 0.0 } else { along * g };
        }
    }
}

/// The axis of a record that differs from its opposite in one block only.
const ONE_BLOCK: usize = usize::MAX;

/// Pairs that differ in x only, in y only, in both, and in one block against the other; and what is no number in one block.
pub(super) fn saddle_pairs(
    adjacency: Adjacency,
    records: usize,
    (x, _): (usize, usize),
) -> Vec<Pair<Vec<Hostile>>> {
    use Behaviour::{Constant, Flip, Hashed, Huge, Infinite, NanSomewhere};
    let of = |behaviour, axis, sign| Hostile {
        behaviour,
        axis,
        sign,
    };
    let both = |behaviour, axis, sign| (of(behaviour, axis, sign), of(behaviour, axis, -sign));
    let contents = [
        ("long in x", both(Constant, 0, 9.0)),
        ("long in y", both(Constant, x, 9.0)),
        ("huge in y", both(Huge, x + 1, 1.0)),
        ("elsewhere in x", both(Flip, 1, 1.0)),
        ("elsewhere in y", both(Flip, x, 1.0)),
        (
            "opposite in y, the same in x",
            both(Constant, ONE_BLOCK, 1.0),
        ),
        ("x against y", (of(Constant, 0, 1.0), of(Constant, x, 1.0))),
        (
            "no number in x",
            (of(NanSomewhere, 0, 1.0), of(Hashed, 0, 5.0)),
        ),
        (
            "no number in y",
            (of(NanSomewhere, x, 1.0), of(Hashed, 0, 5.0)),
        ),
        (
            "infinite in y",
            (of(Infinite, x, 1.0), of(Constant, x, 1.0)),
        ),
    ];
    let contents = contents.map(|(name, (one, other))| (name, one, other));
    let bases = [
        vec![Hostile::nothing(); records],
        vec![of(Hashed, 0, 1.0); records],
    ];
    neighbours(adjacency, &bases, &contents, &Hostile::nothing())
}

/// What is said of one record, and is a lie.
pub(super) fn constants() -> SaddleConstants {
    SaddleConstants {
        lipschitz_x: 1.0,
        lipschitz_y: 1.0,
        smooth_xx: 1.0,
        smooth_xy: 0.5,
        smooth_yy: 1.0,
        hessian_frobenius: 2.0,
    }
}

/// Facts of such records, as far as planners are told.
pub(super) fn facts(adjacency: Adjacency, records: u64, (x, y): (usize, usize)) -> SaddleFacts {
    SaddleFacts {
        records,
        adjacency,
        x_dim: x,
        domain: Domain::ball(y, 1.0),
        record: constants(),
        mean: MeanFacts {
            strong_concavity: 0.5,
            smooth_yy: 1.0,
            smooth_xy: 0.5,
            value_smoothness: 1.5,
            value_gap: 0.5,
            value_hessian_lipschitz: 1.0,
            joint_hessian_lipschitz: 1.0,
        },
        whole: true,
        rarest: None,
    }
}

/// Means of hostile records, joint as the plan asks.
pub(super) fn means<'a>(
    data: &'a PrivateData<Vec<Hostile>>,
    plan: &dyn Plan,
    curator: Curator,
) -> Result<PrivateMean<'a, Joint<HostileSaddle>>, CheckError> {
    let blocks = plan.blocks().ok_or("no blocks")?;
    let (x, y) = (blocks.x, blocks.y);
    let loss = Joint::new(HostileSaddle { x, y }, blocks.scale)?;
    Ok(PrivateMean::new(data, loss, curator)?.with_hessians())
}

/// A plan with levels and certificates, of a problem that two numbers between 0 and 1 choose; none where the budget does not pay for it.
pub(super) fn random_plan(
    adjacency: Adjacency,
    epsilon: f64,
    (records, dims): (u64, (usize, usize)),
    share: f64,
) -> Result<Option<RgdaAnytimePlan>, CheckError> {
    let mut facts = facts(adjacency, records, dims);
    facts.mean.strong_concavity = 10f64.powf(-share);
    let mut settings = RgdaAnytimeSettings::new(600);
    settings.certificate_share = 0.1 + 0.6 * share;
    match RgdaAnytimePlan::new(&facts, &budget(epsilon)?, settings) {
        Ok(plan) => Ok(Some(plan)),
        Err(PlanError::Unaffordable { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
