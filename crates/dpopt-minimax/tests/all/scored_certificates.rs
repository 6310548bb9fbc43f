//! Certificates of objectives at a released point: against gradients and Hessians of Phi that are computed here, record by record.

use std::num::NonZeroUsize;

use dpopt_linalg::{Design, distance, norm, symmetric_spectrum};
use dpopt_minimax::{
    Budget, CertifyError, OnlyFirstOrder, ScoredCertificate, ScoredCertificatePlan, SharesPlan,
    sampled_excess,
};
use dpopt_oracle::{
    AucSaddle, BlockClips, Cell, CellShares, EqualOpportunity, Examples, GroupDro, PrivateData,
    Records as _, SaddleLoss as _, ScoreSaddle, Scored, TwiceSaddle as _,
};
use dpopt_privacy::{Adjacency, ClipNorm, Curator, Delta, Epsilon};

const ROW_NORM: f64 = 1.0;
const COLUMNS: usize = 3;
const RECORDS: usize = 4000;
const FAILURE: f64 = 0.05;
const RUNS: u64 = 1000;

/// Four cells with shares of 0.5, 0.2, 0.2 and 0.1, exactly.
fn cells() -> (Vec<f32>, CellShares) {
    let cell = |positive, group| Cell { positive, group }.label();
    let of_ten = [
        cell(false, 0),
        cell(false, 0),
        cell(false, 0),
        cell(false, 0),
        cell(false, 0),
        cell(true, 0),
        cell(true, 0),
        cell(false, 1),
        cell(false, 1),
        cell(true, 1),
    ];
    let labels = (0..RECORDS).map(|i| of_ten[i % 10]).collect();
    let shares = vec![[Some(0.5), Some(0.2)], [Some(0.2), Some(0.1)]];
    (labels, CellShares::new(shares).unwrap())
}

fn rows() -> Design {
    let entries = (0..RECORDS * COLUMNS).map(|j| {
        let j = j as f64;
        (0.55 * ((0.731 * j).sin() + 0.3 * (0.017 * j * j).cos())) as f32
    });
    Design::dense32(COLUMNS, entries.collect()).unwrap()
}

fn free<S: ScoreSaddle>(objective: S) -> Scored<S> {
    let none = f64::INFINITY;
    Scored::new(objective, BlockClips { x: none, y: none })
}

/// grad_x F, grad_y F and the Hessian of F at a point.
type Field = (Vec<f64>, Vec<f64>, Vec<Vec<f64>>);

fn mean<S: ScoreSaddle>(loss: &Scored<S>, records: &Examples, x: &[f64], y: &[f64]) -> Field {
    let (mut of_x, mut of_y) = (vec![0.0; x.len()], vec![0.0; y.len()]);
    let dim = x.len() + y.len();
    let mut hessian = vec![vec![0.0; dim]; dim];
    for i in 0..records.len() {
        loss.gradient(records.record(i), x, y, (&mut of_x, &mut of_y));
        for (j, out) in hessian.iter_mut().enumerate() {
            let mut unit = vec![0.0; dim];
            unit[j] = 1.0;
            loss.hessian_vector(records.record(i), x, y, &unit, out);
        }
    }
    let n = records.len() as f64;
    of_x.iter_mut().chain(&mut of_y).for_each(|g| *g /= n);
    hessian.iter_mut().flatten().for_each(|h| *h /= n);
    (of_x, of_y, hessian)
}

/// What is true at x: y*, the norm of grad Phi, and the least eigenvalue of its Hessian (F is -m I in y).
fn truth<S: ScoreSaddle + Clone>(objective: &S, x: &[f64], m: f64) -> (Vec<f64>, f64, f64) {
    let (labels, _) = cells();
    let norm_of_rows = ClipNorm::new(ROW_NORM).unwrap();
    let records = Examples::new(rows(), labels, norm_of_rows).unwrap();
    let loss = free(objective.clone());
    let domain = objective.domain();
    let mut y = domain.middle();
    // One step of 1/m is the best y of a quadratic; more of them where the domain binds change nothing.
    for _ in 0..3 {
        let (_, of_y, _) = mean(&loss, &records, x, &y);
        y.iter_mut().zip(&of_y).for_each(|(y, g)| *y += g / m);
        domain.project(&mut y);
    }
    let (of_x, _, hessian) = mean(&loss, &records, x, &y);
    let d = x.len();
    let mut of_value = vec![0.0; d * d];
    for i in 0..d {
        for j in 0..d {
            let across: f64 = (d..d + y.len())
                .map(|k| hessian[i][k] * hessian[k][j] / m)
                .sum();
            of_value[i * d + j] = hessian[i][j] + across;
        }
    }
    let least = symmetric_spectrum(d, &of_value).unwrap().eigenvalues[0];
    (y, norm(&of_x), least)
}

fn data(adjacency: Adjacency) -> PrivateData {
    let (labels, _) = cells();
    let norm_of_rows = ClipNorm::new(ROW_NORM).unwrap();
    PrivateData::made_up(rows(), labels, norm_of_rows, adjacency, None).unwrap()
}

fn budget(epsilon: f64) -> Budget {
    Budget {
        epsilon: Epsilon::new(epsilon).unwrap(),
        delta: Delta::new(1e-6).unwrap(),
    }
}

fn certified<S: ScoreSaddle + Clone>(
    objective: &S,
    (data, plan): (&PrivateData, &ScoredCertificatePlan),
    (x, y): (&[f64], &[f64]),
    seed: u64,
) -> ScoredCertificate {
    let mut curator = Curator::simulated(Adjacency::ReplaceOne, seed);
    curator.promise(&[plan.spend()]).unwrap();
    let one = NonZeroUsize::MIN;
    let at = (x, y, 1.0);
    let (found, _) = plan.release(objective, data, at, curator, one).unwrap();
    found.unwrap()
}

/// All statements of many runs hold but for p of them, and without their margins they don't.
fn holds<S: ScoreSaddle + Clone>(objective: &S, x: &[f64], m: f64, convex: bool) {
    let (best, slope, least) = truth(objective, x, m);
    let data = data(Adjacency::ReplaceOne);
    let cost = (0.5, FAILURE);
    let coordinates = (!convex).then_some(x.len() + best.len());
    let plan = ScoredCertificatePlan::new(&budget(4.0), Adjacency::ReplaceOne, cost, coordinates);
    let plan = plan.unwrap();
    let mut y = best.clone();
    // Off its best place, and inside.
    y[0] += 0.02;
    objective.domain().project(&mut y);
    let (mut wrong, mut bare) = (0u32, 0u32);
    let mut curvatures = 0;
    for seed in 0..RUNS {
        let found = certified(objective, (&data, &plan), (x, &y), seed);
        let of_curvature = match found.curvature {
            Ok(below) => {
                curvatures += 1;
                assert!(below > least - 30.0, "{below} {least}");
                below <= least
            }
            Err(why) => {
                assert_eq!(why == OnlyFirstOrder::Convex, convex, "{why}");
                true
            }
        };
        let near = distance(&y, &best) <= found.distance;
        wrong += u32::from(!(slope <= found.gradient && near && of_curvature));
        bare += u32::from(slope > found.norm.0);
        assert!(
            slope <= found.gradient_by_shares_alone
                && least >= found.curvature_by_shares_alone - 1e-12
        );
    }
    // Of 1,000 at p = 0.05 the chance of more is below 1e-9.
    assert!(wrong <= 98, "{wrong}");
    assert!(
        bare > 100,
        "{bare} of {RUNS} norms without a margin are too short"
    );
    assert!(convex || curvatures > RUNS / 2, "{curvatures}");
}

#[test]
fn certificates_of_equal_opportunity_hold() {
    let objective = EqualOpportunity::new(&cells().1, 1.0).unwrap();
    holds(&objective, &[0.4, -0.6, 0.3], 1.0, false);
}

#[test]
fn certificates_of_the_auc_hold() {
    let objective = AucSaddle::new(&cells().1).unwrap();
    holds(
        &objective,
        &[0.8, -1.0, 0.5, 0.1, -0.1],
        2.0 * 0.3 * 0.7,
        false,
    );
}

#[test]
fn certificates_of_group_dro_hold_and_are_of_first_order() {
    let objective = GroupDro::new(&cells().1, true, 2.0).unwrap();
    holds(&objective, &[0.4, -0.6, 0.3], 2.0, true);
}

/// Half of the cost for the Hessian, the rest for two norms, and all of it together is the share.
#[test]
fn a_certificate_costs_its_share() {
    let plan = |adjacency, share, coordinates| {
        ScoredCertificatePlan::new(&budget(1.0), adjacency, (share, 0.05), coordinates)
    };
    let mu = budget(1.0).mu().unwrap().get();
    // None where it is convex, and none above the limit.
    for (coordinates, first_order) in [(Some(1024), false), (Some(1025), true), (None, true)] {
        let plan = plan(Adjacency::ReplaceOne, 0.1, coordinates).unwrap();
        let cost = 2.0 * plan.norms.get().powi(-2);
        let cost = cost + plan.hessian.map_or(0.0, |z| z.get().powi(-2));
        assert!((cost / (0.1 * mu * mu) - 1.0).abs() < 1e-9);
        let rest = plan.rest.mu().unwrap().get();
        assert!((rest * rest / (0.9 * mu * mu) - 1.0).abs() < 1e-5);
        assert_eq!(plan.hessian.is_none(), first_order);
    }
    for share in [0.0, 1.0, f64::NAN] {
        let refused = plan(Adjacency::ReplaceOne, share, Some(9));
        assert!(matches!(refused, Err(CertifyError::Share { .. })));
    }
    for adjacency in [Adjacency::AddRemove, Adjacency::ZeroOut] {
        let refused = plan(adjacency, 0.1, Some(9));
        assert!(matches!(refused, Err(CertifyError::DeclaredSize { .. })));
    }
}

/// A certificate that the records refuse gives the curator back, whose guarantee stands.
#[test]
fn a_refused_certificate_leaves_the_curator() {
    let objective = GroupDro::new(&cells().1, true, 2.0).unwrap();
    let cost = (0.5, FAILURE);
    let plan = ScoredCertificatePlan::new(&budget(4.0), Adjacency::ReplaceOne, cost, None).unwrap();
    let data = data(Adjacency::ReplaceOne);
    let y = objective.domain().middle();
    let at = (&[0.1, 0.2, 0.3][..], &y[..], 1.0);
    let curator = Curator::simulated(Adjacency::AddRemove, 1);
    let one = NonZeroUsize::MIN;
    let Err(failed) = plan.release(&objective, &data, at, curator, one) else {
        panic!("released");
    };
    assert!(failed.to_string().contains("add-remove"), "{failed}");
    assert_eq!(failed.curator.adjacency(), Adjacency::AddRemove);
}

/// Binomial tails, added up term by term: above the excess they are rarer than was stated, and a third of the way there they are not.
#[test]
fn draws_exceed_their_shares_as_rarely_as_stated() {
    for (n, share, failure) in [
        (400u64, 0.12, 0.01),
        (10_000, 0.5, 0.01),
        (2_000, 0.003, 0.1),
    ] {
        let shares = CellShares::new(vec![[Some(share), Some(1.0 - share)]]).unwrap();
        let excess = sampled_excess(&shares, n, failure);
        let tail = |share: f64, excess: f64| -> f64 {
            let mut ln = n as f64 * (1.0 - share).ln();
            let mut sum = 0.0;
            for k in 0..=n {
                if k as f64 > n as f64 * share * excess {
                    sum += ln.exp();
                }
                let (left, next) = ((n - k) as f64, (k + 1) as f64);
                ln += (left / next).ln() + (share / (1.0 - share)).ln();
            }
            sum
        };
        let both = |excess: f64| tail(share, excess) + tail(1.0 - share, excess);
        assert!(both(excess) <= failure, "{n} {share}: {}", both(excess));
        let nearer = both(1.0 + (excess - 1.0) / 3.0);
        assert!(nearer > failure, "{n} {share}: {nearer}");
    }
    // No cell can have more than all.
    let shares = CellShares::new(vec![[Some(0.5), Some(0.5)]]).unwrap();
    assert!((sampled_excess(&shares, 1, 0.01) - 2.0).abs() < 1e-6);
}

/// Shares that are the counts plus noise: the true share is no larger than the excess times what was released, in all but p of runs.
#[test]
fn released_shares_are_off_by_no_more_than_stated() {
    let plan = SharesPlan::new(&budget(1.0)).unwrap();
    let n = RECORDS as f64;
    let deviation = 2.0 * plan.noise_multiplier.get() / n;
    let truth = [0.5, 0.2, 0.2, 0.1];
    let mut noise = normals();
    let (mut wrong, mut bare) = (0, 0);
    for _ in 0..1000 {
        let counts: Vec<f64> = truth.iter().map(|t| t + deviation * noise()).collect();
        let shares = CellShares::released(&counts, 4.0 * deviation).unwrap();
        let excess = plan.excess(&shares, (RECORDS as u64, Adjacency::ReplaceOne), 0.05);
        let found: Vec<f64> = shares.cells().map(|(_, share)| share).collect();
        let over = truth
            .iter()
            .zip(found)
            .map(|(t, s)| t / s)
            .fold(0.0, f64::max);
        wrong += u32::from(over > excess);
        bare += u32::from(over > 1.0 + 0.2 * (excess - 1.0));
    }
    assert!(wrong <= 50 + 40 && bare > 100, "{wrong} {bare}");
}

/// A cell that counts four deviations of the noise, to a record, is seen in half of all releases, and an empty one in 3.2e-5 of them. Of 1,600 with
/// p = Phi(count/deviation - 4) the limits are five standard deviations off: a false alarm in 1.7 million. At 3.8 or 4.2 deviations p would be .58 or
/// .42, which is more than six away; and of 1,600 x 2 empty cells more than four are seen with probability 2e-7, as against hundreds at one deviation.
#[test]
fn a_cell_is_seen_from_four_deviations_of_the_noise_on() {
    let plan = SharesPlan::new(&budget(8.0)).unwrap();
    // Of counts: s = 2 under replace-one.
    let deviation = 2.0 * plan.noise_multiplier.get();
    let count = (4.0 * deviation).round() as usize;
    let p = dpopt_privacy::accounting::special::ndtr(count as f64 / deviation - 4.0);
    let label = |positive, group| Cell { positive, group }.label();
    let records = 3 * count + 1;
    let labels: Vec<f32> = (0..records)
        .map(|i| label(i < count, usize::from(i >= count)))
        .collect();
    let rows = Design::dense(1, vec![0.5; records]).unwrap();
    let one = ClipNorm::new(1.0).unwrap();
    let data = PrivateData::made_up(rows, labels, one, Adjacency::ReplaceOne, None).unwrap();
    let runs = 1600;
    let (mut seen, mut empty) = (0, 0);
    for seed in 0..runs {
        let curator = Curator::simulated(Adjacency::ReplaceOne, seed);
        let (shares, _) = plan.release(&data, 2, curator, &[]).unwrap();
        for (cell, _) in shares.cells() {
            seen += u64::from(cell.positive && cell.group == 0);
            empty += u64::from(cell.positive == (cell.group == 1));
        }
    }
    let n = runs as f64;
    let off = (seen as f64 - n * p).abs();
    assert!(off < 5.0 * (n * p * (1.0 - p)).sqrt(), "{seen} {p}");
    assert!(empty <= 4, "{empty}");
}

/// Standard normal numbers (Box and Muller) of a linear congruential generator.
fn normals() -> impl FnMut() -> f64 {
    let mut state = 7u64;
    let mut uniform = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((state >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    };
    move || {
        let (a, b) = (uniform(), uniform());
        (-2.0 * a.ln()).sqrt() * (2.0 * std::f64::consts::PI * b).cos()
    }
}
