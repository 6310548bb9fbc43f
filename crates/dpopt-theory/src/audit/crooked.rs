//! Broken twins that are whole runs: solvers and estimates over an oracle that breaks one thing, around the real curator.
//!
//! It is an implementation of [`Oracle`] of one's own, as any user may write one. With no mistake in it, it must
//! pass every audit; with one, it must be caught, although each of its releases is charged by the curator.

use std::ops::Range;

use dpopt_nonconvex::{NOISY_GD_THEORY, NoObserver, SPIDERBOOST};
use dpopt_oracle::{
    Answer, AskError, Batch, Books, Fresh, Linear, Mean, Offers, Oracle, OracleFacts, Period,
    PeriodAnchor, PeriodTerms, PrefixRecursive, PrefixSettings, Question, Refresh, Schedule,
    share_of,
};
use dpopt_privacy::{
    Adjacency, Body, Bound, ClipNorm, Curator, Event, LatticeSum, NoiseMultiplier, Participation,
    Prefix, PrefixKind, Sample, Slice, Spend, Which,
};

use super::common::{DIM, claim_of, noise};
use super::estimators::{level, track};
use super::hostile::{neighbours, with_canary};
use super::plans::{plan_of, stages, tree};
use super::solvers::{likelihood, walk};
use super::{
    Behaviour, Canary, CheckError, CuratorReplay, Hostile, Pair, Ran, Registry, Statistic, Watched,
};

const RECORDS: usize = 8;

/// What is wrong with the oracle.
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

/// An oracle over hostile records.
struct Crooked {
    records: Vec<Hostile>,
    facts: OracleFacts,
    books: Books,
    mistake: Mistake,
    /// Slices in the order in which they were read first.
    taken: Vec<Slice>,
    periods: usize,
    /// Steps of the open period.
    steps: usize,
}

impl Crooked {
    fn new(
        records: &[Hostile],
        curator: Curator,
        adjacency: Adjacency,
        mistake: Mistake,
    ) -> Result<Self, CheckError> {
        let public = records.len() as u64;
        let offers = Offers::MEANS | Offers::PERIODS;
        let mut books = Books::new(curator, public);
        books.open_pool()?;
        Ok(Self {
            records: records.to_vec(),
            facts: OracleFacts::new(DIM, public, adjacency, offers).with_constants(1.0, 1.0),
            books,
            mistake,
            taken: Vec::new(),
            periods: 0,
            steps: 0,
        })
    }

    /// How many records there are, for a mean over those that it answers for.
    fn body(&self, over: Which<'_>) -> Result<Body, AskError> {
        match over {
            Which::Poisson(_)
            | Which::FixedSize(_)
            | Which::Sampled(..)
            | Which::AllocatedIn(..) => Err(AskError::NotOffered {
                what: "means of samples",
            }),
            _ => Ok(Body::of(self.records.len() as u64)),
        }
    }

    /// The records that are really read for a sample, and the divisor.
    fn read(&mut self, sample: &Sample) -> (Range<usize>, f64) {
        let len = sample.denominator();
        let Some(slice) = sample.slice() else {
            return (0..self.records.len(), len);
        };
        if !self.taken.contains(slice) {
            self.taken.push(slice.clone());
        }
        let read = match self.mistake {
            Mistake::SliceAgain => self.taken.first(),
            Mistake::SliceInTwoPeriods if self.periods > 1 => self.taken.get(self.steps),
            _ => None,
        };
        let positions = read.unwrap_or(slice).positions();
        (positions.start as usize..positions.end as usize, len)
    }

    /// The sum of what these records answer, each added in `pieces` parts and `times` times.
    fn sum(
        &self,
        of: &Linear<'_>,
        range: Range<usize>,
        bound: Bound,
        factor: f64,
        (pieces, times): (u32, u32),
    ) -> (LatticeSum, Vec<f64>) {
        let mut sum = LatticeSum::new(bound);
        let mut exact = vec![0.0; DIM];
        for record in &self.records[range] {
            let mut answer = vec![0.0; DIM];
            record.add_gradient(of.point(), &mut answer);
            if let Some((segment, momentum)) = of.before() {
                let mut before = vec![0.0; DIM];
                record.add_gradient(segment.from, &mut before);
                dpopt_linalg::add_scaled(&mut answer, -momentum.kept(), &before);
                let radius = of.radius().get();
                let norm = dpopt_linalg::norm(&answer);
                let kept = if norm > radius { radius / norm } else { 1.0 };
                answer.iter_mut().for_each(|x| *x *= kept);
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

    fn release(
        &mut self,
        of: Linear<'_>,
        over: Which<'_>,
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Mean, AskError> {
        let anchor = of.before().is_none();
        let (shorter, parts) = match self.mistake {
            Mistake::AnchorAsVariation if anchor => (0.25, (4, 1)),
            Mistake::Sensitivity => (1.0, (1, 2)),
            _ => (1.0, (1, 1)),
        };
        let radius = of.radius().get() * shorter;
        let bound = Bound::new(ClipNorm::new(radius).unwrap_or(of.radius()), DIM)?;
        let adjacency = self.facts.adjacency;
        let body = self.body(over)?;
        let mut unheard = None;
        if self.mistake == Mistake::AroundTheLedger && !anchor {
            let mut curator = Curator::simulated(adjacency, 7);
            curator.reserve(&Spend::Fixed(Event::gaussian(noise_multiplier)))?;
            unheard = Some(curator);
        }
        let curator = unheard.as_mut();
        let curator = curator.unwrap_or_else(|| self.books.curator_mut());
        let ticket = curator.grant(over, body, bound, noise_multiplier)?;
        let (range, len) = self.read(ticket.sample());
        let (sum, exact) = self.sum(&of, range, bound, 1.0, parts);
        let curator = unheard.as_mut();
        let curator = curator.unwrap_or_else(|| self.books.curator_mut());
        let mut mean = curator.redeem(ticket, sum)?;
        if self.mistake == Mistake::ExactNorm {
            let factor = dpopt_linalg::norm(&exact) / dpopt_linalg::norm(&mean);
            mean.iter_mut().for_each(|x| *x *= factor);
        }
        mean.iter_mut().for_each(|x| *x /= len);
        self.books.count(len, of.gradients(), 0.0);
        let noise_std = noise_multiplier.get() * bound.radius() * adjacency.sum_sensitivity() / len;
        Ok(Mean::new(mean, noise_std))
    }

    fn open(&mut self, terms: &PeriodTerms) -> Result<Prefix, AskError> {
        let shorter = match self.mistake {
            Mistake::ShareTooSmall => 0.25,
            _ => 1.0,
        };
        let share = ClipNorm::new(terms.share.get() * shorter).unwrap_or(terms.share);
        let bound = Bound::new(share, DIM)?;
        self.periods += 1;
        self.steps = 0;
        let (kind, len, z) = (terms.kind, terms.len, terms.noise_multiplier);
        let curator = self.books.curator_mut();
        Ok(curator.prefix(kind, bound, len, z, terms.participation)?)
    }

    fn push(
        &mut self,
        period: &mut Prefix,
        of: Linear<'_>,
        over: Which<'_>,
    ) -> Result<Mean, AskError> {
        let body = self.body(over)?;
        let ticket = period.grant(over, body, self.books.curator_mut())?;
        let (range, len) = self.read(ticket.sample());
        self.steps += 1;
        let pieces = match self.mistake {
            Mistake::ShareTooSmall => 4,
            _ => 1,
        };
        let (sum, _) = self.sum(&of, range, period.bound(), 1.0 / len, (pieces, 1));
        let mean = period.redeem(ticket, sum, self.books.curator_mut())?;
        self.books.count(len, of.gradients(), 0.0);
        let noise_std = period
            .standard_deviation(period.steps())
            .unwrap_or(f64::NAN);
        Ok(Mean::new(mean, noise_std))
    }
}

impl Oracle for Crooked {
    fn facts(&self) -> OracleFacts {
        self.facts
    }

    fn books(&mut self) -> &mut Books {
        &mut self.books
    }

    fn answer(&mut self, question: Question<'_>) -> Result<Answer, AskError> {
        Ok(match question {
            Question::Mean { of, over, noise } => Answer::Mean(self.release(of, over, noise)?),
            Question::OpenPeriod(terms) => Answer::Period(Period::new(self.open(terms)?)),
            Question::Step { period, of, over } => {
                let period = period.inside().ok_or(AskError::ForeignPeriod)?;
                Answer::Mean(self.push(period, of, over)?)
            }
            other => return Err(AskError::NotOffered { what: other.kind() }),
        })
    }
}

/// Which run is made on the oracle.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Runner {
    /// The whole plan of noisy gradient descent.
    Descent,
    /// That of SpiderBoost.
    Spider,
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
) -> Result<Ran, CheckError> {
    let oracle = Crooked::new(records, curator, adjacency, mistake)?;
    let clip = ClipNorm::new(1.0)?;
    let z = noise(2.0)?;
    Ok(match runner {
        Runner::Descent => walk(&*plan_of(&NOISY_GD_THEORY, adjacency, DIM)?, oracle),
        Runner::Spider => walk(&*plan_of(&SPIDERBOOST, adjacency, DIM)?, oracle),
        Runner::Batches => {
            let level = level(Batch::Next(2), 2.0)?;
            let spend = Schedule::new(RECORDS as u64).releases(level, 4).spend();
            track(oracle, Fresh::new(DIM, clip, level)?, &spend)?
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
            track(oracle, PrefixRecursive::new(DIM, settings)?, &spend)?
        }
        Runner::Tree => walk(
            &tree(adjacency, DIM, |_, schedule| schedule.rounds = 1)?,
            oracle,
        ),
        Runner::Stages => walk(&stages(adjacency, DIM, &[(4, 3), (4, 2)])?, oracle),
    })
}

pub(super) fn register(registry: &mut Registry) -> Result<(), CheckError> {
    use Mistake::{
        AnchorAsVariation, AroundTheLedger, ExactNorm, Sensitivity, ShareTooSmall, SliceAgain,
        SliceInTwoPeriods,
    };
    use Runner::{Batches, Descent, Periods, Spider, Stages, Tree};
    for adjacency in [Adjacency::ReplaceOne, Adjacency::ZeroOut] {
        let replay = |name: String, group, runner, mistake| {
            CuratorReplay::new(
                &name,
                group,
                adjacency,
                move |_| pairs(adjacency),
                move |curator, records: &Vec<Hostile>| {
                    run(runner, mistake, adjacency, curator, records)
                },
            )
        };
        for (name, runner) in [
            ("noisy-gd", Descent),
            ("spiderboost", Spider),
            ("batches", Batches),
            ("periods", Periods),
            ("tree", Tree),
            ("stages", Stages),
        ] {
            let name = format!("oracle-of-ones-own/{name}/{adjacency}");
            registry.add(replay(name, "oracle", runner, Mistake::None));
        }
        for (name, runner, mistake) in [
            ("sensitivity-is-a-lie", Descent, Sensitivity),
            ("slice-read-again", Batches, SliceAgain),
            ("slice-read-again-by-a-tree", Tree, SliceAgain),
            ("slice-read-again-by-stages", Stages, SliceAgain),
            ("tree-anchor-as-variation", Tree, AnchorAsVariation),
            ("exact-norm", Descent, ExactNorm),
            ("anchor-as-variation", Spider, AnchorAsVariation),
            ("around-the-ledger", Spider, AroundTheLedger),
            ("share-too-small", Periods, ShareTooSmall),
            ("slice-in-two-periods", Periods, SliceInTwoPeriods),
        ] {
            let name = format!("{name}/replay/{adjacency}");
            registry.add(replay(name, "twins", runner, mistake).control());
        }
    }
    canaries(registry)
}

/// A whole solver run on an oracle that lies about its sensitivity, and on one that doesn't.
fn canaries(registry: &mut Registry) -> Result<(), CheckError> {
    let adjacency = Adjacency::ReplaceOne;
    for (name, group, mistake) in [
        ("sensitivity-is-a-lie/canary", "twins", Mistake::Sensitivity),
        ("oracle-of-ones-own/canary", "oracle", Mistake::None),
    ] {
        let plan = plan_of(&NOISY_GD_THEORY, adjacency, DIM)?;
        let claim = claim_of(&*plan, adjacency)?;
        let clip = plan.clip();
        let score = move |world, seed| {
            let present = Hostile::new(Behaviour::Hashed, 1.0);
            let others = vec![Hostile::nothing(); RECORDS - 1];
            let records = with_canary(world, adjacency, others, present);
            let curator = Curator::simulated(adjacency, seed);
            let oracle = Crooked::new(&records, curator, adjacency, mistake)?;
            let mut watched = Watched::new(oracle);
            plan.run(&mut watched, &mut NoObserver)?;
            Ok(likelihood(&present, watched.releases(), clip))
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
