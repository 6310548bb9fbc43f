//! Audits of the solvers of saddle problems: replays on hostile records, the transcript meter, a test between two worlds, and twins.

use std::sync::Arc;

use dpopt_linalg::{distance, dot, norm};
use dpopt_minimax::{
    Allowance, Budget, NoObserver, Plan, PlanError, RgdaAnytimePlan, RgdaAnytimeSettings, RgdaPlan,
    SAMPLED_RGDA, SOLVERS, SaddleFacts, SaddleLimits, SaddleSolver, SampledRgdaSchedule,
};
use dpopt_oracle::PrivateData;
use dpopt_privacy::{Adjacency, Curator};

use super::common::{DELTA, RELATIONS, budget, noise};
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
    canary(registry)
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
            Err(PlanError::Vacuous { .. } | PlanError::Unaffordable { .. }) => {
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
