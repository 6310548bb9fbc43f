//! Runs of estimators: each with each kind of batches.

use std::num::NonZeroUsize;

use dpopt_oracle::{
    Access, Batch, ConvexGlm, Counts, Drift, Estimator, Fresh, Glm, Level, Means, Momentum,
    OutputPerturbed, Over, Pass, Passes as _, PeriodAnchor, PeriodTerms, PrefixRecursive,
    PrefixSettings, Recursion, Recursive, RecursiveSettings, Refresh, Regularized, Regularizer,
    Scale, Schedule, Shifted, Staged, Stages as _, Tracker, TreeRounds,
};
use dpopt_privacy::{
    Adjacency, Epsilon, Event, Participation, PrefixKind, Refused, SamplingRate, Spend,
};

use crate::run::{
    ADJACENCIES, DIM, LOSS, RECORDS, Told, batch_name, clip, curator, data, level, means, points,
    with_selection, z,
};
use crate::table::Table;

const NEAR: f64 = 0.5;
const FAR: f64 = 0.8;

pub(crate) fn all(threads: NonZeroUsize, table: &mut Table) {
    for adjacency in ADJACENCIES {
        let mut cases = Cases {
            adjacency,
            threads,
            table,
        };
        cases.running();
        cases.estimators();
        cases.recursive();
        cases.prefix();
        cases.trees();
        cases.stages();
        cases.passes();
    }
}

fn rate() -> SamplingRate {
    SamplingRate::new(0.2).unwrap()
}

fn schedule() -> Schedule {
    Schedule::new(RECORDS as u64)
}

fn momentum() -> Momentum {
    Momentum::new(0.3).unwrap()
}

fn epsilon() -> Epsilon {
    Epsilon::new(0.5).unwrap()
}

/// Anchors and variations, at most so many of each.
fn spend(anchor: Batch, variation: Batch, count: u64) -> Spend {
    schedule()
        .releases(level(anchor, NEAR), count)
        .releases(level(variation, FAR), count)
        .spend()
}

/// The estimates along a path, with a new phase before the last three points.
fn track(
    tracker: &mut dyn Tracker,
    spend: &Spend,
    told: &mut Told,
) -> Result<(Event, Counts), Refused> {
    tracker.reserve(spend)?;
    told.text(&tracker.draw_index(1_000).to_string());
    for (t, point) in points(DIM).iter().enumerate() {
        if t == 6 {
            tracker.begin_phase();
        }
        let tracked = tracker.estimate(point)?;
        told.text(&format!("{:?}", tracked.kind));
        told.estimate(tracked.estimate);
    }
    let mut normals = [0.0; 3];
    tracker.draw_normals(&mut normals)?;
    told.numbers(&normals);
    Ok((tracker.settle()?, tracker.counts()))
}

/// Anchors, variations and steps of momentum; where all records are read norms and a choice as well.
fn walk(
    estimator: &mut dyn Estimator,
    whole: bool,
    told: &mut Told,
) -> Result<(Event, Counts), Refused> {
    let points = points(DIM);
    told.text(&estimator.draw_index(1_000).to_string());
    for (t, point) in points.iter().enumerate() {
        told.estimate(match t {
            0 | 5 => estimator.refresh(point, z(NEAR))?,
            3 | 7 => estimator.advance_with_momentum(point, momentum(), z(FAR))?,
            _ => estimator.advance(point, z(FAR))?,
        });
        if t == 4 {
            told.text(&estimator.set_clip(clip(0.3)).to_string());
        }
    }
    if whole {
        let shift = [0.1; DIM];
        let shifted = Shifted {
            point: &points[3],
            shift: &shift,
        };
        told.number(estimator.norm(shifted, z(NEAR))?);
        told.number(estimator.norm(Shifted::from(&points[3][..]), z(NEAR))?);
        let among = [
            Shifted::from(&points[1][..]),
            shifted,
            Shifted::from(&points[7][..]),
            Shifted::from(&points[8][..]),
        ];
        told.text(&estimator.least_norm(&among, epsilon())?.to_string());
    }
    Ok((estimator.settle()?, estimator.counts()))
}

/// The cases under one adjacency. One that it does not allow has no line.
struct Cases<'t> {
    adjacency: Adjacency,
    threads: NonZeroUsize,
    table: &'t mut Table,
}

impl Cases<'_> {
    fn line(&mut self, name: &str, told: Told, ended: Result<(Event, Counts), Refused>) {
        match ended {
            Ok((spent, counts)) => told.line(self.table, name, self.adjacency, &spent, counts),
            Err(refused) => eprintln!("{name}\t{}\t{refused}", self.adjacency),
        }
    }

    /// A running estimate that is told what to read at each step, and goes on from an earlier release.
    fn running(&mut self) {
        let (data, points) = (data(self.adjacency), points(DIM));
        let mut running = Recursion::over(means(&data, LOSS, self.threads), clip(1.0));
        let fixed = self.adjacency != Adjacency::AddRemove;
        let whole = schedule()
            .releases(level(Batch::Everything, NEAR), 4)
            .releases(level(Batch::Poisson(rate()), FAR), 4);
        let whole = if fixed {
            whole.releases(level(Batch::Held(50), FAR), 3)
        } else {
            whole
        };
        running.means_mut().reserve(&whole.spend()).unwrap();
        let mut told = Told::new();
        told.estimate(
            running
                .anchor(&points[1], Over::Everything, z(NEAR))
                .unwrap()
                .estimate(),
        );
        let kept = running.released().clone();
        told.estimate(
            running
                .vary(&points[3], Over::Poisson(rate()), z(FAR))
                .unwrap()
                .estimate(),
        );
        let over = Over::Poisson(rate());
        let moved = running
            .vary_with_momentum(&points[4], over, momentum(), z(FAR))
            .unwrap();
        told.estimate(moved.estimate());
        running.resume(&kept).unwrap();
        told.estimate(
            running
                .vary(&points[5], Over::Everything, z(NEAR))
                .unwrap()
                .estimate(),
        );
        if fixed {
            let slice = Means::take_slice(running.means_mut(), 50).unwrap();
            for point in &points[6..8] {
                told.estimate(
                    running
                        .vary(point, Over::Slice(&slice), z(FAR))
                        .unwrap()
                        .estimate(),
                );
            }
        }
        let ended = running
            .means_mut()
            .settle()
            .map(|spent| (spent, running.means().counts()));
        self.line("running", told, ended);
    }

    /// Solvers' estimators, with and without a regulariser.
    fn estimators(&mut self) {
        let data = data(self.adjacency);
        for (access, anchor, variation, name) in [
            (
                Access::FullBatch,
                Batch::Everything,
                Batch::Everything,
                "full batch",
            ),
            (
                Access::Poisson(rate()),
                Batch::Poisson(rate()),
                Batch::Poisson(rate()),
                "poisson",
            ),
            (
                Access::FixedSize(40),
                Batch::FixedSize(40),
                Batch::FixedSize(40),
                "fixed size",
            ),
            (
                Access::SinglePass {
                    anchor: 50,
                    variation: 20,
                },
                Batch::Next(50),
                Batch::Next(20),
                "single pass",
            ),
        ] {
            let whole = access == Access::FullBatch;
            let spend = spend(anchor, variation, 8);
            let spend = if whole {
                with_selection(spend, epsilon())
            } else {
                spend
            };
            let weight = Scale::new(0.25).unwrap();
            for term in [
                None,
                Some(Regularizer::Ridge(weight)),
                Some(Regularizer::Nonconvex(weight)),
            ] {
                let plain = Recursion::over(means(&data, LOSS, self.threads), clip(1.0))
                    .with_access(access);
                let mut told = Told::new();
                let mut run = |estimator: &mut dyn Estimator| {
                    estimator.reserve(&spend)?;
                    walk(estimator, whole, &mut told)
                };
                let ended = match term {
                    None => run(&mut { plain }),
                    Some(term) => run(&mut Regularized::new(plain, term)),
                };
                let term = match term {
                    None => "no term",
                    Some(Regularizer::Ridge(_)) => "ridge",
                    Some(_) => "nonconvex term",
                };
                self.line(&format!("estimator, {name}, {term}"), told, ended);
            }
        }
    }

    /// SPIDER and fresh estimates with each kind of batch, and refreshed by number, path and squared path.
    fn recursive(&mut self) {
        let data = data(self.adjacency);
        for (anchor, variation) in [
            (Batch::Everything, Batch::Everything),
            (Batch::Poisson(rate()), Batch::Poisson(rate())),
            (Batch::FixedSize(40), Batch::FixedSize(30)),
            (Batch::Next(40), Batch::Next(12)),
            (Batch::Held(100), Batch::Held(100)),
            (Batch::Next(40), Batch::PerLength(20.0)),
            (Batch::Everything, Batch::Poisson(rate())),
            (Batch::Everything, Batch::Next(30)),
        ] {
            for (refresh, rule) in [
                (Refresh::every(3), "every 3"),
                (Refresh::on(Drift::Path(0.8)), "path"),
                (
                    Refresh::on(Drift::SquaredPath(0.4)).or_every(4),
                    "squared path or every 4",
                ),
            ] {
                let settings = RecursiveSettings {
                    clip: clip(1.0),
                    anchor: level(anchor, NEAR),
                    variation: level(variation, FAR),
                    refresh,
                };
                let mut tracker =
                    Recursive::new(means(&data, LOSS, self.threads), settings).unwrap();
                let mut told = Told::new();
                let ended = track(&mut tracker, &spend(anchor, variation, 9), &mut told);
                self.line(
                    &format!(
                        "recursive, {}, {}, {rule}",
                        batch_name(anchor),
                        batch_name(variation)
                    ),
                    told,
                    ended,
                );
            }
            let Ok(mut tracker) = Fresh::new(
                means(&data, LOSS, self.threads),
                clip(0.5),
                level(variation, FAR),
            ) else {
                continue;
            };
            let mut told = Told::new();
            let ended = track(
                &mut tracker,
                &schedule().releases(level(variation, FAR), 9).spend(),
                &mut told,
            );
            self.line(
                &format!(
                    "fresh, {}, beside {}",
                    batch_name(variation),
                    batch_name(anchor)
                ),
                told,
                ended,
            );
        }
        let settings = RecursiveSettings {
            clip: clip(1.0),
            anchor: level(Batch::Everything, NEAR),
            variation: level(Batch::Everything, FAR),
            refresh: Refresh::every(4),
        };
        let tracker = Recursive::new(means(&data, LOSS, self.threads), settings).unwrap();
        let mut tracker =
            Regularized::new(tracker, Regularizer::Nonconvex(Scale::new(0.25).unwrap()));
        let mut told = Told::new();
        let ended = track(
            &mut tracker,
            &spend(Batch::Everything, Batch::Everything, 9),
            &mut told,
        );
        self.line("recursive with a regulariser", told, ended);
    }

    /// SPIDER under prefix-sum noise of each kind, with the anchor in the period and apart.
    fn prefix(&mut self) {
        let data = data(self.adjacency);
        for kind in [
            PrefixKind::Independent,
            PrefixKind::Tree,
            PrefixKind::Honaker,
            PrefixKind::Toeplitz,
            PrefixKind::Banded { band: 3 },
        ] {
            for (participation, batch, share) in [
                (
                    Participation::Every,
                    Batch::Everything,
                    1.0 / RECORDS as f64,
                ),
                (Participation::Single, Batch::Next(25), 0.05),
                (
                    Participation::Repeated { most: 5, apart: 1 },
                    Batch::Held(60),
                    0.02,
                ),
            ] {
                for (anchor, place) in [
                    (PeriodAnchor::FirstStep(batch), "first step"),
                    (PeriodAnchor::Apart(level(batch, FAR)), "apart"),
                ] {
                    let period = PeriodTerms {
                        kind,
                        len: 5,
                        participation,
                        share: clip(share),
                        noise_multiplier: z(NEAR),
                    };
                    let refresh = Refresh::by_phase();
                    let settings = PrefixSettings {
                        clip: clip(1.0),
                        anchor,
                        variation: batch,
                        period,
                        refresh,
                    };
                    let spend = schedule().prefix(&settings, 4).unwrap().spend();
                    let name = format!("prefix, {kind}, {}, anchor {place}", batch_name(batch));
                    match PrefixRecursive::new(means(&data, LOSS, self.threads), settings) {
                        Ok(mut tracker) => {
                            let mut told = Told::new();
                            let ended = track(&mut tracker, &spend, &mut told);
                            self.line(&name, told, ended);
                        }
                        Err(error) => eprintln!("{name}\t{}\t{error}", self.adjacency),
                    }
                }
            }
        }
    }

    /// Rounds of eight leaves, with noise by displacement and by set radii.
    fn trees(&mut self) {
        let data = data(self.adjacency);
        for (batches, name) in [
            ([Batch::Everything; 4], "everything"),
            ([60, 20, 15, 10].map(Batch::Next), "next"),
            ([Batch::Poisson(rate()); 4], "poisson"),
        ] {
            let multipliers = [NEAR, 0.6, 0.7, FAR];
            let levels: Vec<Level> = batches
                .iter()
                .zip(multipliers)
                .map(|(batch, z)| level(*batch, z))
                .collect();
            let spend = levels
                .iter()
                .fold(schedule(), |schedule, level| schedule.releases(*level, 9))
                .spend();
            for radii in [vec![], vec![clip(0.9), clip(0.6), clip(0.3)]] {
                let name = format!("tree, {name}, {} radii", radii.len());
                let tree =
                    TreeRounds::new(means(&data, LOSS, self.threads), clip(1.0), levels.clone());
                let mut tree = tree.unwrap().with_radii(radii);
                let mut told = Told::new();
                let ended = track(&mut tree, &spend, &mut told);
                self.line(&name, told, ended);
            }
        }
    }

    /// Two stages, each with a slice of its own.
    fn stages(&mut self) {
        let data = data(self.adjacency);
        let mut stages = Staged::new(means(&data, LOSS, self.threads), clip(1.0));
        let spend = schedule().slice(z(NEAR), 4).slice(z(FAR), 4).spend();
        let mut told = Told::new();
        let mut run = || {
            stages.reserve(&spend)?;
            for (records, multiplier) in [(100, NEAR), (60, FAR)] {
                stages.begin_stage(records)?;
                for point in &points(DIM)[..4] {
                    told.estimate(stages.estimate(point, z(multiplier))?);
                }
            }
            Ok((stages.settle()?, stages.counts()))
        };
        let ended = run();
        self.line("stages", told, ended);
    }

    /// Passes with noise on their output.
    fn passes(&mut self) {
        let (data, points) = (data(self.adjacency), points(DIM));
        for glm in [Glm::Logistic, Glm::Huber(Scale::new(0.5).unwrap())] {
            let loss = ConvexGlm::new(glm).unwrap();
            let Ok(mut passes) = OutputPerturbed::new(&data, loss, curator(self.adjacency)) else {
                continue;
            };
            passes
                .reserve(&schedule().releases(level(Batch::Next(50), NEAR), 3).spend())
                .unwrap();
            let mut told = Told::new();
            for (t, modulus) in [0.0, 0.1, 0.5].into_iter().enumerate() {
                let pass = Pass {
                    start: &points[t],
                    centre: &points[t + 1],
                    modulus,
                    step_size: 0.3,
                    origin: &points[0],
                    radius: 2.0,
                    records: 50 + t as u64,
                };
                told.mean(&passes.pass(&pass, z(NEAR)).unwrap());
            }
            let ended = passes.settle().map(|spent| (spent, passes.counts()));
            self.line(&format!("passes, {glm}"), told, ended);
        }
    }
}
