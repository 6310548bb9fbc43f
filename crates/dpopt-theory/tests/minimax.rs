//! Saddle problems: closed forms, plans against what they say, certificates and how often they are false.
//!
//! Shares of what is false are held against what is planned by lower Clopper-Pearson limits at 99.9 %; seeds are fixed.

use std::ops::ControlFlow;

use dpopt_linalg::{distance, norm};
use dpopt_minimax::{
    Budget, CertificateNoise, NoObserver, Outcome, Plan, PlanError, Release, RgdaAnytimePlan,
    RgdaAnytimeSettings, RgdaPlan, Run, SaddleFacts, SaddleLimits, SpiderGdaPlan, Stop,
    saddle_certificate,
};
use dpopt_oracle::Oracle as _;
use dpopt_privacy::{Adjacency, Delta, Epsilon, Event, NoiseMultiplier, Spend};
use dpopt_theory::audit::binomial::upper_tail;
use dpopt_theory::{
    ClosedForm, CosineSaddle, Coupled, JointProblem, MinimaxProblem, Probe, Problem as _,
    QuadraticGame, Ramp, RampBowl, SecondOrderMinimax, SimulatedOracle, schur_least,
};

fn budget() -> Budget {
    Budget {
        epsilon: Epsilon::new(1.0).unwrap(),
        delta: Delta::new(1e-6).unwrap(),
    }
}

fn simulated<'a, P: SecondOrderMinimax>(
    joint: &'a JointProblem<'a, P>,
    records: u64,
    seed: u64,
) -> SimulatedOracle<ClosedForm<'a, JointProblem<'a, P>>> {
    let population = ClosedForm::new(joint, records)
        .with_hessians()
        .with_blocks(joint.blocks());
    SimulatedOracle::over(population, Adjacency::ReplaceOne, seed)
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_unstable_by(f64::total_cmp);
    of[of.len() / 2]
}

#[test]
fn explore() {
    let problem = CosineSaddle::new(10, 10).unwrap();
    let limits = SaddleLimits::steps(1_000_000_000);
    for records in [10_000, 30_000, 100_000, 300_000, 1_000_000] {
        let mut facts = problem.facts(records);
        let t = std::time::Instant::now();
        let show = |name: &str, plan: &dyn Plan| {
            println!("{records} {name} bound {:?} {:?}", plan.bound().map(|b| b.value), plan.items().iter().map(|i| format!("{}={:?}", i.name, i.value)).collect::<Vec<_>>().join(" "));
        };
        match RgdaPlan::new(&facts, &budget(), &limits) { Ok(p) => show("theory", &p), Err(e) => println!("{e}") }
        match SpiderGdaPlan::new(&facts, &budget(), &limits) { Ok(p) => show("spider", &p), Err(e) => println!("{e}") }
        println!("{:?}", t.elapsed());
        facts.mean.value_smoothness = 2.5;
        match RgdaPlan::practical(&facts, &budget(), &limits) { Ok(p) => show("practical", &p), Err(e) => println!("{e}") }
        println!("{:?}", t.elapsed());
    }
    for records in [10_000u64, 30_000, 100_000, 1_000_000] {
        let facts = problem.facts(records);
        let plan = RgdaAnytimePlan::new(&facts, &budget(), RgdaAnytimeSettings::new(1_000_000)).unwrap();
        let joint = JointProblem::new(&problem, plan.scale());
        let (mut g, mut l, mut tg, mut tl, mut steps) = (vec![], vec![], vec![], vec![], vec![]);
        let mut wrong = 0;
        let t = std::time::Instant::now();
        for seed in 0..40 {
            let mut oracle = simulated(&joint, records, seed);
            let out = plan.run_from(&joint.start(), &mut oracle, &mut NoObserver).unwrap();
            let b = out.bound().unwrap();
            let x = &out.point[..10];
            let (sg, sl) = (problem.value_slope(x), problem.value_least_eigenvalue(x));
            if sg > b.value || b.curvature.is_some_and(|c| sl < -c) { wrong += 1; }
            g.push(b.value); l.push(b.curvature.map_or(f64::NEG_INFINITY, |c| -c)); tg.push(sg); tl.push(sl); steps.push(out.steps as f64);
        }
        println!("{records} s={} certified {:.4} {:.4} true {:.4} {:.4} steps {} wrong {wrong} {:?} min l {:?}", plan.scale(), median(g), median(l.clone()), median(tg), median(tl), median(steps), t.elapsed(), l.iter().copied().fold(9.0, f64::min));
    }
}
