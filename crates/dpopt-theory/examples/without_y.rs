//! Saddle solvers without y (d2 = 0, K = 0), which minimise, beside solvers of minimisation that ask for no saddle: the last tables of
//! `docs/measured/saddles-without-y.tsv`.
//!
//! `without_y [RECORDS ...]`
#![allow(
    clippy::print_stdout,
    reason = "a program that talks to the person who runs it"
)]

use std::error::Error;
use std::ops::ControlFlow;

use dpopt_certify::SecondOrderProblem;
use dpopt_linalg::{Domain, norm};
use dpopt_minimax::{
    MeanFacts, PassEstimate, PerturbAndWatchPlan, PerturbSettings, RgdaAnytimePlan,
    RgdaAnytimeSettings, RgdaPassPlan, RgdaPassSettings, SaddleFacts, SaddleLimits,
};
use dpopt_nonconvex::{
    AdaptiveBatchPlan, AdaptiveBatchSettings, BoundSense, Budget, HessianFacts, Outcome, Plan,
    PlanError, PublicFacts, Release, SospPlan, SospSettings,
};
use dpopt_oracle::{Constants, Convexity, Loss as _, SaddleConstants};
use dpopt_privacy::{Adjacency, Delta, Epsilon, PrefixKind};
use dpopt_theory::{
    ClosedForm, CubicSaddles, SimulatedOracle, Tilt, TiltedProblem, WeightedLoss, WeightedRecords,
    Wells,
};

const DIM: usize = 20;
const SEEDS: u64 = 9;
const STEPS: u64 = 2_000_000;
/// Records differ by waves of this curvature, along so many directions and their opposites.
const WAVES: (f64, usize) = (0.2, 20);
/// A walk has left where the least eigenvalue is above so much of that of the saddle.
const LEFT: f64 = 0.5;

/// Where solvers start: at the strict saddle of a problem, whose records differ.
struct Saddle<P> {
    name: &'static str,
    problem: P,
    loss: TiltedProblem<P>,
    known: Constants,
}

impl<P: SecondOrderProblem + Clone + Sync> Saddle<P> {
    fn new(name: &'static str, problem: P) -> Result<Self, Box<dyn Error>> {
        let loss = TiltedProblem::new(problem.clone(), 0.0, 0.0, WAVES.0)?;
        let known = loss.constants_on(&Vec::new());
        Ok(Self {
            name,
            problem,
            loss,
            known,
        })
    }

    fn facts(&self, records: u64) -> PublicFacts {
        PublicFacts {
            records,
            dim: DIM,
            adjacency: Adjacency::ReplaceOne,
            lipschitz: self.known.lipschitz,
            smoothness: self.known.smoothness,
            initial_gap: self.known.initial_gap,
            row_norm: 1.0,
            score: Default::default(),
            convexity: Convexity::Nonconvex,
        }
    }

    /// The same facts, of a saddle problem without y.
    fn without_y(&self, records: u64) -> SaddleFacts {
        let known = &self.known;
        SaddleFacts {
            records,
            adjacency: Adjacency::ReplaceOne,
            x_dim: DIM,
            domain: Domain::Everywhere { dim: 0 },
            record: SaddleConstants {
                lipschitz_x: known.lipschitz,
                lipschitz_y: 0.0,
                smooth_xx: known.smoothness,
                smooth_xy: 0.0,
                smooth_yy: 0.0,
                hessian_frobenius: known.hessian_frobenius,
            },
            mean: MeanFacts {
                strong_concavity: 0.0,
                smooth_yy: 0.0,
                smooth_xy: 0.0,
                value_smoothness: known.smoothness,
                value_gap: known.initial_gap,
                value_hessian_lipschitz: known.hessian_lipschitz,
                joint_hessian_lipschitz: 0.0,
            },
            whole: true,
            rarest: None,
        }
    }

    /// A run: on independent draws of records, or on records that are all their mean.
    fn run(
        &self,
        plan: &dyn Plan,
        draws: bool,
        seed: u64,
        watch: &mut dyn FnMut(&Release<'_>) -> ControlFlow<()>,
    ) -> Result<Outcome, Box<dyn Error>> {
        let relation = Adjacency::ReplaceOne;
        let records = plan.facts().records;
        let mut watch = |release: &Release<'_>| watch(release);
        if !draws {
            let population = ClosedForm::new(&self.problem, records).with_hessians();
            let mut oracle = SimulatedOracle::over(population, relation, seed);
            return Ok(plan.run(&mut oracle, &mut watch)?);
        }
        let sample = sample(records, seed)?;
        let population = WeightedLoss::new(&self.loss, &sample).with_hessians();
        let mut oracle = SimulatedOracle::over(population, relation, seed);
        Ok(plan.run(&mut oracle, &mut watch)?)
    }

    fn row(
        &self,
        (solver, draws): (&str, bool),
        plan: Result<Box<dyn Plan>, PlanError>,
    ) -> Result<(), Box<dyn Error>> {
        let plan = match plan {
            Ok(plan) => plan,
            Err(error) => {
                println!(
                    "| {solver} | {} | refused: {error} | | | | | | |",
                    self.name
                );
                return Ok(());
            }
        };
        let saddle = self.problem.least_eigenvalue(&[0.0; DIM]);
        let mut left = 0;
        let (mut seen, mut passes) = (0, 0.0);
        let (mut slopes, mut least) = (Vec::new(), Vec::new());
        let (mut stated, mut curvatures) = (Vec::new(), Vec::new());
        let (mut wrong, mut claims) = (0, 0);
        for seed in 0..SEEDS {
            let mut out = false;
            let outcome = self.run(&*plan, draws, seed, &mut |release| {
                seen += 1;
                out |= self.problem.least_eigenvalue(release.point) > LEFT * saddle;
                ControlFlow::Continue(())
            })?;
            left += u64::from(out);
            passes += outcome.counts.gradients / plan.facts().records as f64;
            let mut gradient = vec![0.0; DIM];
            self.problem.gradient(&outcome.point, &mut gradient);
            let (slope, eigenvalue) = (
                norm(&gradient),
                self.problem.least_eigenvalue(&outcome.point),
            );
            slopes.push(slope);
            least.push(eigenvalue);
            if let Some(bound) = outcome.bound() {
                stated.push(bound.value);
                curvatures.extend(bound.curvature);
                let below = bound
                    .curvature
                    .is_some_and(|curvature| eigenvalue < -curvature);
                // A bound on a mean says nothing of one run.
                let of_run = matches!(
                    bound.sense,
                    BoundSense::WithProbability | BoundSense::PopulationWithProbability
                );
                wrong += u64::from(of_run && (slope > bound.value || below));
                claims += u64::from(of_run);
            }
        }
        let at_saddle = least
            .iter()
            .filter(|found| **found <= LEFT * saddle)
            .count();
        println!(
            "| {solver} | {} | {left} of {SEEDS}, {} releases, {:.1} passes | {at_saddle} of {SEEDS} | {:.4} | {:.3} | {} | {} | {wrong} of {claims} |",
            self.name,
            seen / SEEDS,
            passes / SEEDS as f64,
            median(slopes),
            median(least),
            told(&stated),
            told(&curvatures),
        );
        Ok(())
    }

    fn rows(&self, records: u64) -> Result<(), Box<dyn Error>> {
        let (facts, alone) = (self.facts(records), self.without_y(records));
        let (hessian, budget) = (HessianFacts::of(&self.known), budget()?);
        let watched = PerturbSettings::new(STEPS);
        let pass = |kind, share: Option<f64>| {
            let settings = RgdaPassSettings::new(kind);
            let settings = share.map_or(settings, |share| settings.certified_on(share));
            let limits = SaddleLimits::steps(STEPS);
            boxed(RgdaPassPlan::new(&alone, &budget, settings, &limits))
        };
        let prefix = PassEstimate::Prefix(PrefixKind::Toeplitz);
        for (solver, draws, plan) in [
            (
                "perturb-and-watch, d2 = 0",
                false,
                boxed(PerturbAndWatchPlan::new(&alone, &budget, watched)),
            ),
            (
                "rgda-anytime, d2 = 0",
                false,
                boxed(RgdaAnytimePlan::new(
                    &alone,
                    &budget,
                    RgdaAnytimeSettings::new(STEPS),
                )),
            ),
            (
                "sosp",
                false,
                boxed(SospPlan::new(
                    &facts,
                    &hessian,
                    &budget,
                    SospSettings::new(STEPS),
                )),
            ),
            ("rgda-prefix, d2 = 0", true, pass(prefix, None)),
            (
                "rgda-prefix, d2 = 0, certified",
                true,
                pass(prefix, Some(0.3)),
            ),
            (
                "rgda-chain, d2 = 0, certified",
                true,
                pass(PassEstimate::Chain, Some(0.3)),
            ),
            (
                "adaptive-batch",
                true,
                boxed(AdaptiveBatchPlan::new(
                    &facts,
                    &hessian,
                    &budget,
                    AdaptiveBatchSettings::new(STEPS),
                )),
            ),
        ] {
            self.row((solver, draws), plan)?;
        }
        Ok(())
    }
}

fn boxed<P: Plan + 'static>(plan: Result<P, PlanError>) -> Result<Box<dyn Plan>, PlanError> {
    plan.map(|plan| Box::new(plan) as Box<dyn Plan>)
}

fn budget() -> Result<Budget, Box<dyn Error>> {
    Ok(Budget {
        epsilon: Epsilon::new(1.0)?,
        delta: Delta::new(1e-6)?,
    })
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_unstable_by(f64::total_cmp);
    of[of.len() / 2]
}

/// The median of what was stated, if anything was.
fn told(of: &[f64]) -> String {
    if of.is_empty() {
        "–".to_owned()
    } else {
        format!("{:.4}", median(of.to_vec()))
    }
}

/// So many independent draws: waves and their opposites, equally likely.
fn sample(records: u64, seed: u64) -> Result<WeightedRecords<Vec<Tilt>>, Box<dyn Error>> {
    let both = |tilt: Tilt| [tilt.opposite(), tilt];
    let kinds: Vec<Tilt> = Tilt::waves(DIM, WAVES.1)
        .into_iter()
        .flat_map(both)
        .collect();
    let mut copies = vec![0u64; kinds.len()];
    let mut state = seed ^ 0x5eed;
    for _ in 0..records {
        // splitmix64
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        copies[((z ^ (z >> 31)) % kinds.len() as u64) as usize] += 1;
    }
    Ok(WeightedRecords::new(kinds, copies)?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let depths = vec![0.5, 0.25, 0.125];
    let wells = Saddle::new("wells", Wells::new(DIM, 0.1, depths.clone())?)?;
    let chain = Saddle::new("chain", CubicSaddles::new(DIM, 1.0, depths)?)?;
    let mut sizes: Vec<u64> = Vec::new();
    for size in std::env::args().skip(1) {
        sizes.push(size.parse()?);
    }
    if sizes.is_empty() {
        sizes = vec![100_000, 1_000_000];
    }
    for records in sizes {
        println!("\nn = {records}, d = {DIM}, epsilon 1, delta 1e-6, {SEEDS} seeds\n");
        println!(
            "| solver | saddle | left | returned at the saddle | gradient norm | least eigenvalue | stated gradient | stated curvature | false |"
        );
        println!("| - | - | - | - | - | - | - | - | - |");
        wells.rows(records)?;
        chain.rows(records)?;
    }
    Ok(())
}
