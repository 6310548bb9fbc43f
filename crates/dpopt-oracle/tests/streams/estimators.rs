//! Runs of estimators: each with each kind of batches.

use std::num::NonZeroUsize;

use dpopt_oracle::{
    AskError, AveragedMeans, Batch, ConvexGlm, Counts, Drift, Estimate, Fresh, FreshSlopes, Glm,
    Level, Linear, Momentum, Oracle, OutputPerturbed, Pass, PeriodAnchor, PeriodTerms,
    PrefixRecursive, PrefixSettings, Recursive, RecursiveSettings, Refresh, Regularized,
    Regularizer, Running, Scale, Schedule, SmoothedFields, SmoothedMeans, Smoothing, Tracked,
    TreeRounds,
};
use dpopt_privacy::{
    Adjacency, Epsilon, Event, Participation, PrefixKind, SamplingRate, Spend, Which,
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
        cases.smoothed();
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

/// A step of an estimator that has its rule from a plan; none begins a phase.
type Ask<'t> = dyn FnMut(&mut dyn Oracle, Option<&[f64]>, &mut Told) -> Result<(), AskError> + 't;

macro_rules! ask {
    ($tracker:ident) => {
        &mut |oracle: &mut dyn Oracle, point: Option<&[f64]>, told: &mut Told| {
            let Some(point) = point else {
                $tracker.begin_phase();
                return Ok(());
            };
            tell($tracker.estimate(oracle, point)?, told);
            Ok(())
        }
    };
}

fn tell(tracked: Tracked<'_>, told: &mut Told) {
    told.text(&format!("{:?}", tracked.kind));
    told.estimate(tracked.estimate);
}

/// The estimates along a path, with a new phase before the last three points.
fn track(
    oracle: &mut dyn Oracle,
    ask: &mut Ask<'_>,
    spend: &Spend,
    told: &mut Told,
) -> Result<(Event, Counts), AskError> {
    oracle.books().reserve(spend)?;
    told.text(&oracle.books().draw_index(1_000).to_string());
    for (t, point) in points(DIM).iter().enumerate() {
        if t == 6 {
            ask(oracle, None, told)?;
        }
        ask(oracle, Some(point), told)?;
    }
    let mut normals = [0.0; 3];
    oracle.books().draw_normals(&mut normals)?;
    told.numbers(&normals);
    Ok((oracle.books().settle()?, oracle.books().counts()))
}

/// Anchors, variations and steps of momentum; where all records are read norms and a choice as well.
fn walk(
    oracle: &mut dyn Oracle,
    (anchor, variation): (Which<'_>, Which<'_>),
    term: Option<Regularizer>,
    told: &mut Told,
) -> Result<(Event, Counts), AskError> {
    let points = points(DIM);
    let mut running = Running::new(DIM, clip(1.0));
    let mut with = term.map(Regularized::new);
    told.text(&oracle.books().draw_index(1_000).to_string());
    for (t, point) in points.iter().enumerate() {
        let released = match t {
            0 | 5 => running.anchor(oracle, point, anchor, z(NEAR))?,
            3 | 7 => running.vary_with_momentum(oracle, point, variation, momentum(), z(FAR))?,
            _ => running.vary(oracle, point, variation, z(FAR))?,
        };
        let estimate: Estimate<'_> = released.estimate();
        told.estimate(match &mut with {
            None => estimate,
            Some(with) => with.plus(estimate, point),
        });
        if t == 4 {
            running.set_clip(clip(0.3));
            told.text("true");
        }
    }
    if anchor == Which::All {
        let shift = [0.1; DIM];
        let total = |point: &[f64], shift: &[f64]| match &with {
            None => shift.to_vec(),
            Some(with) => with.shift(point, shift),
        };
        let field = |k: usize| Linear::field(&points[k], running.clip());
        let shifted = total(&points[3], &shift);
        told.number(oracle.norm(field(3), &shifted, Which::All, z(NEAR))?);
        let plain = total(&points[3], &[]);
        told.number(oracle.norm(field(3), &plain, Which::All, z(NEAR))?);
        let shifts = [
            total(&points[1], &[]),
            shifted,
            total(&points[7], &[]),
            total(&points[8], &[]),
        ];
        let among = [1, 3, 7, 8].map(field);
        let among: Vec<_> = among
            .into_iter()
            .zip(&shifts)
            .map(|(field, shift)| (field, &shift[..]))
            .collect();
        told.text(&oracle.least_norm(&among, epsilon())?.to_string());
    }
    Ok((oracle.books().settle()?, oracle.books().counts()))
}

/// The cases under one adjacency. One that it does not allow has no line.
struct Cases<'t> {
    adjacency: Adjacency,
    threads: NonZeroUsize,
    table: &'t mut Table,
}

impl Cases<'_> {
    fn line(&mut self, name: &str, told: Told, ended: Result<(Event, Counts), AskError>) {
        // What an adjacency does not allow has no line; nothing else may be missing.
        match ended {
            Ok((spent, counts)) => told.line(self.table, name, self.adjacency, &spent, counts),
            // Replace-one allows all of them.
            Err(error) => assert_ne!(self.adjacency, Adjacency::ReplaceOne, "{name}: {error}"),
        }
    }

    /// A running estimate that is told what to read at each step, and goes on from an earlier release.
    fn running(&mut self) {
        let (data, points) = (data(self.adjacency), points(DIM));
        let mut oracle = means(&data, LOSS, self.threads);
        let mut running = Running::new(DIM, clip(1.0));
        let fixed = self.adjacency != Adjacency::AddRemove;
        let whole = schedule()
            .releases(level(Batch::All, NEAR), 4)
            .releases(level(Batch::Poisson(rate()), FAR), 4);
        let whole = if fixed {
            whole.releases(level(Batch::Held(50), FAR), 3)
        } else {
            whole
        };
        oracle.books().reserve(&whole.spend()).unwrap();
        let mut told = Told::new();
        told.estimate(
            running
                .anchor(&mut oracle, &points[1], Which::All, z(NEAR))
                .unwrap()
                .estimate(),
        );
        let kept = running.released().clone();
        told.estimate(
            running
                .vary(&mut oracle, &points[3], Which::Poisson(rate()), z(FAR))
                .unwrap()
                .estimate(),
        );
        let over = Which::Poisson(rate());
        let moved = running
            .vary_with_momentum(&mut oracle, &points[4], over, momentum(), z(FAR))
            .unwrap();
        told.estimate(moved.estimate());
        running.resume(&kept).unwrap();
        told.estimate(
            running
                .vary(&mut oracle, &points[5], Which::All, z(NEAR))
                .unwrap()
                .estimate(),
        );
        if fixed {
            let slice = oracle.books().take_slice(50).unwrap();
            for point in &points[6..8] {
                told.estimate(
                    running
                        .vary(&mut oracle, point, Which::Slice(&slice), z(FAR))
                        .unwrap()
                        .estimate(),
                );
            }
        }
        let ended = oracle.books().settle();
        let ended = ended
            .map(|spent| (spent, oracle.counts()))
            .map_err(Into::into);
        self.line("running", told, ended);
    }

    /// Solvers' estimators, with and without a regulariser.
    fn estimators(&mut self) {
        let data = data(self.adjacency);
        for (anchor, variation, read, name) in [
            (
                Batch::All,
                Batch::All,
                (Which::All, Which::All),
                "full batch",
            ),
            (
                Batch::Poisson(rate()),
                Batch::Poisson(rate()),
                (Which::Poisson(rate()), Which::Poisson(rate())),
                "poisson",
            ),
            (
                Batch::FixedSize(40),
                Batch::FixedSize(40),
                (Which::FixedSize(40), Which::FixedSize(40)),
                "fixed size",
            ),
            (
                Batch::Next(50),
                Batch::Next(20),
                (Which::Next(50), Which::Next(20)),
                "single pass",
            ),
        ] {
            let spend = spend(anchor, variation, 8);
            let spend = if read.0 == Which::All {
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
                let mut oracle = means(&data, LOSS, self.threads);
                let mut told = Told::new();
                let reserved = oracle.books().reserve(&spend).map_err(AskError::from);
                let ended = reserved.and_then(|()| walk(&mut oracle, read, term, &mut told));
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
            (Batch::All, Batch::All),
            (Batch::Poisson(rate()), Batch::Poisson(rate())),
            (Batch::FixedSize(40), Batch::FixedSize(30)),
            (Batch::Next(40), Batch::Next(12)),
            (Batch::Held(100), Batch::Held(100)),
            (Batch::Next(40), Batch::PerLength(20.0)),
            (Batch::All, Batch::Poisson(rate())),
            (Batch::All, Batch::Next(30)),
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
                let mut oracle = means(&data, LOSS, self.threads);
                let mut tracker = Recursive::new(DIM, settings).unwrap();
                let mut told = Told::new();
                let spend = spend(anchor, variation, 9);
                let ended = track(&mut oracle, ask!(tracker), &spend, &mut told);
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
            let Ok(mut tracker) = Fresh::new(DIM, clip(0.5), level(variation, FAR)) else {
                continue;
            };
            let mut oracle = means(&data, LOSS, self.threads);
            let mut told = Told::new();
            let spend = schedule().releases(level(variation, FAR), 9).spend();
            let ended = track(&mut oracle, ask!(tracker), &spend, &mut told);
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
            anchor: level(Batch::All, NEAR),
            variation: level(Batch::All, FAR),
            refresh: Refresh::every(4),
        };
        let mut oracle = means(&data, LOSS, self.threads);
        let mut tracker = Recursive::new(DIM, settings).unwrap();
        let mut with = Regularized::new(Regularizer::Nonconvex(Scale::new(0.25).unwrap()));
        let mut told = Told::new();
        let ended = track(
            &mut oracle,
            &mut |oracle, point, told| {
                let Some(point) = point else {
                    tracker.begin_phase();
                    return Ok(());
                };
                let Tracked { estimate, kind, .. } = tracker.estimate(oracle, point)?;
                told.text(&format!("{kind:?}"));
                told.estimate(with.plus(estimate, point));
                Ok(())
            },
            &spend(Batch::All, Batch::All, 9),
            &mut told,
        );
        self.line("recursive with a regulariser", told, ended);
    }

    /// SPIDER on averages along rows and on the smoothed loss, and fresh slopes.
    fn smoothed(&mut self) {
        let data = data(self.adjacency);
        let settings = RecursiveSettings {
            clip: clip(1.0),
            anchor: level(Batch::All, NEAR),
            variation: level(Batch::All, FAR),
            refresh: Refresh::every(4),
        };
        let spend = spend(Batch::All, Batch::All, 9);
        let mut oracle = means(&data, LOSS, self.threads);
        let mut averaged = AveragedMeans::new(&mut oracle, clip(0.3));
        let (mut tracker, mut told) = (Recursive::new(DIM, settings).unwrap(), Told::new());
        let ended = track(&mut averaged, ask!(tracker), &spend, &mut told);
        self.line("recursive on averages along rows", told, ended);
        for (fields, name) in [
            (SmoothedFields::Gradients, "gradients"),
            (SmoothedFields::Values, "values"),
        ] {
            let some = NonZeroUsize::new(7).unwrap();
            let smoothing = Smoothing {
                radius: 0.1,
                lipschitz: 1.0,
                fields,
                offsets: some,
                frames: some,
            };
            let mut oracle = means(&data, LOSS, self.threads);
            let mut smoothed = SmoothedMeans::new(&mut oracle, smoothing);
            let (mut tracker, mut told) = (Recursive::new(DIM, settings).unwrap(), Told::new());
            let ended = track(&mut smoothed, ask!(tracker), &spend, &mut told);
            self.line(&format!("recursive on smoothed {name}"), told, ended);
        }
        for (count, batch) in [
            (1, Batch::All),
            (2, Batch::Poisson(rate())),
            (DIM, Batch::All),
        ] {
            let by = (NonZeroUsize::new(count).unwrap(), 0.1);
            let mut tracker = FreshSlopes::new(DIM, by, clip(0.5), level(batch, FAR)).unwrap();
            let mut oracle = means(&data, LOSS, self.threads);
            let mut told = Told::new();
            let spend = schedule().releases(level(batch, FAR), 9).spend();
            let mut ask = |oracle: &mut dyn Oracle, point: Option<&[f64]>, told: &mut Told| {
                if let Some(point) = point {
                    tell(tracker.estimate(oracle, point)?, told);
                }
                Ok(())
            };
            let ended = track(&mut oracle, &mut ask, &spend, &mut told);
            let name = format!("{count} fresh slopes, {}", batch_name(batch));
            self.line(&name, told, ended);
        }
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
                (Participation::Every, Batch::All, 1.0 / RECORDS as f64),
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
                    if let Ok(mut tracker) = PrefixRecursive::new(DIM, settings) {
                        let mut oracle = means(&data, LOSS, self.threads);
                        let mut told = Told::new();
                        let ended = track(&mut oracle, ask!(tracker), &spend, &mut told);
                        self.line(&name, told, ended);
                    }
                }
            }
        }
    }

    /// Rounds of eight leaves, with noise by displacement and by set radii.
    fn trees(&mut self) {
        let data = data(self.adjacency);
        for (batches, name) in [
            ([Batch::All; 4], "everything"),
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
                let mut oracle = means(&data, LOSS, self.threads);
                let tree = TreeRounds::new(DIM, clip(1.0), levels.clone());
                let mut tree = tree.unwrap().with_radii(radii);
                let mut told = Told::new();
                let ended = track(&mut oracle, ask!(tree), &spend, &mut told);
                self.line(&name, told, ended);
            }
        }
    }

    /// Two stages, each with a slice of its own.
    fn stages(&mut self) {
        let data = data(self.adjacency);
        let mut oracle = means(&data, LOSS, self.threads);
        let mut running = Running::new(DIM, clip(1.0));
        let spend = schedule().slice(z(NEAR), 4).slice(z(FAR), 4).spend();
        let mut told = Told::new();
        let mut run = || {
            oracle.books().reserve(&spend)?;
            for (records, multiplier) in [(100, NEAR), (60, FAR)] {
                let slice = oracle.books().take_slice(records)?;
                for point in &points(DIM)[..4] {
                    let over = Which::Slice(&slice);
                    let released = running.anchor(&mut oracle, point, over, z(multiplier))?;
                    told.estimate(released.estimate());
                }
            }
            Ok((oracle.books().settle()?, oracle.counts()))
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
                .books()
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
            let ended = passes.books().settle();
            let ended = ended.map(|spent| (spent, passes.books().counts()));
            let ended = ended.map_err(Into::into);
            self.line(&format!("passes, {glm}"), told, ended);
        }
    }
}
