//! Audits of the solvers of saddle problems: replays on hostile records, the transcript meter, a test between two worlds, and twins.

use std::sync::Arc;

use dpopt_linalg::{distance, dot, norm};
use dpopt_minimax::{
    Allowance, Budget, GdaSchedule, NoObserver, Plan, PlanError, RgdaAnytimePlan,
    RgdaAnytimeSettings, RgdaPlan, SAMPLED_RGDA, SGDA, SOLVERS, SaddleFacts, SaddleLimits,
    SaddleSolver, SampledRgdaSchedule, SgdaPlan,
};
use dpopt_oracle::PrivateData;
use dpopt_privacy::{Accountant, Adjacency, Curator};

use super::common::{DELTA, RELATIONS, budget, claim_of, noise};
use super::hostile::{private, with_canary};
use super::hostile_saddle::{constants, facts, means, saddle_pairs};
use super::solvers::walk;
use super::twins::{LEFT, OPPOSITE, Twin, Z, add as add_twin, clipped_sum, one, ran};
use super::{
    Behaviour, Canary, CheckError, Claim, CuratorReplay, Hostile, Registry, Statistic,
    TranscriptMeter, Watched, WatchedKind, WatchedRelease, World, hostile_pairs,
};

const RECORDS: usize = 8;
/// d1 and d2 of replays.
const DIMS: (usize, usize) = (3, 2);

pub(super) fn register(registry: &mut Registry) -> Result<(), CheckError> {
    for adjacency in RELATIONS {
        // Those that read slices are on records that they read to the last: `saddle_pass`.
        let planned = |solver: &&&SaddleSolver| !solver.positions && **solver != &SAMPLED_RGDA;
        for solver in SOLVERS.iter().filter(planned) {
            let planned = |facts: &SaddleFacts, budget: &Budget| {
                solver.plan(facts, budget, &SaddleLimits::steps(1000))
            };
            let plan: Arc<dyn Plan> = Arc::from(smallest(adjacency, planned)?);
            registry.add(replay(solver.name, plan, adjacency));
        }
        // A sample of fixed size is of as many records as there are: by hand, of one and of three.
        for (size, batch) in [("ones", 1), ("more", 3)] {
            let plan = Arc::new(on_samples(adjacency, batch)?);
            let name = format!("{}/{size}", SAMPLED_RGDA.name);
            registry.add(replay_named(&name, plan, adjacency));
        }
        registry.add(TranscriptMeter::saddle(adjacency));
    }
    for twin in &TWINS {
        add_twin(registry, twin)?;
    }
    canary(registry)?;
    for adjacency in [Adjacency::AddRemove, Adjacency::ReplaceOne] {
        registry.add(on_samples_canary(&SAMPLES[0], adjacency, 1.0)?);
    }
    registry.add(on_samples_canary(&SAMPLES[1], Adjacency::ReplaceOne, 1.0)?);
    for of in &SAMPLES {
        let twin = on_samples_canary(of, Adjacency::ReplaceOne, 0.25)?;
        registry.add(twin.control());
    }
    Ok(())
}

/// The plan for the fewest records that there is one for: dozens of releases, and not thousands.
fn smallest<P>(
    adjacency: Adjacency,
    planned: impl Fn(&SaddleFacts, &Budget) -> Result<P, PlanError>,
) -> Result<P, CheckError> {
    let budget = budget(1.0)?;
    let mut records = 50;
    while records < 10_000_000 {
        match planned(&facts(adjacency, records, DIMS), &budget) {
            Ok(plan) => return Ok(plan),
            Err(PlanError::VacuousSaddle { .. } | PlanError::Unaffordable { .. }) => {
                records += records / 4;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err("no number of records has a plan".into())
}

/// Two periods of two steps of x, on as many records as there are.
fn on_samples(adjacency: Adjacency, batch: u64) -> Result<RgdaPlan, CheckError> {
    let schedule = SampledRgdaSchedule {
        scale: 2.0,
        target: 1e-9,
        steps: 4,
        inner: 2,
        before: 2,
        period: 2,
        batch,
        anchor: noise(4.0)?,
        variation: noise(1.0)?,
    };
    let facts = facts(adjacency, RECORDS as u64, DIMS);
    let allowance = Allowance::all(&budget(1.0)?);
    Ok(RgdaPlan::sampled_by_hand(&facts, &allowance, schedule)?)
}

fn replay(name: &str, plan: Arc<dyn Plan>, adjacency: Adjacency) -> CuratorReplay<Vec<Hostile>> {
    replay_named(&format!("{name}/replay"), plan, adjacency)
}

fn replay_named(
    name: &str,
    plan: Arc<dyn Plan>,
    adjacency: Adjacency,
) -> CuratorReplay<Vec<Hostile>> {
    CuratorReplay::new(
        &format!("{name}/{adjacency}"),
        plan.name(),
        adjacency,
        move |_| {
            let mut all = hostile_pairs(adjacency, RECORDS);
            all.extend(saddle_pairs(adjacency, RECORDS, DIMS));
            all
        },
        move |curator, records: &Vec<Hostile>| {
            let data = private(records, adjacency, RECORDS)?;
            let means = means(&data, &*plan, curator)?;
            Ok(walk(&*plan, means))
        },
    )
}

/// One record at epsilon 1, present or not, by the likelihood ratio of all means that a run releases: the record points elsewhere at every point, so
/// that it adds as much as it may to changes too.
fn canary(registry: &mut Registry) -> Result<(), CheckError> {
    let adjacency = Adjacency::AddRemove;
    let budget = budget(1.0)?;
    let crowd = 3000;
    let facts = facts(adjacency, crowd, (1, 1));
    let plan = RgdaAnytimePlan::new(&facts, &budget, RgdaAnytimeSettings::new(1000))?;
    let claim = Claim::gaussian(plan.mu(), DELTA)?;
    // Longer than its clip.
    let canary = Hostile::new(Behaviour::Hashed, 10.0);
    let score = move |world: World, seed: u64| {
        let records = with_canary(world, adjacency, vec![Hostile::nothing()], canary);
        let data = PrivateData::made_up_of(records, adjacency, Some(crowd))?;
        let mut watched = Watched::new(means(&data, &plan, Curator::simulated(adjacency, seed))?);
        plan.run(&mut watched, &mut NoObserver)?;
        let all = watched.releases().iter();
        let of_means = all.filter(|r| r.kind == WatchedKind::Mean);
        Ok(of_means
            .map(|release| {
                let mut added = contribution(&canary, release, plan.scale());
                added.iter_mut().for_each(|x| *x /= crowd as f64);
                let fit = dot(&added, &release.released) - 0.5 * dot(&added, &added);
                fit / release.deviation.powi(2)
            })
            .sum())
    };
    let name = format!("rgda-anytime/canary/{adjacency}");
    let target = Canary::new(&name, "rgda-anytime", claim, Statistic::GaussianDp, score);
    registry.add(target.with_runs(20_000, 200_000).at_least(0.3));
    Ok(())
}

/// Public number of records of canaries on samples.
const CROWD: u64 = 50;

/// A plan on samples with its noise times a factor, and the rates at which its fields and its changes read a record.
struct OnSamples {
    solver: &'static SaddleSolver,
    accountant: Accountant,
    plan: fn(Adjacency, f64) -> Result<Box<dyn Plan>, CheckError>,
    rates: fn(&dyn Plan) -> (f64, f64),
}

/// Poisson samples with the noise of the planner; samples of a fixed size (under replace-one), beside anchors on all.
const SAMPLES: [OnSamples; 2] = [
    OnSamples {
        solver: &SGDA,
        accountant: Accountant::Exact,
        plan: |adjacency, factor| {
            let facts = facts(adjacency, CROWD, (1, 1));
            let allowance = Allowance::all(&budget(1.0)?);
            let mut limits = SaddleLimits::steps(1000);
            limits.exact_steps = Some(16);
            let plan = SgdaPlan::new(&facts, &allowance, &limits)?;
            let noise_multiplier = noise(factor * plan.schedule().noise_multiplier.get())?;
            let schedule = GdaSchedule {
                noise_multiplier,
                ..*plan.schedule()
            };
            let rate = plan.sampling_rate();
            Ok(Box::new(SgdaPlan::by_hand(
                &facts, &allowance, schedule, rate,
            )))
        },
        rates: |plan| {
            let rate = plan.gradients() / (plan.steps() * CROWD) as f64;
            (rate, rate)
        },
    },
    OnSamples {
        solver: &SAMPLED_RGDA,
        accountant: Accountant::Pld,
        plan: |adjacency, factor| {
            let facts = facts(adjacency, CROWD, (1, 1));
            let schedule = SampledRgdaSchedule {
                scale: 2.0,
                target: 1e-9,
                steps: 4,
                inner: 2,
                before: 2,
                period: 2,
                batch: CROWD / 10,
                anchor: noise(10.0 * factor)?,
                variation: noise(1.5 * factor)?,
            };
            let allowance = Allowance::all(&budget(1.0)?);
            let plan = RgdaPlan::sampled_by_hand(&facts, &allowance, schedule)?;
            Ok(Box::new(plan))
        },
        rates: |_| (1.0, 0.1),
    },
];

/// One record that is there or not (another one under replace-one) in releases on samples, by their likelihood ratio: that of mixtures.
fn on_samples_canary(
    of: &'static OnSamples,
    adjacency: Adjacency,
    factor: f64,
) -> Result<Canary, CheckError> {
    let claim = claim_of(&*(of.plan)(adjacency, 1.0)?, adjacency)?;
    let plan = (of.plan)(adjacency, factor)?;
    let scale = plan.blocks().ok_or("no blocks")?.scale;
    let in_place = adjacency.record_count_is_public();
    let (fresh, change) = (of.rates)(&*plan);
    let canary = Hostile::new(Behaviour::Hashed, 10.0);
    let score = move |world: World, seed: u64| {
        let others = if in_place { CROWD as usize - 1 } else { 1 };
        let others = vec![Hostile::nothing(); others];
        let records = with_canary(world, adjacency, others, canary);
        let data = PrivateData::made_up_of(records, adjacency, (!in_place).then_some(CROWD))?;
        let mut watched = Watched::new(means(&data, &*plan, Curator::simulated(adjacency, seed))?);
        plan.run(&mut watched, &mut NoObserver)?;
        let ratio = |release: &WatchedRelease| {
            let rate = if release.from.is_none() {
                fresh
            } else {
                change
            };
            let mut added = contribution(&canary, release, scale);
            let records = rate * CROWD as f64;
            added.iter_mut().for_each(|x| *x /= records);
            let mixed = |sign: f64| {
                let fit = sign * dot(&added, &release.released) - 0.5 * dot(&added, &added);
                (1.0 - rate + rate * (fit / release.deviation.powi(2)).exp()).ln()
            };
            mixed(1.0) - if in_place { mixed(-1.0) } else { 0.0 }
        };
        Ok(watched.releases().iter().map(ratio).sum())
    };
    let statistic = Statistic::Family {
        event: Box::new(move |factor| Ok((of.plan)(adjacency, factor)?.spend().event().clone())),
        accountant: of.accountant,
        adjacency,
    };
    let (name, control) = (of.solver.name, factor < 1.0);
    let twin = if control {
        "-with-too-little-noise"
    } else {
        ""
    };
    let title = format!("{name}/canary{twin}/{adjacency}");
    let target = Canary::new(&title, name, claim, statistic, score).with_runs(80_000, 600_000);
    Ok(if control {
        target
    } else {
        target.at_least(0.3)
    })
}

/// What a record adds to a sum of joint gradients, or of their changes, in two dimensions.
fn contribution(record: &Hostile, release: &WatchedRelease, scale: f64) -> Vec<f64> {
    let of = constants();
    let clip = of.clip(scale);
    let clipped = |mut v: Vec<f64>, radius: f64| {
        let length = norm(&v);
        if length > radius {
            v.iter_mut().for_each(|x| *x *= radius / length);
        }
        v
    };
    let field = |point: &[f64]| {
        let mut out = vec![0.0; 2];
        record.add_gradient(&[point[0], scale * point[1]], &mut out);
        out[1] *= scale;
        clipped(out, clip)
    };
    let new = field(&release.point);
    let Some(from) = &release.from else {
        return new;
    };
    let change = new.iter().zip(field(from)).map(|(a, b)| a - b).collect();
    let reach = of.smoothness(scale) * distance(from, &release.point);
    clipped(change, reach.min(2.0 * clip))
}

/// One mistake each that a solver of saddle problems may make.
const TWINS: [Twin; 8] = [
    Twin {
        // grad_x and grad_y, each clipped to 1 and released; one of them is charged. (Minimax E3.)
        name: "rgda/two-blocks-one-charge",
        data: LEFT,
        run: |tape, data, _| {
            let x = tape.gaussian(&[clipped_sum(data)], Z);
            let y = tape.gaussian(&[clipped_sum(data)], Z);
            ran(1.0 / Z, x[0] + y[0])
        },
    },
    Twin {
        // An anchor, and three variations over a tenth, whose noise is right; the anchor is charged. (Minimax E3: no K.)
        name: "rgda/inner-steps-not-charged",
        data: LEFT,
        run: |tape, data, _| {
            let moved = 0.1;
            let mut score = tape.gaussian(&[clipped_sum(data)], Z)[0];
            for _ in 0..3 {
                score += tape.gaussian(&[moved * clipped_sum(data)], moved * Z)[0] / moved;
            }
            ran(1.0 / Z, score)
        },
    },
    Twin {
        // x moves by 1/10 and y by 1/100; the noise goes by the displacement of y. (Minimax E5.)
        name: "rgda/x-move-without-noise",
        data: LEFT,
        run: |tape, data, _| {
            let (x, y) = (0.1f64, 0.01);
            one(tape, x.hypot(y) * clipped_sum(data), y * Z)
        },
    },
    Twin {
        // A record's s grad_y with s = 4 and |grad_y| = 1, under the noise for C_y = 1.
        name: "rgda/scale-forgotten",
        data: LEFT,
        run: |tape, data, _| one(tape, 4.0 * clipped_sum(data), Z),
    },
    Twin {
        // The last change of a pass reads one record where two were planned for, under the noise for two.
        name: "rgda-chain/short-batch",
        data: OPPOSITE,
        run: |tape, data, _| {
            let (planned, left) = (2.0, 1.0);
            one(tape, data[0].clamp(-1.0, 1.0) / left, 2.0 * Z / planned)
        },
    },
    Twin {
        // A pass divides its noise by n/b, as if its batches were samples of all records, and composes none of them. (Minimax E4.)
        name: "rgda/amplified-single-pass",
        data: OPPOSITE,
        run: |tape, data, _| {
            let rate = data.len() as f64 / 100.0;
            one(tape, clipped_sum(data), 2.0 * rate * Z)
        },
    },
    Twin {
        // The slice of a certificate was read by a step before; each is charged as if it were of other records.
        name: "certificate/slice-read-again",
        data: OPPOSITE,
        run: |tape, data, _| {
            let sum = clipped_sum(data);
            let step = tape.gaussian(&[sum], 2.0 * Z);
            let again = tape.gaussian(&[sum], 2.0 * Z);
            ran(1.0 / Z, step[0] + again[0])
        },
    },
    Twin {
        // The run starts at y*(x_0), computed from the records. (Minimax E6.)
        name: "rgda/exact-start",
        data: LEFT,
        run: |tape, data, _| one(tape, clipped_sum(data), 0.0),
    },
];
