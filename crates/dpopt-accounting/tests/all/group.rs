//! Groups of records: against multi-precision values, all samples of small data sets, and rules that are wrong.

use dpopt_accounting::accounting::group::{self, Group, GroupError, Route};
use dpopt_accounting::accounting::{AccountingError, gdp};
use dpopt_accounting::{Accountant, Adjacency, Event, Mu};
use dpopt_testkit::one_in;

use crate::common::{delta, epsilon, gaussian, laplace, pure_dp, rate, sampled, z};

/// Of multi-precision arithmetic: one step by the crossing point of the two densities, several by a contour integral.
const TABLE: &str = include_str!("../data/group_reference.tsv");

struct Row {
    adjacency: Adjacency,
    records: u64,
    event: Event,
    epsilon: f64,
    delta: f64,
    text: &'static str,
}

fn rows() -> Vec<Row> {
    let row = |text: &'static str| {
        let cells: Vec<&str> = text.split('\t').collect();
        let number = |i: usize| cells[i].parse::<f64>().unwrap();
        Row {
            adjacency: match cells[0] {
                "add-remove" => Adjacency::AddRemove,
                _ => Adjacency::ReplaceOne,
            },
            records: cells[1].parse().unwrap(),
            event: sampled(number(2), number(3), cells[4].parse().unwrap()),
            epsilon: number(5),
            delta: number(6),
            text,
        }
    };
    TABLE
        .lines()
        .filter(|l| !l.starts_with('#'))
        .map(row)
        .collect()
}

fn both_ends_hold(step: usize, rows: &[Row]) {
    for row in one_in(step, rows) {
        let group = Group::new(row.records).unwrap();
        let found = group::delta_interval(&row.event, group, row.epsilon, row.adjacency).unwrap();
        let at = format!("{}: {found:?}", row.text);
        assert!(found.upper >= row.delta * (1.0 - 1e-12), "{at}");
        assert!(found.lower <= row.delta * (1.0 + 1e-12), "{at}");
        assert!(found.upper <= row.delta * (1.0 + 1.5e-3), "{at}");
        assert!(found.lower >= row.delta * (1.0 - 1.5e-3), "{at}");
    }
}

#[test]
fn both_ends_hold_the_value_of_the_table() {
    let all: Vec<Row> = rows().into_iter().filter(|row| !is_slow(row)).collect();
    assert!(all.len() >= 300, "{}", all.len());
    both_ends_hold(7, &all);
}

/// A few in a million losses count: the lattice gets as fine as it may.
fn is_slow(row: &Row) -> bool {
    row.text.starts_with("add-remove\t5\t0.003\t3\t")
        || row.text.starts_with("add-remove\t8\t0.003\t3\t")
}

#[test]
fn both_ends_hold_where_few_losses_count() {
    let slow: Vec<Row> = rows().into_iter().filter(is_slow).collect();
    assert_eq!(slow.len(), 2);
    both_ends_hold(2, &slow);
}

#[test]
fn epsilon_is_at_most_a_thousandth_above_the_table() {
    let all = rows();
    let all: Vec<&Row> = all.iter().filter(|row| row.delta < 0.4).collect();
    assert!(all.len() >= 180, "{}", all.len());
    for row in one_in(7, all) {
        let group = Group::new(row.records).unwrap();
        let at_delta = delta(row.delta);
        let found = group::interval(&row.event, group, at_delta, row.adjacency).unwrap();
        let at = format!("{}: {found:?}", row.text);
        assert!(found.upper >= row.epsilon * (1.0 - 1e-9), "{at}");
        assert!(found.lower <= row.epsilon * (1.0 + 1e-9), "{at}");
        // Where epsilon is near 0 the width is relative to what a small change of delta makes of it.
        assert!(found.upper <= row.epsilon * 1.001 + 2e-4, "{at}");
    }
}

/// Densities on a grid of the noisy sum over a Poisson sample of vectors in the plane.
fn densities(data: &[[f64; 2]], q: f64, noise: f64, grid: &[f64]) -> Vec<f64> {
    let mut out = vec![0.0; grid.len() * grid.len()];
    for bits in 0_u32..1 << data.len() {
        let taken = bits.count_ones() as i32;
        let weight = q.powi(taken) * (1.0 - q).powi(data.len() as i32 - taken);
        let mut sum = [0.0; 2];
        for (i, x) in data.iter().enumerate().filter(|(i, _)| bits >> i & 1 == 1) {
            let _ = i;
            sum[0] += x[0];
            sum[1] += x[1];
        }
        let side = |c: f64| -> Vec<f64> {
            grid.iter()
                .map(|x| {
                    (-0.5 * ((x - c) / noise).powi(2)).exp()
                        / (noise * std::f64::consts::TAU.sqrt())
                })
                .collect()
        };
        let (first, second) = (side(sum[0]), side(sum[1]));
        for (i, a) in first.iter().enumerate() {
            for (j, b) in second.iter().enumerate() {
                out[i * grid.len() + j] += weight * a * b;
            }
        }
    }
    out
}

/// `H_a` of the two data sets, by the midpoint rule.
fn brute(one: &[[f64; 2]], other: &[[f64; 2]], q: f64, noise: f64, a: f64) -> f64 {
    let (n, reach) = (121, one.len().max(other.len()) as f64 + 7.0 * noise);
    let width = 2.0 * reach / n as f64;
    let grid: Vec<f64> = (0..n).map(|i| -reach + width * (i as f64 + 0.5)).collect();
    let (p, q_law) = (
        densities(one, q, noise, &grid),
        densities(other, q, noise, &grid),
    );
    p.iter()
        .zip(&q_law)
        .map(|(p, q)| (p - a * q).max(0.0))
        .sum::<f64>()
        * width
        * width
}

/// Records of norm at most 1, by a fixed rule.
fn records(count: usize, seed: usize) -> Vec<[f64; 2]> {
    (0..count)
        .map(|i| {
            let turn = (seed * 37 + i * 53) as f64;
            let norm = [1.0, 0.6, 0.0, 1.0][(seed + i) % 4];
            [norm * turn.cos(), norm * turn.sin()]
        })
        .collect()
}

#[test]
fn no_data_set_of_few_records_is_worse() {
    let mut cases = 0;
    for seed in 0..6 {
        for (others, k, q, noise) in [(3, 2, 0.3, 0.8), (2, 3, 0.6, 1.2), (5, 3, 0.15, 1.0)] {
            let event = sampled(q, noise, 1);
            let replaced = sampled(q, 0.5 * noise, 1);
            let group = Group::of(k, 8).unwrap();
            let rest = records(others, seed);
            let with = |own: Vec<[f64; 2]>| [rest.clone(), own].concat();
            let own = records(k as usize, seed + 1);
            let instead = records(k as usize, seed + 2);
            let aligned = |x: f64| vec![[x, 0.0]; k as usize];
            for eps in [0.2_f64, 1.0] {
                let bound = |event: &Event, relation| {
                    group::delta_interval(event, group, eps, relation)
                        .unwrap()
                        .upper
                };
                let come_or_go = bound(&event, Adjacency::AddRemove);
                let swapped = bound(&replaced, Adjacency::ReplaceOne);
                let zeroed = bound(&event, Adjacency::ZeroOut);
                let a = eps.exp();
                let split = (k / 2) as usize;
                for (one, other, bound) in [
                    (with(own.clone()), rest.clone(), come_or_go),
                    (rest.clone(), with(own.clone()), come_or_go),
                    (
                        with(own[..split].to_vec()),
                        with(own[split..].to_vec()),
                        come_or_go,
                    ),
                    (with(own.clone()), with(vec![[0.0; 2]; k as usize]), zeroed),
                    (with(own.clone()), with(instead.clone()), swapped),
                    (with(aligned(1.0)), rest.clone(), come_or_go),
                    (with(aligned(1.0)), with(aligned(-1.0)), swapped),
                ] {
                    let truth = brute(&one, &other, q, noise, a);
                    assert!(
                        truth <= bound * (1.0 + 1e-6) + 1e-9,
                        "{seed} {k} {eps}: {truth} {bound}"
                    );
                    cases += 1;
                }
                // And it is attained.
                let attained = brute(&aligned(1.0), &aligned(-1.0), q, noise, a);
                assert!(attained >= swapped * (1.0 - 2e-3), "{attained} {swapped}");
                let attained = brute(&aligned(1.0), &[], q, noise, a);
                assert!(
                    attained >= come_or_go * (1.0 - 2e-3),
                    "{attained} {come_or_go}"
                );
            }
        }
    }
    assert!(cases >= 200);
}

/// k times epsilon at the same delta, and independent directions.
#[test]
fn rules_that_are_wrong_fall_below_the_table() {
    let (mut of_epsilon, mut all) = (0, 0);
    for row in rows().iter().filter(|row| row.delta < 0.1).step_by(3) {
        let group = Group::new(row.records).unwrap();
        let Ok((_, one)) = Accountant::least(&row.event, delta(row.delta), row.adjacency) else {
            continue;
        };
        let wrong = row.records as f64 * one;
        let right = group::epsilon(&row.event, group, delta(row.delta), row.adjacency).unwrap();
        assert!(right.epsilon >= row.epsilon * (1.0 - 1e-9), "{}", row.text);
        all += 1;
        if wrong < row.epsilon * (1.0 - 1e-3) {
            of_epsilon += 1;
            assert!(right.epsilon > wrong, "{} {right:?} {wrong}", row.text);
        }
    }
    assert!(of_epsilon >= 8, "{of_epsilon} of {all}");
    // Two records at right angles are less than two that agree.
    let (q, noise, a) = (0.3, 0.8, 1.5);
    let apart = brute(&[[1.0, 0.0], [0.0, 1.0]], &[], q, noise, a);
    let event = sampled(q, noise, 1);
    let group = Group::new(2).unwrap();
    let bounds = group::delta_interval(&event, group, a.ln(), Adjacency::AddRemove).unwrap();
    assert!(apart < 0.95 * bounds.lower, "{apart} {bounds:?}");
}

#[test]
fn gaussians_are_k_mu_and_pure_releases_k_epsilon() {
    for k in [2_u64, 3, 10, 5000] {
        let group = Group::new(k).unwrap();
        for relation in [Adjacency::AddRemove, Adjacency::ReplaceOne] {
            let event = gaussian(2.0 * k as f64).repeated(9);
            let truth = gdp::epsilon(Mu::new(1.5).unwrap(), delta(1e-6));
            let found = group::epsilon(&event, group, delta(1e-6), relation).unwrap();
            assert_eq!(found.route, Route::Pair);
            assert!(found.epsilon >= truth * (1.0 - 1e-9) && found.epsilon <= truth * 1.001);
            let found = group::epsilon(&pure_dp(0.01), group, delta(1e-9), relation).unwrap();
            let most = 0.01 * k as f64;
            assert!(found.epsilon <= most * (1.0 + 1e-6), "{found:?}");
            // Randomised response with k epsilon is one of them.
            let least = (most.exp() * (1.0 - 1e-9) - 1e-9 * (1.0 + most.exp())).ln();
            assert!(found.epsilon >= least - 1e-6, "{k} {found:?} {least}");
        }
    }
    // Laplace noise moved by k sensitivities: 1 - e^{(eps - k/b)/2}.
    for (k, b, eps) in [(3_u64, 2.0, 0.5), (2, 1.0, 1.0), (7, 10.0, 0.1)] {
        let group = Group::new(k).unwrap();
        let truth = -(0.5_f64 * (eps - k as f64 / b)).exp_m1();
        let found = group::delta_interval(&laplace(b), group, eps, Adjacency::ReplaceOne).unwrap();
        assert!(found.lower <= truth && truth <= found.upper && found.upper <= truth * 1.001);
    }
}

#[test]
fn the_lemma_takes_what_has_no_pair_and_is_never_smaller_than_the_truth() {
    let three = Group::new(3).unwrap();
    let fixed = Event::SampledWithoutReplacement {
        source_dataset_size: 1000,
        sample_size: 10,
        event: Box::new(gaussian(2.0)),
    }
    .repeated(50);
    let found = group::epsilon(&fixed, three, delta(1e-6), Adjacency::ReplaceOne).unwrap();
    assert_eq!(found.route, Route::Lemma);
    let (_, one) = Accountant::least(&fixed, delta(1e-6), Adjacency::ReplaceOne).unwrap();
    assert!(found.epsilon > 3.0 * one);
    // Where both routes are open the lemma is the larger one.
    for row in rows().iter().filter(|row| row.delta < 1e-3).step_by(15) {
        let group = Group::new(row.records).unwrap();
        if let Ok(found) = group::by_lemma(&row.event, group, delta(row.delta), row.adjacency) {
            assert!(found >= row.epsilon * (1.0 - 1e-9), "{} {found}", row.text);
        }
    }
    let event = sampled(0.1, 1.0, 10);
    let bound = group::delta(&event, three, epsilon(2.0), Adjacency::AddRemove).unwrap();
    let ends = group::delta_interval(&event, three, 2.0, Adjacency::AddRemove).unwrap();
    assert!(bound >= ends.lower && bound <= ends.upper);
}

#[test]
fn approximate_releases_follow_the_lemma() {
    let event = Event::EpsilonDelta {
        epsilon: 0.5,
        delta: 1e-4,
    };
    let group = Group::new(2).unwrap();
    let found = group::delta_interval(&event, group, 1.0, Adjacency::ReplaceOne).unwrap();
    let truth = 1e-4 * (1.0 + 0.5_f64.exp());
    assert!(
        found.upper >= truth && found.upper <= truth * 1.001,
        "{found:?}"
    );
}

#[test]
fn groups_that_are_none_are_refused() {
    assert_eq!(Group::new(0), Err(GroupError::Empty));
    assert_eq!(
        Group::of(11, 10),
        Err(GroupError::LargerThanData {
            group: 11,
            records: 10
        })
    );
    assert!(Group::of(10, 10).is_ok());
    let large = Group::new(5000).unwrap();
    let refused = group::interval(
        &sampled(0.1, 1.0, 10),
        large,
        delta(1e-5),
        Adjacency::AddRemove,
    );
    assert!(
        matches!(refused, Err(AccountingError::Pld(_))),
        "{refused:?}"
    );
    let sampled_laplace = laplace(1.0).poisson_sampled(rate(0.1));
    let _ = z(1.0);
    let two = Group::new(2).unwrap();
    assert!(group::interval(&sampled_laplace, two, delta(1e-5), Adjacency::AddRemove).is_err());
    let found = group::epsilon(&sampled_laplace, two, delta(1e-5), Adjacency::AddRemove).unwrap();
    assert_eq!(found.route, Route::Lemma);
}

/// Data sets k apart are larger than an event says that neighbours are, so a limit may bind that is not seen in it.
#[test]
fn sizes_of_neighbours_are_not_those_of_groups() {
    let event = Event::TruncatedSubsampledGaussian {
        dataset_size: 2,
        sampling_probability: rate(0.9),
        truncated_batch_size: 2,
        noise_multiplier: z(1.0),
    };
    let event = event.repeated(3);
    let (two, delta) = (Group::new(2).unwrap(), delta(1e-5));
    let refused = group::epsilon(&event, two, delta, Adjacency::AddRemove);
    assert!(
        matches!(refused, Err(AccountingError::UnsupportedAdjacency { .. })),
        "{refused:?}"
    );
    assert!(group::epsilon(&event, two, delta, Adjacency::ReplaceOne).is_ok());
}
