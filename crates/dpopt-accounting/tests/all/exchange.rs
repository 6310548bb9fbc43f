//! Privacy losses in the shape of another accountant: closed forms, round trips, and a second composition.

use dpopt_accounting::accounting::pld::PldError;
use dpopt_accounting::accounting::pld::exchange::{self, Pmf, PmfError, Release};
use dpopt_accounting::{Adjacency, Event};

use crate::common::{EVERY, delta, gaussian, laplace, pure_dp, rows, sampled, steps};

fn tail(x: f64) -> f64 {
    0.5 * libm::erfc(x * std::f64::consts::FRAC_1_SQRT_2)
}

/// `H_a` of `(1-q) N(0) + q N(1)` against `N(0)` with deviation s, and of the pair swapped.
fn curves(q: f64, s: f64, a: f64) -> [f64; 2] {
    let there = |a: f64| {
        let alpha = 1.0 + (a - 1.0) / q;
        if alpha <= 0.0 {
            return 1.0 - a;
        }
        let y = s * alpha.ln() + 0.5 / s;
        q * (tail(y - 1.0 / s) - alpha * tail(y))
    };
    [there(a), 1.0 - a + a * there(1.0 / a)]
}

#[test]
fn each_direction_is_above_its_closed_form_at_every_epsilon() {
    let mut settings = 0;
    for q in [0.001, 0.01, 0.1, 0.5, 0.9] {
        for s in [0.5, 0.8, 1.0, 2.0, 5.0] {
            let file = exchange::export(&sampled(q, s, 1), Adjacency::AddRemove, 1e-3).unwrap();
            let [release] = file.as_slice() else {
                panic!("{file:?}")
            };
            let add = release.add.as_ref().unwrap();
            for eps in [-2.0_f64, -0.3, -0.01, 0.0, 0.003, 0.05, 0.4, 1.5, 4.0] {
                for (pmf, truth) in [&release.remove, add]
                    .into_iter()
                    .zip(curves(q, s, eps.exp()))
                {
                    let found = pmf.delta(eps);
                    let at = format!("{q} {s} {eps} {found} {truth}");
                    // The closed form of the other order cancels.
                    assert!(found >= truth * (1.0 - 1e-11) - 4e-16, "{at}");
                    assert!(found <= truth * (1.0 + 1e-2) + 3e-7, "{at}");
                    settings += 1;
                }
            }
        }
    }
    assert!(settings >= 200);
}

#[test]
fn what_is_read_back_is_what_was_written_and_composes_to_the_table() {
    let mut read_back = 0;
    for row in rows("dpsgd_epsilon") {
        let event = steps(&row.steps());
        let Ok(file) = exchange::export(&event, Adjacency::AddRemove, 2e-4) else {
            continue;
        };
        let text = serde_json::to_string(&file).unwrap();
        let again: Vec<Release> = serde_json::from_str(&text).unwrap();
        assert_eq!(file, again);
        let Ok(found) = exchange::epsilon(&again, delta(row.second())) else {
            continue;
        };
        assert!(
            found >= row.value * (1.0 - 1e-9),
            "{} {found} {}",
            row.first,
            row.value
        );
        if read_back % 4 == 0 {
            let direct = exchange::epsilon(&file, delta(row.second())).unwrap();
            assert!((direct / found - 1.0).abs() < 1e-12);
        }
        read_back += 1;
        if read_back == 12 {
            break;
        }
    }
    assert!(read_back >= 8, "{read_back}");
}

/// Sum of all pairs of losses.
fn direct(one: &Pmf, other: &Pmf, eps: f64) -> f64 {
    let loss =
        |pmf: &Pmf, i: usize| (pmf.min_key() + i as i64) as f64 * pmf.discretization_interval();
    let mut sum = 0.0;
    for (i, a) in one.values().iter().enumerate() {
        for (j, b) in other.values().iter().enumerate() {
            let l = loss(one, i) + loss(other, j);
            if l > eps {
                sum += a * b * -(eps - l).exp_m1();
            }
        }
    }
    let total = |pmf: &Pmf| pmf.values().iter().sum::<f64>();
    sum + one.infinity_mass() * total(other)
        + other.infinity_mass() * total(one)
        + one.infinity_mass() * other.infinity_mass()
}

#[test]
fn two_releases_are_the_sum_of_all_pairs_of_losses() {
    let mut cases = 0;
    for relation in EVERY {
        for event in [
            sampled(0.2, 1.0, 1),
            gaussian(1.5),
            laplace(2.0),
            pure_dp(0.3),
            Event::EpsilonDelta {
                epsilon: 0.2,
                delta: 1e-3,
            },
        ] {
            let file = exchange::export(&event, relation, 1e-2).unwrap();
            let mut twice = file.clone();
            twice[0].count = 2;
            for eps in [0.0, 0.1, 0.7] {
                let truth = [
                    &file[0].remove,
                    file[0].add.as_ref().unwrap_or(&file[0].remove),
                ]
                .map(|pmf| direct(pmf, pmf, eps))
                .into_iter()
                .fold(0.0, f64::max);
                let found = exchange::delta(&twice, eps).unwrap();
                let at = format!("{relation} {event} {eps} {found} {truth}");
                assert!(found >= truth * (1.0 - 1e-10), "{at}");
                assert!(found <= truth * (1.0 + 2e-3) + 1e-12, "{at}");
                cases += 1;
            }
        }
    }
    assert_eq!(cases, 45);
}

/// Losses rounded to the nearest point are no upper law.
#[test]
fn rounding_to_the_nearest_point_falls_below_the_truth() {
    let (q, s, h) = (0.3, 1.0, 0.2);
    let file = exchange::export(&sampled(q, s, 1), Adjacency::AddRemove, h).unwrap();
    let pmf = &file[0].remove;
    let nearest = Pmf::new(
        pmf.min_key() - 1,
        pmf.values().to_vec(),
        pmf.infinity_mass(),
        pmf.discretization_interval(),
    )
    .unwrap();
    let mut below = 0;
    for i in 0..20 {
        let eps = 0.1 * f64::from(i);
        let truth = curves(q, s, eps.exp())[0];
        assert!(pmf.delta(eps) >= truth);
        below += u32::from(nearest.delta(eps) < truth);
    }
    assert!(below >= 15, "{below}");
}

#[test]
fn the_shapes_of_protocol_buffers_and_sparse_lists_are_read() {
    let dense: Pmf = serde_json::from_str(
        r#"{"minKey":"-1","values":[0.25,0.25,0.25],"infinityMass":0.25,"discretizationInterval":0.5}"#,
    )
    .unwrap();
    let snake: Pmf = serde_json::from_str(
        r#"{"min_key":-1,"values":[0.25,0.25,0.25],"infinity_mass":0.25,"discretization_interval":0.5}"#,
    )
    .unwrap();
    let sparse: Pmf = serde_json::from_str(
        r#"{"loss_probs":{"-1":0.25,"0":0.25,"1":0.25},"infinity_mass":0.25,"discretization_interval":0.5}"#,
    )
    .unwrap();
    assert_eq!(dense, snake);
    assert_eq!(dense, sparse);
    assert!((dense.delta(0.0) - (0.25 + 0.25 * (1.0 - (-0.5_f64).exp()))).abs() < 1e-15);
    // What masses lack of 1 counts as infinite.
    let lacking = Release {
        adjacency: Adjacency::AddRemove,
        count: 1,
        remove: Pmf::new(0, vec![0.9], 0.0, 0.5).unwrap(),
        add: None,
    };
    let found = exchange::delta(&[lacking], 1.0).unwrap();
    assert!((0.1..0.1001).contains(&found), "{found}");
}

#[test]
fn what_is_no_law_is_refused() {
    let new = |values: Vec<f64>, infinity, h| Pmf::new(0, values, infinity, h);
    assert!(matches!(
        new(vec![-0.1], 0.0, 1.0),
        Err(PmfError::Mass { .. })
    ));
    assert!(matches!(
        new(vec![f64::NAN], 0.0, 1.0),
        Err(PmfError::Mass { .. })
    ));
    assert!(matches!(
        new(vec![0.7, 0.7], 0.0, 1.0),
        Err(PmfError::Total { .. })
    ));
    assert!(matches!(
        new(vec![1.0], 0.0, 0.0),
        Err(PmfError::Interval { .. })
    ));
    assert!(matches!(
        new(Vec::new(), 1.0, 1.0),
        Err(PmfError::Count { .. })
    ));
    for text in [
        r#"{"values":[1.0],"infinity_mass":0,"discretization_interval":1}"#,
        r#"{"loss_probs":{"x":1.0},"infinity_mass":0,"discretization_interval":1}"#,
        r#"{"loss_probs":{"0":0.5,"4000000000000":0.5},"infinity_mass":0,"discretization_interval":1}"#,
        r#"{"min_key":0,"values":[1.0],"infinity_mass":0,"discretization_interval":1,"pessimistic":false}"#,
    ] {
        assert!(serde_json::from_str::<Pmf>(text).is_err(), "{text}");
    }
    assert!(exchange::export(&gaussian(1.0), Adjacency::AddRemove, 0.0).is_err());
    assert!(exchange::export(&gaussian(1.0), Adjacency::AddRemove, 1e-12).is_err());
}

/// Losses under two relations are for two different promises.
#[test]
fn relations_do_not_mix() {
    let event = gaussian(2.0);
    let mut both = exchange::export(&event, Adjacency::AddRemove, 1e-2).unwrap();
    both.extend(exchange::export(&event, Adjacency::ReplaceOne, 1e-2).unwrap());
    let refused = exchange::epsilon(&both, delta(1e-6));
    assert!(
        matches!(refused, Err(PldError::MixedAdjacencies { .. })),
        "{refused:?}"
    );
}
