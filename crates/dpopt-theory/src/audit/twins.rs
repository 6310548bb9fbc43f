//! Broken twins: mechanisms with one mistake each, that every audit must catch.
//!
//! They draw floating-point noise from an [`AuditTape`] and touch nothing of the real mechanisms. Each
//! claims the mu that its author believes in. Where the mistake stands in a paper, the erratum is named.

use dpopt_privacy::{Adjacency, ChangedRecord, Event, LatticeSum, Spend, Which};

use super::common::{DELTA, bound, noise};
use super::mechanisms::release_sum;
use super::{
    AuditTape, Canary, CheckError, Claim, CuratorReplay, MechanismReplay, OneRun, Pair, Ran,
    Registry, Statistic, World,
};

const GROUP: &str = "twins";
/// The claimed noise multiplier of each release.
pub(super) const Z: f64 = 4.0;

/// What a twin's run gives: the mu it claims, and a score that is high where the canary is in.
pub(super) struct Ran1 {
    mu: f64,
    score: f64,
}

/// A mechanism with a mistake, and two neighbours that show it.
pub(super) struct Twin {
    pub(super) name: &'static str,
    pub(super) data: Neighbours,
    pub(super) run: fn(&mut AuditTape, &[f64], usize) -> Ran1,
}

/// With the canary and without it, and what changes.
#[derive(Clone, Copy)]
pub(super) struct Neighbours(
    pub(super) &'static [f64],
    pub(super) &'static [f64],
    pub(super) ChangedRecord,
);

const IN_PLACE: ChangedRecord = ChangedRecord::InPlace(0);
/// The canary is taken away.
const REMOVED: ChangedRecord = ChangedRecord::Removed(0);
/// From among two records.
pub(super) const LEFT: Neighbours = Neighbours(&[1.0, 0.3], &[0.3], REMOVED);
/// Turned round, beside another.
pub(super) const OPPOSITE: Neighbours = Neighbours(&[1.0, 0.3], &[-1.0, 0.3], IN_PLACE);

const TWINS: [Twin; 36] = [
    Twin {
        // A run that scores on the records that it trained on, charged as the dearer of both.
        name: "tuning/scored-where-it-trained",
        data: LEFT,
        run: |tape, data, _| {
            let trained = tape.gaussian(&[clipped_sum(data)], Z);
            let scored = tape.gaussian(&[clipped_sum(data)], Z);
            ran(1.0 / Z, trained[0] + scored[0])
        },
    },
    Twin {
        // A record in another cell moves two counts and the loss: noise for the radius, and not for twice that.
        name: "evaluation/one-radius-under-replace-one",
        data: OPPOSITE,
        run: |tape, data, _| {
            let count = |cell: fn(&f64) -> f64| data.iter().map(cell).sum::<f64>();
            let sums = [
                count(|x| f64::from(u8::from(*x > 0.0))),
                count(|x| f64::from(u8::from(*x <= 0.0))),
                count(|x| 0.5 * x.signum()),
            ];
            let found = tape.gaussian(&sums, Z * 1.25f64.sqrt());
            ran(1.0 / Z, found[0] - found[1] + found[2])
        },
    },
    Twin {
        // A product with a v that has left already, of length 4, is not clipped, and charged as one with a v inside.
        name: "episode/unclipped-after-the-exit",
        data: LEFT,
        run: |tape, data, _| one(tape, 4.0 * clipped_sum(data), Z),
    },
    Twin {
        // Eight products, and noise for four.
        name: "episode/noise-for-part-of-it",
        data: LEFT,
        run: |tape, data, _| {
            let z = Z * 4f64.sqrt();
            let products = (0..8).map(|_| tape.gaussian(&[clipped_sum(data)], z)[0]);
            ran(1.0 / Z, products.sum())
        },
    },
    Twin {
        // Arithmetic of its own: the caps of two slices, of which one is not read, are spent on the other.
        name: "slice-cap/cap-of-two-on-one",
        data: LEFT,
        run: |tape, data, _| {
            let first = tape.gaussian(&[clipped_sum(data)], Z);
            let second = tape.gaussian(&[clipped_sum(data)], Z);
            ran(1.0 / Z, first[0] + second[0])
        },
    },
    Twin {
        // Weights are one over counts of the records themselves: whoever joins a group moves all that were in it.
        name: "group-dro/shares-from-records",
        data: Neighbours(
            &[-1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0],
            &[1.0; 9],
            REMOVED,
        ),
        run: |tape, data, _| {
            let weight = 9.0 / data.len() as f64;
            let sum: f64 = data.iter().map(|x| (weight * x).clamp(-1.0, 1.0)).sum();
            one(tape, -sum, Z)
        },
    },
    Twin {
        // A public weight of 4, on gradients that were clipped before.
        name: "group-dro/weight-after-the-clip",
        data: LEFT,
        run: |tape, data, _| {
            let sum = data.iter().map(|x| 4.0 * x.clamp(-1.0, 1.0)).sum();
            one(tape, sum, Z)
        },
    },
    Twin {
        name: "half-the-noise",
        data: LEFT,
        run: |tape, data, _| one(tape, clipped_sum(data), 0.5 * Z),
    },
    Twin {
        name: "no-clipping",
        data: Neighbours(&[9.0, 0.3], &[0.3], REMOVED),
        run: |tape, data, _| one(tape, data.iter().sum(), Z),
    },
    Twin {
        name: "noise-reused",
        data: LEFT,
        run: |tape, data, _| {
            let sum = clipped_sum(data);
            let first = tape.gaussian(&[sum], Z);
            let second = tape.gaussian_with_reused_noise(&[-sum]);
            ran(2f64.sqrt() / Z, first[0] - second[0])
        },
    },
    Twin {
        // Also adaptive-batch P4, nonsmooth E4 and KL E-4: their sensitivities under replace-one.
        name: "replace-one-at-add-remove-sensitivity",
        data: OPPOSITE,
        run: |tape, data, _| one(tape, clipped_sum(data), Z),
    },
    Twin {
        name: "mean-by-the-realised-size",
        data: Neighbours(&[1.0, -1.0, -1.0, -1.0], &[-1.0, -1.0, -1.0], REMOVED),
        // A claim for all records covers one for a sample.
        run: |tape, data, at| {
            let (rate, public) = (0.9, 4.0);
            let always = (data.len() == 4).then_some(at);
            let drawn = tape.poisson(data.len(), rate, always);
            let kept = || data.iter().zip(&drawn).filter(|(_, drawn)| **drawn);
            let mean = kept().map(|(x, _)| x).sum::<f64>() / kept().count().max(1) as f64;
            one(tape, mean, Z / (rate * public))
        },
    },
    Twin {
        name: "release-not-charged",
        data: LEFT,
        run: |tape, data, _| {
            let first = tape.gaussian(&[clipped_sum(data)], Z);
            let second = tape.gaussian(&[clipped_sum(data)], Z);
            ran(1.0 / Z, first[0] + second[0])
        },
    },
    Twin {
        // The gradient jumps between two points at distance 1/10; L1 is said to be 1.
        name: "difference-without-its-radius",
        data: Neighbours(&[1.0, 0.0], &[0.0], REMOVED),
        run: |tape, data, _| {
            let moved = 0.1;
            let anchor = tape.gaussian(&[clipped_sum(data)], Z);
            let change: f64 = data.iter().map(|x| (-2.0 * x).clamp(-2.0, 2.0)).sum();
            let change = tape.gaussian(&[change], Z * moved);
            ran(2f64.sqrt() / Z, 0.01 * anchor[0] - change[0])
        },
    },
    Twin {
        // Arithmetic of its own, no run of the query. |z| averaged over a tenth of the reach that is said: the slope over a move of 1/10 goes from 0 to 1.
        name: "average-over-less-than-said",
        data: Neighbours(&[1.0, 0.0], &[0.0], REMOVED),
        run: |tape, data, _| {
            let (moved, said, taken) = (0.1_f64, 1.0, 0.1);
            let slope = (moved / taken).min(1.0);
            let change: f64 = data.iter().map(|x| slope * x).sum();
            one(tape, change, Z * moved / said)
        },
    },
    Twin {
        // Nonsmooth E2 and adaptive-batch P1, for two steps: the greedy cover of prefix 2 starts at length 1
        // and ends after step 1, so that its noise is that of prefix 1.
        name: "literal-tree-of-two-steps",
        data: Neighbours(&[0.3, 1.0], &[0.3], ChangedRecord::Removed(1)),
        run: |tape, data, _| {
            let first = data[0].clamp(-1.0, 1.0);
            let second = data.get(1).map_or(0.0, |x| x.clamp(-1.0, 1.0));
            let one = tape.gaussian(&[first], 2f64.sqrt() * Z);
            let two = tape.gaussian_with_reused_noise(&[first + second]);
            ran(1.0 / Z, two[0] - one[0])
        },
    },
    Twin {
        // Nonsmooth E1 (index t mod the period) and adaptive-batch P2: a multiple of the period gets
        // index 0, whose prefix is empty and has no noise.
        name: "literal-restart",
        data: LEFT,
        run: |tape, data, _| one(tape, clipped_sum(data), 0.0),
    },
    Twin {
        // Minimax E1: the batch average is clipped, not the records.
        name: "literal-clipped-average",
        data: Neighbours(
            &[1e6, -0.5, -0.5, -0.5],
            &[-1e6, -0.5, -0.5, -0.5],
            IN_PLACE,
        ),
        run: |tape, data, _| {
            let records = data.len() as f64;
            let mean = (data.iter().sum::<f64>() / records).clamp(-1.0, 1.0);
            one(tape, mean, 2.0 * Z / records)
        },
    },
    Twin {
        // Faster rates E8: anchors and variations get all of (epsilon, delta) each.
        name: "literal-two-budgets",
        data: LEFT,
        run: |tape, data, _| {
            let mut score = 0.0;
            for _family in 0..2 {
                for _release in 0..4 {
                    // Four releases at mu = 1/Z in all.
                    score += tape.gaussian(&[clipped_sum(data)], 2.0 * Z)[0];
                }
            }
            ran(1.0 / Z, score)
        },
    },
    Twin {
        // Adaptive-batch P6: tau < 1 episodes are charged and one is run.
        name: "literal-part-of-an-episode",
        data: LEFT,
        run: |tape, data, _| {
            let (queries, tau) = (4, 0.25_f64);
            let deviation = Z * (f64::from(queries) * tau).sqrt();
            let mut score = 0.0;
            for _query in 0..queries {
                score += tape.gaussian(&[clipped_sum(data)], deviation)[0];
            }
            ran(1.0 / Z, score)
        },
    },
    Twin {
        // KL E-9: the noise is scaled by a noisy norm from below, its charge by the same norm squared. A norm
        // of -3 gets the floor and is charged as 3 times less.
        name: "literal-negative-norm",
        data: LEFT,
        run: |tape, data, _| {
            let (norm, floor) = (-3.0_f64, Z);
            let released = tape.gaussian(&[clipped_sum(data)], norm.max(floor));
            ran(1.0 / (floor * norm.abs()), released[0])
        },
    },
    Twin {
        // Faster rates, Algorithm 2: noise for b/2^j records, of which floor(b/2^j) are read. Here b = 3, j = 1.
        name: "literal-batch-of-a-right-child",
        data: Neighbours(&[1.0], &[-1.0], IN_PLACE),
        run: |tape, data, _| {
            let mean = clipped_sum(data) / data.len() as f64;
            one(tape, mean, 2.0 * Z / 1.5)
        },
    },
    Twin {
        // Faster rates, sampled SpiderBoost: noise relative to the clip where a record of a fixed-size sample is replaced.
        // The two samples hold the changed record and no other one of note.
        name: "literal-sample-noise-by-the-clip",
        data: OPPOSITE,
        run: |tape, data, _| {
            let batch = data.len() as f64;
            one(tape, clipped_sum(data) / batch, Z / batch)
        },
    },
    Twin {
        // Faster rates, Algorithm 6 as printed averages the points before a step; its sensitivity, for the average
        // after each step, lacks the first term.
        name: "literal-range-of-a-pass",
        data: Neighbours(&[1.0, 1.0], &[-1.0, 1.0], IN_PLACE),
        run: |tape, data, _| {
            let (step, decay) = (0.01, 0.1_f64);
            let (mut point, mut sum, mut total, mut weight) = (0.0, 0.0, 0.0, 1.0);
            for slope in data {
                point -= decay * point + step * slope;
                weight /= 1.0 - decay;
                sum += weight * point;
                total += weight;
            }
            let printed = 2.0 * step * (1.0 - decay).powi(-2) / total;
            let released = tape.gaussian(&[sum / total], Z * printed);
            ran(1.0 / Z, -released[0])
        },
    },
    Twin {
        // One pass: the last batch is what is left, one record of two, and the noise that of a full one.
        name: "last-batch-short",
        data: Neighbours(&[1.0], &[-1.0], IN_PLACE),
        run: |tape, data, _| {
            let (planned, left) = (2.0, data.len() as f64);
            one(tape, clipped_sum(data) / left, 2.0 * Z / planned)
        },
    },
    Twin {
        // One pass, also adaptive-batch P8: how many records are read next follows the exact gradient, and everybody sees how many are left.
        name: "batch-by-the-exact-gradient",
        data: LEFT,
        run: |tape, data, _| {
            let sum = clipped_sum(data);
            let walked = tape.gaussian(&[sum], Z);
            let batch = tape.gaussian(&[(100.0 * sum).ceil()], 0.0);
            ran(1.0 / Z, walked[0] + batch[0])
        },
    },
    Twin {
        // One pass: the norm of the certificate is that of the records that the walk has read, and charged as if it were of others.
        name: "certificate-on-read-records",
        data: LEFT,
        run: |tape, data, _| {
            let walked = tape.gaussian(&[clipped_sum(data)], Z);
            let certified = tape.gaussian(&[clipped_sum(data).abs()], Z);
            ran(1.0 / Z, walked[0] + certified[0])
        },
    },
    Twin {
        // A record along the one row of a map that is longer than 1, and no rescaling after the map.
        name: "lengthened-by-the-map",
        data: Neighbours(&[1.0], &[0.0], IN_PLACE),
        run: |tape, data, _| {
            let dim = 16;
            let entry = |j: usize| if j.is_multiple_of(2) { 0.8_f64 } else { -0.6 };
            let length = (0..dim).map(|j| entry(j).powi(2)).sum::<f64>().sqrt();
            let record = |j| data[0] * entry(j) / length;
            let image = (0..dim).map(|j| entry(j) * record(j)).sum();
            one(tape, image, Z)
        },
    },
    Twin {
        // A schedule of clip radii that the noise follows and the clip does not.
        name: "clip-behind-its-schedule",
        data: LEFT,
        run: |tape, data, _| {
            let mut score = 0.0;
            for step in 0..4 {
                let radius = 0.5_f64.powi(step);
                score += tape.gaussian(&[clipped_sum(data)], 2.0 * Z * radius)[0] / radius.powi(2);
            }
            ran(1.0 / Z, score)
        },
    },
    Twin {
        // Slopes along two directions, each clipped to 1, with the noise of one vector of length 1.
        name: "slopes-clipped-one-by-one",
        data: LEFT,
        run: |tape, data, _| {
            let slope = clipped_sum(data);
            let released = tape.gaussian(&[slope, slope], Z);
            ran(1.0 / Z, released[0] + released[1])
        },
    },
    Twin {
        // The direction is the way up of the steepest record, and is not shown. One record less, and the slopes of all others are along
        // another one.
        name: "direction-after-a-look",
        data: Neighbours(&[1.0, -0.8, -0.8, -0.8], &[-0.8, -0.8, -0.8], REMOVED),
        run: |tape, data, _| {
            let steepest = data.iter().fold(
                0.0f64,
                |most, x| {
                    if x.abs() > most.abs() { *x } else { most }
                },
            );
            let slope = tape.gaussian(&[steepest.signum() * clipped_sum(data)], Z);
            ran(1.0 / Z, -slope[0])
        },
    },
    Twin {
        // Two frames, by turns: one record less at the front, and all others have another one.
        name: "frames-by-position",
        data: Neighbours(
            &[1.0, 1.0, -1.0, 1.0, -1.0],
            &[1.0, -1.0, 1.0, -1.0],
            REMOVED,
        ),
        run: |tape, data, _| {
            let mut sums = [0.0; 2];
            for (i, x) in data.iter().enumerate() {
                sums[i % 2] += x.clamp(-1.0, 1.0);
            }
            let released = tape.gaussian(&sums, Z);
            ran(1.0 / Z, 4.0 * released[1] - 3.0 * released[0])
        },
    },
    Twin {
        // A Hessian x I of order 9 is clipped to operator norm 1, where it is 3 long in Frobenius norm.
        name: "hessian-clipped-by-its-eigenvalue",
        data: LEFT,
        run: |tape, data, _| {
            let released = tape.gaussian(&[clipped_sum(data); 9], Z);
            ran(1.0 / Z, released.iter().sum())
        },
    },
    Twin {
        // A Hessian with x beside the diagonal, and noise on the diagonal alone.
        name: "hessian-with-noise-on-its-diagonal",
        data: LEFT,
        run: |tape, data, _| {
            let beside = clipped_sum(data);
            tape.gaussian(&[0.0, 0.0], Z);
            one(tape, beside, 0.0)
        },
    },
    Twin {
        // A step pays for its gradient, and the norm that decides whether it is a candidate comes on top.
        name: "norm-on-top-of-a-gradient",
        data: LEFT,
        run: |tape, data, _| {
            let gradient = tape.gaussian(&[clipped_sum(data)], Z)[0];
            let norm = tape.gaussian(&[clipped_sum(data).abs()], Z)[0];
            ran(1.0 / Z, gradient + norm)
        },
    },
    Twin {
        // A filter that looks after each release whether there is budget left: the last one goes beyond it.
        name: "filter-after-the-release",
        data: LEFT,
        run: |tape, data, _| {
            let (cap, each) = (1.0, 0.9);
            let (mut spent, mut score) = (0.0, 0.0);
            while spent < cap {
                score += tape.gaussian(&[clipped_sum(data)], Z / f64::sqrt(each))[0];
                spent += each;
            }
            ran(1.0 / Z, score)
        },
    },
];

pub(super) fn ran(mu: f64, score: f64) -> Ran1 {
    Ran1 { mu, score }
}

/// One release, at the claimed noise.
pub(super) fn one(tape: &mut AuditTape, exact: f64, deviation: f64) -> Ran1 {
    ran(1.0 / Z, tape.gaussian(&[exact], deviation)[0])
}

pub(super) fn clipped_sum(data: &[f64]) -> f64 {
    data.iter().map(|x| x.clamp(-1.0, 1.0)).sum()
}

pub(super) fn register(registry: &mut Registry) -> Result<(), CheckError> {
    for twin in &TWINS {
        add(registry, twin)?;
    }
    real_curator(registry)?;
    one_run(registry)
}

/// Both audits of a twin.
pub(super) fn add(registry: &mut Registry, twin: &'static Twin) -> Result<(), CheckError> {
    let Neighbours(with, without, changed) = twin.data;
    registry.add(
        MechanismReplay::new(
            &format!("{}/replay", twin.name),
            GROUP,
            move |_| {
                vec![Pair {
                    name: twin.name.to_owned(),
                    recorded: with.to_vec(),
                    replayed: without.to_vec(),
                    changed,
                }]
            },
            |tape, data, at| (twin.run)(tape, data, at).mu,
        )
        .control(),
    );
    let claimed = (twin.run)(&mut AuditTape::recording(0), with, 0).mu;
    registry.add(
        Canary::new(
            &format!("{}/canary", twin.name),
            GROUP,
            Claim::gaussian(claimed, DELTA)?,
            Statistic::GaussianDp,
            move |world, seed| {
                let data = if world == World::In { with } else { without };
                // The sample is drawn as it comes: a position beyond the data forces nobody in.
                let mut tape = AuditTape::recording(seed);
                Ok((twin.run)(&mut tape, data, usize::MAX).score)
            },
        )
        .with_runs(60_000, 400_000)
        .control(),
    );
    Ok(())
}

/// Mistakes around the real curator: what its assumptions rule out, and a ledger that forgets.
fn real_curator(registry: &mut Registry) -> Result<(), CheckError> {
    let adjacency = Adjacency::ZeroOut;
    let z = noise(Z)?;
    let pairs = || {
        vec![Pair {
            name: "one record".to_owned(),
            recorded: vec![1.0],
            replayed: vec![0.0],
            changed: IN_PLACE,
        }]
    };
    for (name, times, forget) in [
        ("record-added-twice/replay", 2, false),
        ("ledger-forgets-a-release/replay", 1, true),
    ] {
        registry.add(
            CuratorReplay::new(
                name,
                GROUP,
                adjacency,
                move |_| pairs(),
                move |mut curator, data: &Vec<f64>| {
                    curator.reserve(&Spend::Fixed(Event::gaussian(z).repeated(2)))?;
                    for _ in 0..2 {
                        let mut sum = LatticeSum::new(bound(1)?);
                        for x in data {
                            for _ in 0..times {
                                sum.add_scaled(1.0, &[*x]);
                            }
                        }
                        release_sum(&mut curator, Which::All, sum, z)?;
                    }
                    let spent = curator.spent();
                    Ok(Ran {
                        spent: if forget { Event::gaussian(z) } else { spent },
                        outcome: String::new(),
                        refused: false,
                    })
                },
            )
            .control(),
        );
    }
    Ok(())
}

/// One run sees half the noise where the claim is an epsilon of 2 or so, and a hundredth of it anywhere.
fn one_run(registry: &mut Registry) -> Result<(), CheckError> {
    for (name, mu, factor) in [
        ("half-the-noise/one-run", 0.4483, 0.5),
        ("a-hundredth-of-the-noise/one-run", 0.2367, 0.01),
    ] {
        registry.add(
            OneRun::new(
                name,
                GROUP,
                Claim::gaussian(mu, DELTA)?,
                (100_000, 200_000),
                move |canaries, seed| {
                    let exact: Vec<f64> =
                        canaries.iter().map(|&x| f64::from(u8::from(x))).collect();
                    Ok(AuditTape::recording(seed).gaussian(&exact, factor / mu))
                },
            )
            .control(),
        );
    }
    Ok(())
}
