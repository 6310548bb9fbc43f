//! Broken twins that are whole runs: solvers and estimators over means that break one thing, around the real curator.
//!
//! The means are an implementation of [`Means`] of one's own, as any user may write one. With no mistake in it, it must
//! pass every audit; with one, it must be caught, although each of its releases is charged by the curator.

use dpopt_nonconvex::{NoObserver, SolverPlan};
use dpopt_oracle::{
    Ask, Batch, Counts, Fresh, Level, Mean, Means, Number, Over, PeriodAnchor, PeriodTerms,
    PrefixRecursive, PrefixSettings, Recursion, Refresh, Schedule, share_of,
};
use dpopt_privacy::{
    Adjacency, Bound, ClipNorm, Curator, Epsilon, Event, LatticeSum, NoiseMultiplier,
    Participation, Prefix, PrefixKind, Refused, Slice, Spend, Touched,
};

use super::estimators::track;
use super::hostile::{Behaviour, Hostile, neighbours};
use super::mechanisms::{DELTA, noise};
use super::own_estimators::{stages_plan, tree_plan, walk_stages, walk_tree};
use super::replay::{CuratorReplay, Pair, Ran};
use super::solvers::{contribution, plans};
use super::watch::Watched;
use super::{AuditError, Canary, Claim, Registry, Statistic, World};

const DIM: usize = 3;
const RECORDS: usize = 8;

/// What is wrong with the means.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Mistake {
    None,
    /// Each record is added twice, so that a mean is twice as sensitive as its bound says.
    Sensitivity,
    /// Each batch of unread records is charged as a slice of its own, and is the first one again.
    SliceAgain,
    /// What was released is brought to the length of the exact mean: "post-processing".
    ExactNorm,
    /// Anchors get the bound of a short variation, and are added in pieces that it leaves whole.
    AnchorAsVariation,
    /// Changes are released by another curator, of which nobody hears.
    AroundTheLedger,
    /// Steps of a period are added in pieces that its share leaves whole.
    ShareTooSmall,
    /// The second period reads the slices of the first, which were charged once, in its name.
    SliceInTwoPeriods,
}

/// Means of hostile records.
struct CrookedMeans {
    records: Vec<Hostile>,
    curator: Curator,
    adjacency: Adjacency,
    mistake: Mistake,
    /// Slices in the order in which they were taken.
    taken: Vec<Slice>,
    periods: usize,
    /// Steps of the open period.
    steps: usize,
    counts: Counts,
}

impl CrookedMeans {
    fn new(
        records: &[Hostile],
        curator: Curator,
        adjacency: Adjacency,
        mistake: Mistake,
    ) -> Result<Self, AuditError> {
        let mut means = Self {
            records: records.to_vec(),
            curator,
            adjacency,
            mistake,
            taken: Vec::new(),
            periods: 0,
            steps: 0,
            counts: Counts::default(),
        };
        means
            .curator
            .open_pool(means.records.len() as u64, 0)
            .map_err(Refused::from)?;
        Ok(means)
    }

    /// What the mean is said to be over, the records that are really read, and the divisor.
    fn read(&mut self, over: Over<'_>) -> Result<(Touched, std::ops::Range<usize>, f64), Refused> {
        let slice = match over {
            Over::Everything => {
                let all = self.records.len();
                return Ok((Touched::All, 0..all, all as f64));
            }
            Over::Next(len) => self.take_slice(len)?,
            Over::Slice(slice) => slice.clone(),
            Over::Poisson(_) | Over::FixedSize(_) => {
                return Err(Refused::NoGuarantee("these means draw no samples"));
            }
        };
        let read = match self.mistake {
            Mistake::SliceAgain => self.taken.first(),
            Mistake::SliceInTwoPeriods if self.periods > 1 => self.taken.get(self.steps),
            _ => None,
        };
        let positions = read.unwrap_or(&slice).positions();
        let len = slice.len() as f64;
        let range = positions.start as usize..positions.end as usize;
        Ok((Touched::Slice(slice), range, len))
    }

    /// The sum of what these records answer, each added in `pieces` parts and `times` times.
    fn sum(
        &self,
        ask: &Ask<'_>,
        range: std::ops::Range<usize>,
        bound: Bound,
        factor: f64,
        (pieces, times): (u32, u32),
    ) -> (LatticeSum, Vec<f64>) {
        let mut sum = LatticeSum::new(bound);
        let mut exact = vec![0.0; DIM];
        for record in &self.records[range] {
            let mut answer = vec![0.0; DIM];
            match ask {
                Ask::Field { point, .. } => record.add_gradient(point, &mut answer),
                Ask::Change {
                    segment, radius, ..
                }
                | Ask::Momentum {
                    segment, radius, ..
                } => {
                    let weight = match ask {
                        Ask::Momentum { momentum, .. } => momentum.kept(),
                        _ => 1.0,
                    };
                    let mut before = vec![0.0; DIM];
                    record.add_gradient(segment.to, &mut answer);
                    record.add_gradient(segment.from, &mut before);
                    for (x, before) in answer.iter_mut().zip(before) {
                        *x -= weight * before;
                    }
                    let norm = answer.iter().map(|x| x * x).sum::<f64>().sqrt();
                    let kept = if norm > radius.get() {
                        radius.get() / norm
                    } else {
                        1.0
                    };
                    answer.iter_mut().for_each(|x| *x *= kept);
                }
            }
            for (exact, x) in exact.iter_mut().zip(&answer) {
                *exact += x;
            }
            for _ in 0..pieces * times {
                sum.add_scaled(factor / f64::from(pieces), &answer);
            }
        }
        (sum, exact)
    }
}

impl Means for CrookedMeans {
    type Slice = Slice;
    type Period = Prefix;

    fn dim(&self) -> usize {
        DIM
    }

    fn records(&self) -> u64 {
        self.records.len() as u64
    }

    fn adjacency(&self) -> Adjacency {
        self.adjacency
    }

    fn lipschitz(&self) -> f64 {
        1.0
    }

    fn smoothness(&self) -> f64 {
        1.0
    }

    fn reserve(&mut self, spend: &Spend) -> Result<(), Refused> {
        self.curator.reserve(spend)
    }

    fn settle(&mut self) -> Result<Event, Refused> {
        self.curator.settle()
    }

    fn records_left(&self) -> u64 {
        self.curator.records_left()
    }

    fn take_slice(&mut self, len: u64) -> Result<Slice, Refused> {
        let slice = self.curator.take_slice(len)?;
        self.taken.push(slice.clone());
        Ok(slice)
    }

    fn slice_len(&self, slice: &Slice) -> u64 {
        slice.len()
    }

    fn mean(
        &mut self,
        ask: &Ask<'_>,
        over: Over<'_>,
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Mean, Refused> {
        let (touched, range, len) = self.read(over)?;
        let anchor = matches!(ask, Ask::Field { .. });
        let (shorter, parts) = match self.mistake {
            Mistake::AnchorAsVariation if anchor => (0.25, (4, 1)),
            Mistake::Sensitivity => (1.0, (1, 2)),
            _ => (1.0, (1, 1)),
        };
        let radius = ask.radius().get() * shorter;
        let bound = Bound::new(ClipNorm::new(radius).unwrap_or(ask.radius()), DIM)?;
        let (sum, exact) = self.sum(ask, range, bound, 1.0, parts);
        let sealed = sum.finish(self.adjacency, touched);
        let mut mean = if self.mistake == Mistake::AroundTheLedger && !anchor {
            let mut unheard = Curator::simulated(self.adjacency, 7);
            unheard.reserve(&Spend::Fixed(Event::gaussian(noise_multiplier)))?;
            unheard.release(&sealed, noise_multiplier)?
        } else {
            self.curator.release(&sealed, noise_multiplier)?
        };
        if self.mistake == Mistake::ExactNorm {
            let norm = |v: &[f64]| v.iter().map(|x| x * x).sum::<f64>().sqrt();
            let factor = norm(&exact) / norm(&mean);
            mean.iter_mut().for_each(|x| *x *= factor);
        }
        mean.iter_mut().for_each(|x| *x /= len);
        self.counts.releases += 1;
        let noise_std =
            noise_multiplier.get() * bound.radius() * self.adjacency.sum_sensitivity() / len;
        Ok(Mean::new(mean, noise_std))
    }

    fn mean_norm(
        &mut self,
        _: &Ask<'_>,
        _: &[f64],
        _: Over<'_>,
        _: NoiseMultiplier,
    ) -> Result<Number, Refused> {
        Err(Refused::NotOffered { what: "norms" })
    }

    fn least_norm(&mut self, _: &[(Ask<'_>, &[f64])], _: Epsilon) -> Result<usize, Refused> {
        Err(Refused::NotOffered { what: "selections" })
    }

    fn mean_value(
        &mut self,
        _: &[f64],
        _: f64,
        _: ClipNorm,
        _: Over<'_>,
        _: NoiseMultiplier,
    ) -> Result<Number, Refused> {
        Err(Refused::NotOffered { what: "values" })
    }

    fn open_period(&mut self, terms: &PeriodTerms) -> Result<Prefix, Refused> {
        let shorter = match self.mistake {
            Mistake::ShareTooSmall => 0.25,
            _ => 1.0,
        };
        let share = ClipNorm::new(terms.share.get() * shorter).unwrap_or(terms.share);
        let bound = Bound::new(share, DIM)?;
        self.periods += 1;
        self.steps = 0;
        let (kind, len, z) = (terms.kind, terms.len, terms.noise_multiplier);
        self.curator
            .prefix(kind, bound, len, z, terms.participation)
    }

    fn push(
        &mut self,
        period: &mut Prefix,
        ask: &Ask<'_>,
        over: Over<'_>,
    ) -> Result<Mean, Refused> {
        let (touched, range, len) = self.read(over)?;
        self.steps += 1;
        let pieces = match self.mistake {
            Mistake::ShareTooSmall => 4,
            _ => 1,
        };
        let (sum, _) = self.sum(ask, range, period.bound(), 1.0 / len, (pieces, 1));
        let mean = period.push(sum.finish(self.adjacency, touched), &mut self.curator)?;
        self.counts.releases += 1;
        let noise_std = period
            .standard_deviation(period.steps())
            .unwrap_or(f64::NAN);
        Ok(Mean::new(mean, noise_std))
    }

    fn draw_index(&mut self, bound: u64) -> u64 {
        self.curator.draw_index(bound)
    }

    fn draw_normals(&mut self, out: &mut [f64]) -> Result<(), Refused> {
        self.curator.draw_normals(out)
    }

    fn counts(&self) -> Counts {
        self.counts
    }
}

/// Which run is made on the means.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Runner {
    /// A solver's whole plan.
    Solver(&'static str),
    /// Fresh estimates on unread records.
    Batches,
    /// Two periods and more of prefix sums on unread records.
    Periods,
    /// A round of a tree: three unread records, then one, two and one.
    Tree,
    /// Stages of recursive regularisation, a slice each.
    Stages,
}

/// Long records that point elsewhere everywhere, against their opposites, in every position.
fn pairs(adjacency: Adjacency) -> Vec<Pair<Vec<Hostile>>> {
    let record = |sign| Hostile::new(Behaviour::Hashed, sign);
    let bases = [
        vec![record(1.0); RECORDS],
        vec![Hostile::nothing(); RECORDS],
    ];
    let contents = [("hashed", record(1.0), record(-1.0))];
    neighbours(adjacency, &bases, &contents, &Hostile::nothing())
}

fn run(
    runner: Runner,
    mistake: Mistake,
    adjacency: Adjacency,
    curator: Curator,
    records: &[Hostile],
) -> Result<Ran, AuditError> {
    let means = CrookedMeans::new(records, curator, adjacency, mistake)?;
    let clip = ClipNorm::new(1.0)?;
    let z = noise(2.0)?;
    match runner {
        Runner::Solver(name) => {
            let plan = plan(name, adjacency)?;
            let clip = ClipNorm::new(plan.clip())?;
            let mut estimator = Recursion::over(means, clip);
            let outcome = plan.run(&mut estimator, &mut NoObserver);
            Ok(Ran {
                spent: estimator.means().curator.spent(),
                refused: outcome.is_err(),
                outcome: format!("{outcome:?} {:?}", estimator.released()),
            })
        }
        Runner::Batches => {
            let level = Level {
                batch: Batch::Next(2),
                noise_multiplier: z,
            };
            let spend = Schedule::new(RECORDS as u64).releases(level, 4).spend();
            track(&mut Fresh::new(means, clip, level)?, &spend)
        }
        Runner::Periods => {
            let settings = PrefixSettings {
                clip,
                anchor: PeriodAnchor::FirstStep(Batch::Next(1)),
                variation: Batch::Next(1),
                period: PeriodTerms {
                    kind: PrefixKind::Tree,
                    len: 3,
                    participation: Participation::Single,
                    share: share_of(1.0, 1.0)?,
                    noise_multiplier: z,
                },
                refresh: Refresh::by_phase(),
            };
            let spend = Schedule::new(RECORDS as u64).prefix(&settings, 3)?.spend();
            track(&mut PrefixRecursive::new(means, settings)?, &spend)
        }
        Runner::Tree => walk_tree(&tree_plan(adjacency, 1)?, means, |means| {
            means.curator.spent()
        }),
        Runner::Stages => {
            let mut plan = stages_plan(adjacency)?;
            plan.stages.truncate(2);
            for stage in &mut plan.stages {
                stage.outline.records = 4;
            }
            walk_stages(&plan, means, |means| means.curator.spent())
        }
    }
}

fn plan(name: &str, adjacency: Adjacency) -> Result<SolverPlan, AuditError> {
    let mut all = plans(adjacency, DIM)?;
    let at = all.iter().position(|(known, _)| *known == name);
    at.map(|at| all.swap_remove(at).1)
        .ok_or_else(|| AuditError::Other(format!("no plan {name}")))
}

pub(super) fn register(registry: &mut Registry) -> Result<(), AuditError> {
    let (gd, spider) = (
        Runner::Solver("noisy-gd-theory"),
        Runner::Solver("spiderboost"),
    );
    for adjacency in [Adjacency::ReplaceOne, Adjacency::ZeroOut] {
        for (name, runner) in [
            ("noisy-gd", gd),
            ("spiderboost", spider),
            ("batches", Runner::Batches),
            ("periods", Runner::Periods),
            ("tree", Runner::Tree),
            ("stages", Runner::Stages),
        ] {
            registry.add(CuratorReplay::new(
                &format!("means-of-ones-own/{name}/{adjacency}"),
                "means",
                adjacency,
                move |_| pairs(adjacency),
                move |curator, records: &Vec<Hostile>| {
                    run(runner, Mistake::None, adjacency, curator, records)
                },
            ));
        }
        for (name, runner, mistake) in [
            ("sensitivity-is-a-lie", gd, Mistake::Sensitivity),
            ("slice-read-again", Runner::Batches, Mistake::SliceAgain),
            (
                "slice-read-again-by-a-tree",
                Runner::Tree,
                Mistake::SliceAgain,
            ),
            (
                "slice-read-again-by-stages",
                Runner::Stages,
                Mistake::SliceAgain,
            ),
            (
                "tree-anchor-as-variation",
                Runner::Tree,
                Mistake::AnchorAsVariation,
            ),
            ("exact-norm", gd, Mistake::ExactNorm),
            ("anchor-as-variation", spider, Mistake::AnchorAsVariation),
            ("around-the-ledger", spider, Mistake::AroundTheLedger),
            ("share-too-small", Runner::Periods, Mistake::ShareTooSmall),
            (
                "slice-in-two-periods",
                Runner::Periods,
                Mistake::SliceInTwoPeriods,
            ),
        ] {
            registry.add(
                CuratorReplay::new(
                    &format!("{name}/replay/{adjacency}"),
                    "twins",
                    adjacency,
                    move |_| pairs(adjacency),
                    move |curator, records: &Vec<Hostile>| {
                        run(runner, mistake, adjacency, curator, records)
                    },
                )
                .control(),
            );
        }
    }
    canaries(registry)
}

/// A whole solver run on means that lie about their sensitivity, and on those that don't.
fn canaries(registry: &mut Registry) -> Result<(), AuditError> {
    let adjacency = Adjacency::ReplaceOne;
    for (name, group, mistake) in [
        ("sensitivity-is-a-lie/canary", "twins", Mistake::Sensitivity),
        ("means-of-ones-own/canary", "means", Mistake::None),
    ] {
        let plan = plan("noisy-gd-theory", adjacency)?;
        let claim = Claim::of(plan.spend().event(), DELTA, adjacency)?;
        let clip = plan.clip();
        let score = move |world, seed| {
            let present = Hostile::new(Behaviour::Hashed, 1.0);
            let mut records = vec![Hostile::nothing(); RECORDS - 1];
            records.push(if world == World::In {
                present
            } else {
                Hostile::new(Behaviour::Hashed, -1.0)
            });
            let curator = Curator::simulated(adjacency, seed);
            let means = CrookedMeans::new(&records, curator, adjacency, mistake)?;
            let mut watched = Watched::new(Recursion::over(means, ClipNorm::new(clip)?));
            plan.run(&mut watched, &mut NoObserver)?;
            let fit = |release: &super::WatchedRelease| -> f64 {
                let share = contribution(&present, release, clip);
                let fit: f64 = share
                    .iter()
                    .zip(&release.released)
                    .map(|(a, b)| a * b)
                    .sum();
                fit / release.deviation.powi(2)
            };
            Ok(watched.releases().iter().map(fit).sum())
        };
        let canary = Canary::new(name, group, claim, Statistic::GaussianDp, score);
        let canary = canary.with_runs(40_000, 400_000);
        registry.add(if mistake == Mistake::None {
            canary
        } else {
            canary.control()
        });
    }
    Ok(())
}
