//! What a planner of a saddle problem may know: constants of one record, and constants of the mean.

use dpopt_linalg::Domain;
use dpopt_oracle::{
    Blocks, Convexity, DomainStamp, Records, SaddleConstants, SaddleLoss, ScoreSaddle, Scored,
};
use dpopt_privacy::Adjacency;
use dpopt_solver::{PlanError, PublicFacts, SaddleShape};
use serde::Serialize;

/// Constants of the **mean** loss F: they decide on steps, horizons, tracking and bounds, and on no noise.
///
/// Phi(x) = max over y of F(x, y), and y*(x) is where. Public, and never computed from protected records.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct MeanFacts {
    /// m: F(x, .) is m-strongly concave on Y, for every x. ("mu" is the Gaussian-DP parameter here.)
    pub strong_concavity: f64,
    /// L_yy: Lipschitz constant of grad_y F in y; at least m.
    pub smooth_yy: f64,
    /// L_xy: Lipschitz constant of grad_x F in y, and of grad_y F in x.
    pub smooth_xy: f64,
    /// L_Phi: Lipschitz constant of grad Phi; L_xx + L_xy^2/m always is one.
    pub value_smoothness: f64,
    /// F0: at least Phi(x_0) - inf Phi; infinite where none is known.
    pub value_gap: f64,
    /// rho_Phi: Lipschitz constant of the Hessian of Phi, where y* is inside of Y; infinite where none is known.
    pub value_hessian_lipschitz: f64,
    /// rho_J: Lipschitz constant in y of the Hessian of F in (x, y); infinite where none is known.
    pub joint_hessian_lipschitz: f64,
}

impl MeanFacts {
    /// kappa_y = L_yy/m.
    #[must_use]
    pub fn condition(&self) -> f64 {
        self.smooth_yy / self.strong_concavity
    }

    /// w = L_xy/m: y* is Lipschitz with this constant, and an error of grad_y moves grad Phi by so much.
    #[must_use]
    pub fn coupling(&self) -> f64 {
        self.smooth_xy / self.strong_concavity
    }
}

/// Everything that a planner of a saddle problem may know. Nothing that depends on the records may enter here.
#[derive(Debug, Clone, PartialEq)]
pub struct SaddleFacts {
    /// Public number of records n, as [`PublicFacts::records`].
    pub records: u64,
    /// Neighbouring relation.
    pub adjacency: Adjacency,
    /// d1: coordinates of x.
    pub x_dim: usize,
    /// Y, where y is maximised over; its dimension is d2.
    pub domain: Domain,
    /// Of one record's loss: clips and noise.
    pub record: SaddleConstants,
    /// Of the mean: everything else.
    pub mean: MeanFacts,
    /// Whether the field that is released is the gradient of the loss: its clips shorten no record's, and the constants hold at every
    /// point. Without it no bound may be stated.
    pub whole: bool,
    /// The public share of a group or class that hurts a bound most, for refusals to name; none without groups. The constants know it.
    pub rarest: Option<f64>,
}

/// What runs where no bound says anything.
const WITHOUT_BOUND: &str = "gda";

impl SaddleFacts {
    /// Refuses numbers that are not positive and finite where they have to be, facts that contradict each other, and domains that
    /// are empty or unbounded.
    ///
    /// # Errors
    /// [`PlanError::BadFact`], [`PlanError::Contradiction`], [`PlanError::Domain`].
    pub fn check(&self) -> Result<(), PlanError> {
        let SaddleFacts { record, mean, .. } = self;
        for (name, value) in [
            ("records", self.records as f64),
            ("x_dim", self.x_dim as f64),
            ("lipschitz_x", record.lipschitz_x),
            ("smooth_xx", record.smooth_xx),
            ("value_smoothness", mean.value_smoothness),
        ] {
            PlanError::positive(name, value)?;
        }
        self.domain.check()?;
        // Without y it is minimisation, and the facts of y are nothing.
        if self.y_dim() == 0 {
            return Ok(());
        }
        for (name, value) in [
            ("diameter of the domain of y", self.domain.diameter()),
            ("lipschitz_y", record.lipschitz_y),
            ("record's smooth_xy", record.smooth_xy),
            ("record's smooth_yy", record.smooth_yy),
            ("strong_concavity", mean.strong_concavity),
            ("smooth_xy", mean.smooth_xy),
            ("smooth_yy", mean.smooth_yy),
        ] {
            PlanError::positive(name, value)?;
        }
        for (name, value, limit_name, limit) in [
            (
                "strong_concavity",
                mean.strong_concavity,
                "smooth_yy",
                mean.smooth_yy,
            ),
            (
                "smooth_xy",
                mean.smooth_xy,
                "record's smooth_xy",
                record.smooth_xy,
            ),
            (
                "smooth_yy",
                mean.smooth_yy,
                "record's smooth_yy",
                record.smooth_yy,
            ),
        ] {
            if value > limit * (1.0 + 1e-12) {
                return Err(PlanError::Contradiction {
                    name,
                    value,
                    limit_name,
                    limit,
                });
            }
        }
        Ok(())
    }

    /// For planners that state a bound: refuses facts of a field that clips may shorten, or whose constants are not proven at every x. What
    /// follows from them would be about another loss.
    ///
    /// # Errors
    /// [`PlanError::Shortened`].
    pub fn check_whole(&self) -> Result<(), PlanError> {
        if self.whole {
            Ok(())
        } else {
            Err(PlanError::Shortened {
                clip_x: self.record.lipschitz_x,
                clip_y: self.record.lipschitz_y,
            })
        }
    }

    /// Refuses an m that a loss is seen not to have: for each x and pair of y's, m <= <grad_y F(x, y) - grad_y F(x, y'), y' - y>/norm(y - y')^2.
    ///
    /// **Not private**: for public or made-up records. What no pair contradicts is still declared.
    ///
    /// # Shapes
    /// `points`: an x of d1, and two different y's of d2.
    ///
    /// # Errors
    /// [`PlanError::Contradiction`], with the first such number that is below m by more than rounding.
    pub fn probe<L: SaddleLoss>(
        &self,
        loss: &L,
        records: &L::Records,
        points: &[[&[f64]; 3]],
    ) -> Result<(), PlanError> {
        let m = self.mean.strong_concavity;
        for [x, y, other] in points {
            let slope = |y: &[f64]| {
                let (mut of_x, mut sum) = (vec![0.0; x.len()], vec![0.0; y.len()]);
                for i in 0..records.len() {
                    loss.gradient(records.record(i), x, y, (&mut of_x, &mut sum));
                }
                sum
            };
            let (at, there) = (slope(y), slope(other));
            let (mut fall, mut square) = (0.0, 0.0);
            for (((y, other), at), there) in y.iter().zip(*other).zip(at).zip(there) {
                fall += (at - there) * (other - y);
                square += (other - y).powi(2);
            }
            let limit = fall / (records.len() as f64 * square);
            if m > limit + 1e-9 * (m + limit.abs()) {
                return Err(PlanError::Contradiction {
                    name: "strong_concavity",
                    value: m,
                    limit_name: "that of the mean loss between two y's",
                    limit,
                });
            }
        }
        Ok(())
    }

    /// The facts of an objective that sees records through their scores, on rows of so many columns and of norm at most `row_norm`.
    #[must_use]
    pub fn scored<S: ScoreSaddle>(
        records: u64,
        adjacency: Adjacency,
        columns: usize,
        row_norm: f64,
        loss: &Scored<S>,
    ) -> Self {
        let objective = loss.objective();
        let (record, mean) = (loss.constants(row_norm), objective.mean_constants(row_norm));
        // What holds of every record holds of the mean.
        let smooth_xy = mean.smooth_xy.min(record.smooth_xy);
        Self {
            records,
            adjacency,
            x_dim: columns + objective.extra(),
            domain: objective.domain(),
            record,
            mean: MeanFacts {
                strong_concavity: mean.strong_concavity,
                smooth_yy: mean.smooth_yy.min(record.smooth_yy),
                smooth_xy,
                value_smoothness: mean.smooth_xx + smooth_xy * smooth_xy / mean.strong_concavity,
                value_gap: mean.gap,
                value_hessian_lipschitz: f64::INFINITY,
                joint_hessian_lipschitz: f64::INFINITY,
            },
            whole: loss.whole(row_norm),
            rarest: Some(objective.rarest()),
        }
    }

    /// d2: coordinates of y.
    #[must_use]
    pub fn y_dim(&self) -> usize {
        self.domain.dim()
    }

    /// The blocks of a joint point under the scale s of y.
    #[must_use]
    pub fn blocks(&self, scale: f64) -> Blocks {
        Blocks {
            x: self.x_dim,
            y: self.y_dim(),
            scale,
        }
    }

    /// What an oracle of this problem has to be under the scale s of y; absent without y, where it is one of minimisation.
    pub(crate) fn shape(&self, scale: f64) -> Option<SaddleShape> {
        (self.y_dim() > 0).then(|| SaddleShape {
            blocks: self.blocks(scale),
            domain: DomainStamp::of(&self.domain),
            lipschitz: [self.record.lipschitz_x, self.record.lipschitz_y],
            given_shares: self.rarest.is_some(),
        })
    }

    /// The facts of the joint field under the scale s of y: clip hypot(C_x, s C_y), its Lipschitz constant, d1 + d2 coordinates. The gap
    /// is that of Phi.
    #[must_use]
    pub fn joint(&self, scale: f64) -> PublicFacts {
        PublicFacts {
            records: self.records,
            dim: self.x_dim + self.y_dim(),
            adjacency: self.adjacency,
            lipschitz: self.record_alone().clip(scale),
            smoothness: self.record_alone().smoothness(scale),
            initial_gap: self.mean.value_gap,
            row_norm: f64::INFINITY,
            score: Default::default(),
            convexity: Convexity::Nonconvex,
        }
    }

    /// The constants of one record; those of y are zero without y.
    fn record_alone(&self) -> SaddleConstants {
        match self.y_dim() {
            0 => SaddleConstants {
                lipschitz_y: 0.0,
                smooth_xy: 0.0,
                smooth_yy: 0.0,
                ..self.record
            },
            _ => self.record,
        }
    }

    /// What every point satisfies, if it is the start: norm(grad Phi(x_0)) <= min(C_x, sqrt(2 L_Phi F0)). A bound that is not below
    /// it says nothing.
    #[must_use]
    pub fn trivial_bound(&self) -> f64 {
        let of_gap = (2.0 * self.mean.value_smoothness * self.mean.value_gap).sqrt();
        self.record.lipschitz_x.min(of_gap)
    }

    /// The refusal of a solver whose best bound on the gradient of Phi is `bound`.
    pub(crate) fn vacuous(&self, solver: &'static str, bound: f64, mu: f64) -> PlanError {
        PlanError::VacuousSaddle {
            solver,
            bound,
            trivial: self.trivial_bound(),
            records: self.records,
            dim: self.x_dim + self.y_dim(),
            mu,
            rarest: self.rarest,
            runs: WITHOUT_BOUND,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use dpopt_oracle::{AucSaddle, BlockClips, CellShares, EqualOpportunity, GroupDro};

    /// Constants of one, n records, d1 = d2 = 5.
    pub(crate) fn unit(records: u64) -> SaddleFacts {
        SaddleFacts {
            records,
            adjacency: Adjacency::ReplaceOne,
            x_dim: 5,
            domain: Domain::ball(5, 1.0),
            record: SaddleConstants {
                lipschitz_x: 1.0,
                lipschitz_y: 1.0,
                smooth_xx: 1.0,
                smooth_xy: 1.0,
                smooth_yy: 1.0,
                hessian_frobenius: 2.0,
            },
            mean: MeanFacts {
                strong_concavity: 1.0,
                smooth_yy: 1.0,
                smooth_xy: 1.0,
                value_smoothness: 2.0,
                value_gap: 1.0,
                value_hessian_lipschitz: 1.0,
                joint_hessian_lipschitz: 1.0,
            },
            whole: true,
            rarest: None,
        }
    }

    #[test]
    fn what_runs_without_a_bound_is_a_solver() {
        let solver = crate::solver(WITHOUT_BOUND).unwrap();
        assert_eq!(solver.bound, None);
    }

    #[test]
    fn facts_that_contradict_each_other_are_refused() {
        assert_eq!(unit(10).check(), Ok(()));
        let mut facts = unit(10);
        facts.mean.strong_concavity = 1.5;
        let error = facts.check().unwrap_err().to_string();
        assert_eq!(error, "strong_concavity can't be 1.5: smooth_yy is 1");
        facts = unit(10);
        facts.mean.smooth_xy = 2.0;
        assert!(matches!(
            facts.check(),
            Err(PlanError::Contradiction { .. })
        ));
        for m in [0.0, -1.0, f64::NAN] {
            facts = unit(10);
            facts.mean.strong_concavity = m;
            assert!(matches!(facts.check(), Err(PlanError::BadFact { .. })));
        }
        facts = unit(10);
        facts.domain = Domain::Everywhere { dim: 5 };
        assert!(matches!(facts.check(), Err(PlanError::BadFact { .. })));
    }

    /// Equal opportunity is whole where its clips are its constants, and nowhere else; the others never are.
    #[test]
    fn shortened_fields_have_no_bound() {
        let of = |shares: &CellShares, clips: Option<BlockClips>| {
            let objective = EqualOpportunity::new(shares, 1.0).unwrap();
            let loss = match clips {
                Some(clips) => Scored::new(objective, clips),
                None => Scored::with_own_clips(objective, 1.0),
            };
            SaddleFacts::scored(100, Adjacency::ReplaceOne, 3, 1.0, &loss).check_whole()
        };
        let none = BlockClips {
            x: f64::INFINITY,
            y: f64::INFINITY,
        };
        let pairs = |last| vec![[Some(0.6), Some(0.1)], [Some(0.25), Some(last)]];
        let stated = CellShares::new(pairs(0.05)).unwrap();
        assert_eq!(of(&stated, Some(none)), Ok(()));
        // A positive of the rarer group pulls with 1 + (1/0.05 + 1/0.15)/4 lengths of a row, and is cut to one.
        let refused = of(&stated, None).unwrap_err();
        assert!(matches!(refused, PlanError::Shortened { clip_x: 1.0, .. }));
        let rounded = CellShares::new(pairs(0.0505)).unwrap();
        let released = CellShares::released(&[0.6, 0.1, 0.25, 0.05], 0.01).unwrap();
        for shares in [rounded, released, CellShares::even(2).unwrap()] {
            assert!(of(&shares, Some(none)).is_err(), "{shares:?}");
        }
        // Its loss has no bound, so its gradient in y has none.
        let dro = Scored::new(GroupDro::new(&stated, true, 1.0).unwrap(), none);
        assert!(!dro.whole(1.0));
        // Its constants hold near the best a and b only.
        let auc = Scored::new(AucSaddle::new(&stated).unwrap(), none);
        assert!(!auc.whole(1.0));
    }

    #[test]
    fn without_y_it_is_minimisation() {
        let mut facts = unit(10);
        facts.domain = Domain::Everywhere { dim: 0 };
        facts.mean.strong_concavity = 0.0;
        assert_eq!(facts.check(), Ok(()));
        assert_eq!(facts.joint(1.0).dim, 5);
    }
}
