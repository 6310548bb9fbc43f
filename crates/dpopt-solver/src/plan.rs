//! What all plans have in common: what is shown of them, and the run: reserve, ask, show, move, settle.

use std::ops::ControlFlow;

use dpopt_linalg::{distance, norm};
use dpopt_oracle::{AskError, Blocks, Offers, Oracle, OracleFacts, PrivateData, Regularized};
use dpopt_privacy::{Refused, Spend};

use crate::bound::{BoundSense, BoundedQuantity, StatedBound};
use crate::facts::{Budget, PublicFacts};
use crate::outcome::{Observer, Outcome, OutputRule, Release, ReleaseKind, Stop};
use crate::premises::{Known, Premises, SaddleShape, within};
use crate::run::{Asked, Certified, Output, Regularizing, RestsOn, Run, RunError, Walk};
use crate::terms::{Access, FreshReleases, Terms};
use crate::unit::Unit;

/// A plan of any solver: everything that is derived from public facts, and fixed.
///
/// It can't be changed: a plan by hand is one of its own and states no bound, so that a stated bound never
/// contradicts what is released.
pub trait Plan: Erased + std::fmt::Debug + Send + Sync {
    /// The name of the solver.
    fn name(&self) -> &'static str;

    /// What every plan has.
    fn terms(&self) -> &Terms;

    /// What a reader of the plan wants to see beside the terms: names, values and units.
    fn items(&self) -> Vec<Item<'_>>;

    /// The walk from `start`, which has [`Plan::dim`] coordinates.
    ///
    /// # Errors
    /// [`RunError`] for a plan that can't be walked.
    fn walk(&self, start: &[f64]) -> Result<Box<dyn Walk + '_>, RunError>;

    /// What else the plan knows of the problem: the name of the group that holds the facts, and what is beside it.
    fn wider_facts(&self) -> Option<(&'static str, Vec<Item<'_>>)> {
        None
    }

    /// The facts that it was made from.
    fn facts(&self) -> &PublicFacts {
        &self.terms().facts
    }

    /// What its bound rests on of the field that a run asks about: the facts, unless it walks on other records than those were made for, or
    /// rests on no constant (which is infinite then).
    fn field_facts(&self) -> PublicFacts {
        *self.facts()
    }

    /// The privacy that it may spend.
    fn budget(&self) -> &Budget {
        &self.terms().budget
    }

    /// Dimension in which it walks.
    fn dim(&self) -> usize {
        self.facts().dim
    }

    /// Number of steps, at most: releases, or passes over slices.
    fn steps(&self) -> u64 {
        self.terms().steps
    }

    /// What it will spend.
    fn spend(&self) -> Spend {
        self.terms().spend.clone()
    }

    /// Nominal number of per-record gradients, at most.
    fn gradients(&self) -> f64 {
        self.terms().gradients
    }

    /// The per-record clip radius of gradients, at the first step.
    fn clip(&self) -> f64 {
        self.terms().clip
    }

    /// Which records a release reads, at most: of slices the longest, of samples those of a variation.
    fn access(&self) -> Access {
        self.terms().access
    }

    /// How many records that were never read a whole run takes from the pool, at most.
    fn unread(&self) -> u64 {
        self.terms().unread
    }

    /// What is released, if each release is a fresh gradient with noise of its own, of one size; none otherwise.
    fn fresh(&self) -> Option<FreshReleases> {
        self.terms().fresh
    }

    /// Which point is returned.
    fn output(&self) -> OutputRule {
        self.terms().output
    }

    /// The proven bound, where there is one: of a run that ends as the proof asks, on as many records as
    /// the facts say. None on a population but under replace-one. What a run that was made may state is [`Plan::bound_at`].
    fn bound(&self) -> Option<StatedBound> {
        let terms = self.terms();
        let value = terms
            .bound
            .filter(|_| terms.sense.holds_under(terms.facts.adjacency))?;
        let bound = StatedBound::new(value, terms.quantity, terms.sense);
        let bound = bound.at_radius(terms.radius).of_smoothed(terms.smoothing);
        let bound = bound.of_saddle(self.saddle_shape());
        Some(bound.with_curvature(terms.curvature))
    }

    /// The value of [`Plan::bound`], where it is on the gradient norm.
    fn predicted_bound(&self) -> Option<f64> {
        let bound = self.bound()?;
        (bound.quantity == BoundedQuantity::GradientNorm).then_some(bound.value)
    }

    /// In which sense bounds of this plan hold.
    fn bound_sense(&self) -> BoundSense {
        self.terms().sense
    }

    /// Whether the proof of the plan's bound covers a run that ended so. Of most plans: one that made all of its steps,
    /// since the proof is about all of them.
    fn bound_covers(&self, stop: Stop) -> bool {
        stop == Stop::Completed
    }

    /// What is proven of the point that a run of this plan returned, if it ended so; none where the proof does not
    /// cover that end, and none under an adjacency that hides the number of records: there the mean is taken over a declared
    /// number, and the proofs are about the true one.
    fn bound_at(&self, stop: Stop) -> Option<StatedBound> {
        let counted = self.facts().adjacency.record_count_is_public();
        self.bound().filter(|_| counted && self.bound_covers(stop))
    }

    /// What the starting point satisfies already; a bound on the gradient norm that is not below it says nothing.
    fn trivial_bound(&self) -> f64 {
        self.facts().trivial_bound()
    }

    /// Share of the plan's cost that is spent after the releases of the steps 0 to `step`, in a measure that adds up
    /// (the square of the Gaussian-DP parameter; any other, where all releases are alike).
    fn share_spent(&self, step: u64) -> f64 {
        (step + 1) as f64 / self.steps().max(1) as f64
    }

    /// What public facts tell already of a run that may learn nothing, from a start whose gradient is at most
    /// `trivial` long; none where they tell nothing.
    fn warning(&self, trivial: f64) -> Option<String> {
        let _ = trivial;
        None
    }

    /// What the oracle has to answer.
    fn needs(&self) -> Offers {
        Offers::MEANS
    }

    /// The saddle problem that it walks on, which that of the oracle has to be; absent for minimisation.
    fn saddle_shape(&self) -> Option<SaddleShape> {
        None
    }

    /// How it splits a point, if it walks on a saddle problem.
    fn blocks(&self) -> Option<Blocks> {
        self.saddle_shape().map(|shape| shape.blocks)
    }

    /// The records to read in place of the records as they are; none for most plans.
    ///
    /// # Errors
    /// [`RunError::Data`].
    fn embed(&self, data: &PrivateData) -> Result<Option<PrivateData>, RunError> {
        let _ = data;
        Ok(None)
    }

    /// What is returned for the point that the walk ended at.
    ///
    /// # Errors
    /// [`RunError`].
    fn lift(&self, point: Vec<f64>) -> Result<Vec<f64>, RunError> {
        Ok(point)
    }

    /// Runs the plan, from the origin.
    ///
    /// # Errors
    /// [`RunError`]; what was released before it stays charged.
    fn run(
        &self,
        oracle: &mut dyn Oracle,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, RunError> {
        self.run_with(oracle, Run::new(observer))
    }

    /// As [`Plan::run`], from `start` and not from the origin: a public point, such as that of a
    /// checkpoint. A bound of the plan then holds if what the facts say of the start (the initial gap, or a radius) is
    /// true of `start`; one for the population also needs a `start` that does not depend on these records.
    ///
    /// # Errors
    /// [`RunError`]; nothing was reserved if `start` is not a point of the plan's dimension.
    fn run_from(
        &self,
        start: &[f64],
        oracle: &mut dyn Oracle,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, RunError> {
        self.run_with(oracle, Run::new(observer).starting_at(Some(start)))
    }

    /// Runs the plan with all that a run can be given.
    ///
    /// # Privacy
    /// Nothing here draws, clips or charges: the oracle does. A plan asks it for what [`Plan::spend`] reserved, and is refused
    /// anything else.
    ///
    /// # Errors
    /// [`RunError`]; what was released before it stays charged, and what was not released is given back where that is still
    /// possible.
    fn run_with(&self, oracle: &mut dyn Oracle, run: Run<'_>) -> Result<Outcome, RunError> {
        self::run(self.erased(), oracle, run)
    }
}

/// A plan as any plan, so that runs are compiled once and not for each type. All plans have it.
pub trait Erased {
    /// The same plan.
    fn erased(&self) -> &dyn Plan;
}

impl<P: Plan> Erased for P {
    fn erased(&self) -> &dyn Plan {
        self
    }
}

/// One number or word of a plan.
#[derive(Debug, Clone)]
pub struct Item<'a> {
    /// The name, in snake case: the key in JSON.
    pub name: &'static str,
    /// What it is.
    pub value: Value<'a>,
    /// In which unit, if it is a number.
    pub unit: Unit,
}

/// What an item holds.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Value<'a> {
    /// A whole number.
    Count(u64),
    /// A number; none where there is none.
    Number(Option<f64>),
    /// Yes or no.
    Flag(bool),
    /// A word.
    Word(String),
    /// Whole numbers.
    Counts(Vec<u64>),
    /// Items that belong together.
    Group(Vec<Item<'a>>),
    /// The same items again and again: of phases, of stages.
    Rows(Vec<Vec<Item<'a>>>),
    /// Another plan.
    Plan(&'a dyn Plan),
}

impl<'a> Item<'a> {
    /// A number in a unit.
    #[must_use]
    pub fn number(name: &'static str, number: f64, unit: Unit) -> Self {
        Self::maybe(name, Some(number), unit)
    }

    /// A number in a unit, or none.
    #[must_use]
    pub fn maybe(name: &'static str, number: Option<f64>, unit: Unit) -> Self {
        Self {
            name,
            value: Value::Number(number),
            unit,
        }
    }

    /// A number without a unit: a share, a noise multiplier.
    #[must_use]
    pub fn ratio(name: &'static str, number: f64) -> Self {
        Self::number(name, number, Unit::NONE)
    }

    /// A whole number.
    #[must_use]
    pub fn count(name: &'static str, count: u64) -> Self {
        Self::plain(name, Value::Count(count))
    }

    /// A word of a type that is written as one.
    #[must_use]
    pub fn word(name: &'static str, word: impl std::fmt::Display) -> Self {
        Self::plain(name, Value::Word(word.to_string()))
    }

    /// Any value without a unit.
    #[must_use]
    pub fn plain(name: &'static str, value: Value<'a>) -> Self {
        Self {
            name,
            value,
            unit: Unit::NONE,
        }
    }
}

/// Walks: reserve, then ask, show, move, and at the end settle. A run that ends in an error is settled where that is
/// still possible.
fn run(plan: &dyn Plan, oracle: &mut dyn Oracle, run: Run<'_>) -> Result<Outcome, RunError> {
    let origin = vec![0.0; plan.dim()];
    let start = run.start.unwrap_or(&origin);
    let facts = oracle.facts();
    check_start(start, plan.dim(), facts.dim)?;
    if !facts.offers.covers(plan.needs()) {
        return Err(RunError::NotOffered {
            solver: plan.name(),
            what: facts.offers.lacking(plan.needs()).join(", "),
        });
    }
    if facts.blocks != plan.blocks() {
        return Err(RunError::Blocks {
            solver: plan.name(),
            plan: plan.blocks(),
            oracle: facts.blocks,
        });
    }
    if let (Some(shape), Some(asked)) = (plan.saddle_shape(), facts.domain)
        && shape.domain != asked
    {
        let solver = plan.name();
        return Err(RunError::Domain { solver });
    }
    check_products(plan, &facts)?;
    let no_sum = plan.needs().covers(Offers::PASSES) || plan.saddle_shape().is_some();
    if run.regularizer.is_some() && no_sum {
        return Err(RunError::NoRegularizer {
            solver: plan.name(),
        });
    }
    let mut walk = plan.walk(start)?;
    let rule = plan.output();
    if matches!(
        rule,
        OutputRule::UniformBlock | OutputRule::SmallestReleasedBlock
    ) && !walk.in_blocks()
    {
        let solver = plan.name();
        return Err(RunError::NoBlocks { solver, rule });
    }
    let mut with = Regularizing {
        oracle,
        added: run.regularizer.map(Regularized::new),
    };
    let (solver, needed, left) = (plan.name(), plan.unread(), with.books().records_left());
    if needed > left {
        return Err(RunError::TooFewUnread {
            solver,
            needed,
            left,
        });
    }
    // Asked before the run, which may read them as it was planned to.
    let sample = with.books().check_sample();
    with.books().reserve(&plan.spend())?;
    let result = on_the_way(plan, &mut *walk, start, &mut with, run.observer);
    let result = result.map(|(mut outcome, claimed)| {
        if let Some((bound, rests_on)) = claimed {
            let known = Known {
                facts: &facts,
                sample,
                regularizer: run.regularizer,
            };
            match premises(plan, &bound, rests_on).hold(&known) {
                Ok(_) => outcome.bound = Some(bound),
                Err(why) => outcome.withheld = Some(why),
            }
        }
        outcome
    });
    if result.is_err() {
        // Where this fails too, the reservation stands, and the first error says more.
        let _ = with.books().settle_after_error();
    }
    result
}

fn on_the_way(
    plan: &dyn Plan,
    walk: &mut dyn Walk,
    start: &[f64],
    oracle: &mut Regularizing<'_>,
    observer: &mut dyn Observer,
) -> Result<(Outcome, Option<(StatedBound, RestsOn)>), RunError> {
    let (steps, facts) = (plan.steps(), oracle.facts());
    let mut output = Output::new(plan.output(), steps, start, oracle.books());
    let mut point = start.to_vec();
    let mut next = point.clone();
    let (mut gradient, mut shown) = (point.clone(), point.clone());
    let root_dim = (point.len() as f64).sqrt();
    let mut done = 0;
    let stop = loop {
        if done >= steps || walk.finished() {
            break walk.end();
        }
        let (kind, released, noise_norm) = match walk.ask(done, &point, oracle)? {
            Asked::Nothing(stop) => break stop,
            Asked::Norm { norm, noise_std } => (ReleaseKind::Norm, norm, noise_std),
            Asked::Estimate {
                kind,
                at,
                gradient: estimate,
                noise_std,
            } => {
                let place = at.unwrap_or(&point);
                if estimate.len() != point.len() || place.len() != point.len() {
                    return Err(AskError::Shape { dim: point.len() }.into());
                }
                gradient.copy_from_slice(estimate);
                shown.copy_from_slice(place);
                let length = match kind {
                    ReleaseKind::Pass => distance(estimate, &point),
                    _ => {
                        oracle.add_to(&shown, &mut gradient);
                        norm(&gradient)
                    }
                };
                (kind, length, root_dim * noise_std)
            }
        };
        if kind != ReleaseKind::Norm {
            if !released.is_finite() {
                break Stop::Diverged;
            }
            output.offer(done, &shown, released);
        }
        let flow = observer.on_release(&Release {
            step: done,
            steps,
            kind,
            point: match kind {
                ReleaseKind::Pass => &gradient,
                ReleaseKind::Norm => &point,
                _ => &shown,
            },
            oracle: facts,
            vector: match kind {
                ReleaseKind::Norm => &[],
                _ => &gradient,
            },
            norm: released,
            noise_norm,
        });
        if kind == ReleaseKind::Norm {
            if flow == ControlFlow::Break(()) {
                break Stop::ByObserver;
            }
            if !released.is_finite() {
                break Stop::Diverged;
            }
            continue;
        }
        if walk.stops_at(released) {
            done += 1;
            break Stop::SmallEstimate;
        }
        walk.step(&point, &gradient, &mut next);
        done += 1;
        // Gradients at a point that is not finite count as zero, so its estimates would look like
        // those of a stationary point.
        if !next.iter().all(|w| w.is_finite()) {
            break Stop::Diverged;
        }
        std::mem::swap(&mut point, &mut next);
        if flow == ControlFlow::Break(()) {
            break Stop::ByObserver;
        }
    };
    let closing = walk.close(stop, oracle)?;
    let books = oracle.books();
    let spent = books.used();
    // What was paid for is not lost with a ledger that can't be written.
    let unsettled = match books.settle() {
        Ok(_) => None,
        Err(Refused::Ledger(error)) => Some(error.to_string()),
        Err(error) => return Err(error.into()),
    };
    let counts = books.counts();
    let walked = closing.point.unwrap_or_else(|| output.finish(point));
    let returned_start = walked == start;
    let claimed = match closing.certified {
        Some(certified) => certified_bound(plan, &certified).map(|of| (of, certified.rests_on)),
        None => plan.bound_at(stop).map(|bound| (bound, OF_BOUNDS)),
    };
    let outcome = Outcome {
        bound: None,
        withheld: None,
        unsettled,
        returned_start,
        point: plan.lift(walked)?,
        stop,
        steps: done,
        spent,
        counts,
        norms: closing.norms,
        norm: closing.norm,
    };
    Ok((outcome, claimed))
}

/// What bounds that are stated before a run rest on, beside L0.
const OF_BOUNDS: RestsOn = RestsOn {
    smoothness: true,
    frobenius: None,
};

/// What a bound of a run of this plan rests on.
fn premises(plan: &dyn Plan, bound: &StatedBound, rests_on: RestsOn) -> Premises {
    let field = plan.field_facts();
    Premises {
        records: field.records,
        adjacency: field.adjacency,
        counted: true,
        unread: bound.sense.of_population(),
        unregularized: matches!(
            bound.quantity,
            BoundedQuantity::GoldsteinDistance | BoundedQuantity::ComponentWiseGoldsteinDistance
        ),
        asked: plan.needs(),
        lipschitz: field.lipschitz,
        smoothness: if rests_on.smoothness {
            field.smoothness
        } else {
            f64::INFINITY
        },
        frobenius: rests_on.frobenius.unwrap_or(f64::INFINITY),
        saddle: plan.saddle_shape(),
    }
}

/// Refuses an oracle whose records' products with Hessians may be longer than the plan clips them to: clipped products are those of no matrix, so
/// that nothing could be told by them.
fn check_products(plan: &dyn Plan, facts: &OracleFacts) -> Result<(), RunError> {
    let asks = |of| plan.needs().covers(of);
    let planned = plan.field_facts().smoothness;
    let products = asks(Offers::HESSIAN_PRODUCTS) || asks(Offers::CHAINS);
    if products && facts.told && !within(facts.smoothness, planned) {
        return Err(RunError::ClippedProducts {
            solver: plan.name(),
            planned,
            found: facts.smoothness,
        });
    }
    Ok(())
}

/// What a run states of a point that it certified: nothing under an adjacency that hides the number of records, and nothing of a plan by
/// hand, whose margins may be any numbers.
fn certified_bound(plan: &dyn Plan, certified: &Certified) -> Option<StatedBound> {
    let (terms, reached) = (plan.terms(), &certified.reached);
    let curvature = reached.curvature;
    let counted = terms.facts.adjacency.record_count_is_public();
    let planned = terms.certifies || plan.bound().is_some();
    let bound = StatedBound::new(reached.gradient, terms.quantity, terms.sense);
    let bound = bound.of_saddle(plan.saddle_shape());
    (counted && planned).then(|| bound.with_curvature(curvature.is_finite().then_some(curvature)))
}

/// Refuses a plan, an oracle and a starting point that don't go together.
fn check_start(start: &[f64], plan: usize, oracle: usize) -> Result<(), RunError> {
    if oracle != plan {
        return Err(RunError::Dimension { plan, oracle });
    }
    if start.len() != plan {
        return Err(RunError::StartDimension {
            plan,
            start: start.len(),
        });
    }
    if let Some(coordinate) = start.iter().position(|w| !w.is_finite()) {
        let value = start[coordinate];
        return Err(RunError::Start { coordinate, value });
    }
    Ok(())
}
