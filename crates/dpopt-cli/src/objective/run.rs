//! Runs of a saddle problem, and the certificate after one.

use std::num::NonZeroUsize;

use dpopt::nonconvex::{Observer, Outcome, Plan, Run, RunError, Stop};
use dpopt::oracle::{Cell, Joint, PrivateData, PrivateMean, SaddleLoss, ScoreSaddle, Scored};
use dpopt::privacy::Curator;

use super::{Built, CERTIFICATE_FAILS, Dual, Ready, Trained, Uncertified};
use crate::certified::Certified;

impl Ready {
    /// Runs the plan, and certifies the result where that was wanted.
    pub(crate) fn run(
        &self,
        data: &PrivateData,
        plan: &dyn Plan,
        curator: Curator,
        threads: NonZeroUsize,
        observer: &mut dyn Observer,
    ) -> Result<Trained, RunError> {
        let with = (data, plan, curator, threads, self.columns);
        match &self.built {
            Built::GroupDro(of) => self.run_of(of, with, observer),
            Built::EqualOpportunity(of) => self.run_of(of, with, observer),
            Built::Auc(of) => self.run_of(of, with, observer),
        }
    }

    /// What the public weight of the dual regulariser tells already.
    pub(crate) fn odd(&self) -> Option<String> {
        let Built::GroupDro(of) = &self.built else {
            return None;
        };
        let of = of.objective();
        let (groups, weight) = (of.groups().len(), of.mean_constants(1.0).strong_concavity);
        let room = weight / groups as f64;
        (room < 0.25).then(|| {
            format!(
                "--dual-weight {weight} is below {} for {groups} groups: where the loss of one is {room:.2} below their mean its weight is zero, \
                 all weight may come to lie on a few, and the pair may swing",
                0.25 * groups as f64
            )
        })
    }

    fn run_of<S: ScoreSaddle + Clone>(
        &self,
        loss: &Scored<S>,
        with: With<'_>,
        observer: &mut dyn Observer,
    ) -> Result<Trained, RunError> {
        let (data, threads, columns) = (with.0, with.3, with.4);
        let (mut outcome, x, mut curator, dual) = run(loss.clone(), with, observer)?;
        let mut certificate = None;
        if let Some((plan, excess)) = self.certify {
            let found = if outcome.stop == Stop::ByObserver {
                Err(Uncertified::told(
                    "the run was stopped, and its result was not certified",
                ))
            } else {
                let at = (&x[..], &dual.values[..], excess);
                match plan.release(loss.objective(), data, at, curator, threads) {
                    Ok((found, back)) => {
                        curator = back;
                        found.ok_or_else(|| {
                            Uncertified::told("the result is too far away for products")
                        })
                    }
                    Err(failed) => {
                        // The run is paid for and its result is true, whatever became of the certificate.
                        curator = *failed.curator;
                        let why = failed.why.to_string();
                        Err(Uncertified {
                            why,
                            broke_off: true,
                        })
                    }
                }
            };
            certificate = Some(
                found.map(|found| Certified::new(&found, 1.0 - CERTIFICATE_FAILS, self.released)),
            );
        }
        outcome.point = x[..columns.min(x.len())].to_vec();
        Ok(Trained {
            outcome,
            curator,
            dual,
            certificate,
        })
    }

    /// The coordinate of y that is of a cell.
    pub(crate) fn dual_of(&self, cell: Cell) -> Option<usize> {
        match &self.built {
            Built::GroupDro(of) => of
                .objective()
                .groups()
                .iter()
                .position(|cells| cells.contains(&cell)),
            Built::EqualOpportunity(of) => {
                let groups = of.objective().groups().iter();
                groups
                    .clone()
                    .position(|group| *group == cell.group)
                    .filter(|_| cell.positive)
            }
            Built::Auc(_) => None,
        }
    }
}

type With<'a> = (&'a PrivateData, &'a dyn Plan, Curator, NonZeroUsize, usize);

fn run<S: ScoreSaddle>(
    loss: Scored<S>,
    (data, plan, curator, threads, _): With<'_>,
    observer: &mut dyn Observer,
) -> Result<(Outcome, Vec<f64>, Curator, Dual), RunError> {
    let domain = loss.domain();
    let Some(blocks) = plan.blocks() else {
        return Err(RunError::Blocks {
            solver: plan.name(),
            plan: None,
            oracle: None,
        });
    };
    let joint = Joint::new(loss, blocks.scale).map_err(|_| RunError::Blocks {
        solver: plan.name(),
        plan: plan.blocks(),
        oracle: None,
    })?;
    let start = blocks.join(&vec![0.0; blocks.x], &domain.middle());
    let mut means = PrivateMean::new(data, joint, curator)?.with_threads(threads);
    let run = Run::new(observer).starting_at(Some(&start));
    let outcome = plan.run_with(&mut means, run)?;
    let (x, values) = blocks.split(&outcome.point);
    Ok((outcome, x, means.into_curator(), Dual { values }))
}
