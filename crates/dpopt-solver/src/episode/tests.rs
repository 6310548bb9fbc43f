//! Plans of episodes against the inequalities of their page, added up term by term, and against a search of another kind.

use dpopt_oracle::{Answer, AskError, FnOracle, Mean, Offers, OracleFacts, Question};
use dpopt_privacy::{Adjacency, Curator, Which};

use crate::facts::PublicFacts;

use super::{Episode, EpisodeEnd, EpisodeTerms, Radii, planner};

/// J.
const BLOCKS: [u64; 10] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32];

fn terms(over: f64, dim: usize) -> EpisodeTerms {
    EpisodeTerms {
        dim,
        smoothness: 1.0,
        curvature: 1.0 / over,
        missed: 0.01,
        false_exit: 0.01,
    }
}

/// K sqrt d/lambda, with K as a search over a grid of (c, beta^2, c2) in steps of 1 to 3 % finds it, in Python, for h = lambda/2 and lambda/4.
#[test]
fn the_cheapest_costs_what_a_finer_search_finds() {
    for (over, dim, half, quarter) in [
        (2.0, 100, 41.09, 21.37),
        (5.0, 100, 42.06, 21.94),
        (22.0, 100, 43.01, 22.62),
        (222.0, 100, 45.02, 23.50),
        (22.0, 1000, 35.33, 18.69),
    ] {
        for (share, known) in [(0.5, half), (0.25, quarter)] {
            let terms = terms(over, dim);
            let bend = share * terms.curvature;
            let episode = Episode::cheapest(&terms, bend).unwrap();
            assert!(episode.bend >= bend);
            let cost = episode.cost(Adjacency::ZeroOut, 1.0).sqrt();
            let k = cost * terms.curvature / (dim as f64).sqrt();
            assert!((k / known - 1.0).abs() < 0.03, "{over} {dim} {share}: {k}");
        }
    }
}

/// What the page asks of s, beta, Gamma and h, with sums where it has closed forms.
#[test]
fn plans_keep_what_the_theorem_asks_for() {
    for (over, dim) in [(1.5, 3), (5.0, 40), (40.0, 2000), (20.0, 400_000)] {
        let terms = EpisodeTerms {
            smoothness: 7.0,
            curvature: 7.0 / over,
            ..terms(1.0, dim)
        };
        let episode = Episode::cheapest(&terms, 0.4 * terms.curvature).unwrap();
        let (eta, l) = (1.0 / terms.smoothness, episode.shift);
        let factor = |eigenvalue: f64| (1.0 - eta * eigenvalue) / (1.0 + eta * l);
        let variance = |eigenvalue: f64, steps: u64| {
            let m = factor(eigenvalue).powi(2);
            let sum: f64 = (0..steps).map(|k| m.powi(k as i32)).sum();
            sum * episode.noise.powi(2)
        };
        // (a): a normal number of this deviation is within 1 and all that rounding adds with probability at most p^(1/blocks), at what is
        // more curved, too.
        let rounding = PublicFacts::rounding(1.0, dim) / (1.0 + eta * l);
        for beyond in [1.0, 1.1, 1.4] {
            let stays = |blocks: u64| {
                let curved = -beyond * terms.curvature;
                let length = episode.steps / blocks;
                let deviation = variance(curved, length).sqrt();
                let added: f64 = (0..length).map(|k| factor(curved).powi(k as i32)).sum();
                let within = 1.0 + rounding * added;
                ((2.0 / std::f64::consts::PI).sqrt() * within / deviation).powi(blocks as i32)
            };
            let told = |blocks: &u64| {
                episode.steps.is_multiple_of(*blocks) && stays(*blocks) <= terms.missed
            };
            assert!(BLOCKS.iter().any(told), "{over} {dim} {beyond}");
        }
        // (b): what is flat has no more than beta^2/gn^2 of variance in a coordinate, and what is bent up no more than s^2/(eta lambda).
        let reach =
            (dim as f64).sqrt() + (2.0 * (episode.steps as f64 / terms.false_exit).ln()).sqrt();
        let limit = (episode.inside / reach).powi(2) * (1.0 + 1e-9);
        for share in [-episode.flat, -0.5 * episode.flat, 0.0, 0.3, 1.0] {
            let eigenvalue = if share > 0.0 {
                share * terms.smoothness
            } else {
                share * l
            };
            let found = variance(eigenvalue, episode.steps);
            assert!(found <= limit, "{share} {found} {limit}");
            if eigenvalue > 0.0 {
                assert!(eigenvalue * found <= episode.noise.powi(2) / eta);
            }
        }
        let positive = (episode.noise * reach).powi(2) / eta;
        let bend = episode.flat * l * (1.0 - episode.inside.powi(2)) - positive;
        // Lattices take some of it.
        assert!(episode.bend < bend && episode.bend > 0.99 * bend);
        assert!(episode.bend >= 0.4 * terms.curvature);
    }
}

#[test]
fn what_no_episode_tells_has_none() {
    let known = terms(5.0, 10);
    let none = |terms: EpisodeTerms, bend: f64| Episode::cheapest(&terms, bend).is_none();
    assert!(none(known, known.curvature) && none(known, 0.0) && none(known, f64::NAN));
    for missed in [0.0, 1.0, f64::NAN, f64::MIN_POSITIVE] {
        // The last is below what lattices may hide in any number of blocks.
        assert!(none(EpisodeTerms { missed, ..known }, 0.1), "{missed}");
    }
    let curvature = 2.0;
    assert!(none(EpisodeTerms { curvature, ..known }, 0.1));
    assert!(none(EpisodeTerms { dim: 0, ..known }, 0.1));
}

/// Independent standard normal numbers: splitmix64 and Box-Muller.
struct Normals(u64);

impl Normals {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 * (-53f64).exp2() + (-54f64).exp2()
    }

    fn next(&mut self) -> f64 {
        let length = (-2.0 * self.uniform().ln()).sqrt();
        length * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

const RUNS: u64 = 4000;

/// Of [`RUNS`] episodes: how many does a coordinate of curvature -lambda stay within 1, where rounding takes back as much of each step as it may?
/// What an episode has beside this coordinate can only make it leave.
fn held(episode: &Episode, rounding: f64) -> u64 {
    let part = episode.shift / episode.terms.smoothness;
    let ratio = (1.0 + episode.terms.curvature / episode.terms.smoothness) / (1.0 + part);
    let most = rounding / (1.0 + part);
    let mut random = Normals(7);
    let mut stays = || {
        let mut x = episode.noise * random.next();
        for _ in 0..episode.products() {
            if x.abs() >= 1.0 {
                return false;
            }
            x *= ratio;
            x -= most.min(x.abs()) * x.signum();
            x += episode.noise * random.next();
        }
        x.abs() < 1.0
    };
    (0..RUNS).filter(|_| stays()).count() as u64
}

/// A lattice far coarser than any here: planned for, it hides a saddle no more often than planned, in several blocks; not planned for it does.
/// Limits are five standard deviations off: false alarms are rarer than one in a million.
#[test]
fn a_coarse_lattice_hides_no_saddle_that_is_planned_for() {
    let terms = EpisodeTerms {
        missed: 0.05,
        false_exit: 0.05,
        ..terms(20.0, 10)
    };
    let rounding = 5e-4;
    let bend = 0.15 * terms.curvature;
    let with = planner::cheapest(&terms, bend, rounding).unwrap();
    let without = planner::cheapest(&terms, bend, 0.0).unwrap();
    let (planned, runs) = (terms.missed, RUNS as f64);
    let room = 5.0 * (planned * (1.0 - planned) / runs).sqrt();
    let share = |episode: &Episode, rounding: f64| held(episode, rounding) as f64 / runs;
    // One block is not enough: (a) has more than p beside the noise's part.
    let part = with.shift / terms.smoothness;
    let ratio = (1.0 + terms.curvature / terms.smoothness) / (1.0 + part);
    let over = (2.0 / std::f64::consts::PI).sqrt() / with.noise;
    assert!(over * rounding / (1.0 + part) * ((ratio + 1.0) / (ratio - 1.0)).sqrt() > planned);
    assert!(share(&with, rounding) <= planned + room);
    assert!(share(&without, 0.0) <= planned + room);
    assert!(share(&without, rounding) > planned + room);
}

/// The table of the page, which a search of another kind made, in Python, over (c, lambda/l, beta, J): none ten times as large.
#[test]
fn lattices_hide_what_the_page_says_they_do() {
    for (over, dim) in [
        (2.0, 10_000_000),
        (22.0, 1_000_000),
        (222.0, 100_000),
        (2000.0, 10_000),
    ] {
        for missed in [1e-2, 1e-4, 1e-6] {
            let told = |dim: usize| {
                let terms = EpisodeTerms {
                    missed,
                    false_exit: missed,
                    ..terms(over, dim)
                };
                Episode::cheapest(&terms, 0.25 * terms.curvature).is_some()
            };
            assert!(told(dim) && !told(10 * dim), "{over} {dim} {missed}");
        }
    }
}

/// Products with no noise but that which is said, and one that is a little off: then nothing may be told. Zero without noise is fine.
#[test]
fn products_with_another_noise_than_planned_tell_nothing() {
    let episode = Episode::cheapest(&terms(2.0, 3), 0.1).unwrap();
    let planned = episode.product_noise();
    let ran = |noise: f64, product: f64| {
        let facts = OracleFacts::new(3, 1_000, Adjacency::ReplaceOne, Offers::HESSIAN_PRODUCTS);
        let curator = Curator::simulated(Adjacency::ReplaceOne, 1);
        let mut oracle = FnOracle::new(facts, curator, |_, _| {
            Ok(Answer::Mean(Mean::new(vec![product; 3], noise)))
        });
        episode.run(&mut oracle, &[0.0; 3], Which::All, (1e3, Radii::Realised))
    };
    for off in [1.0 + 2e-6, 1.0 - 2e-6, 0.0, f64::NAN] {
        let Err(AskError::OtherNoise {
            planned: said,
            found,
        }) = ran(planned * off, 1e-9)
        else {
            panic!("{off}");
        };
        assert_eq!(
            (said, found.to_bits()),
            (planned, (planned * off).to_bits())
        );
    }
    for (off, product) in [(1.0, 1e-9), (1.0 + 5e-7, 1e-9), (0.0, 0.0)] {
        assert_eq!(ran(planned * off, product).unwrap().end, EpisodeEnd::Stayed);
    }
}

/// Of [`RUNS`] episodes on diag(-lambda, 1), each product moved by `off` M against the way out along the first axis: how many stay?
fn stay(episode: &Episode, off: f64) -> u64 {
    let (lambda, noise) = (episode.terms.curvature, episode.product_noise());
    let mut random = Normals(11);
    let mut stays = |seed: u64| {
        let facts = OracleFacts::new(2, 1_000, Adjacency::ReplaceOne, Offers::HESSIAN_PRODUCTS);
        let curator = Curator::simulated(Adjacency::ReplaceOne, seed);
        let mut oracle = FnOracle::new(facts, curator, |_, question| {
            let Question::HessianVector { of, .. } = question else {
                unreachable!("only products are asked for")
            };
            let (along, beside) = (of.direction[0], of.direction[1]);
            let back = off.min(lambda * along.abs()) * along.signum();
            let mean = vec![
                back - lambda * along + noise * random.next(),
                beside + noise * random.next(),
            ];
            Ok(Answer::Mean(Mean::new(mean, noise)))
        });
        let ran = episode.run(&mut oracle, &[0.0; 2], Which::All, (1e3, Radii::Realised));
        ran.unwrap().end == EpisodeEnd::Stayed
    };
    (0..RUNS).filter(|seed| stays(*seed)).count() as u64
}

/// An episode for 10,000 dimensions, walked in two of them: its lattices move a product by up to (2 100 + 4) 2^-29 M. It misses a saddle no more often
/// than planned. One that is as long as its noise alone asks for, by the formula of the page without the rounding, misses it far more often; limits
/// are five standard deviations off.
#[test]
fn products_that_are_off_by_a_lattice_hide_no_saddle() {
    let dim = 10_000;
    let known = EpisodeTerms {
        missed: 0.05,
        false_exit: 0.05,
        ..terms(200.0, dim)
    };
    let planned = Episode::cheapest(&known, 0.2 * known.curvature).unwrap();
    // What is left of it in two dimensions: noise, lengths and steps are those of 10,000.
    let planned = Episode {
        terms: EpisodeTerms { dim: 2, ..known },
        ..planned
    };
    let off = (2.0 * (dim as f64).sqrt() + 4.0) * (-29f64).exp2();
    let part = planned.shift;
    let ratio = (1.0 + known.curvature) / (1.0 + part);
    let x = (2.0 / std::f64::consts::PI).sqrt() / (planned.noise * known.missed);
    let block = (x * x * (ratio * ratio - 1.0)).ln_1p() / (2.0 * ratio.ln());
    let short = Episode {
        steps: block.ceil() as u64,
        ..planned
    };
    let (p, runs) = (known.missed, RUNS as f64);
    let most = runs * p + 5.0 * (runs * p * (1.0 - p)).sqrt();
    let missed = |episode: &Episode, off: f64| stay(episode, off) as f64;
    let found = [
        missed(&planned, off),
        missed(&short, 0.0),
        missed(&short, off),
    ];
    assert!(found[0] <= most && found[1] <= most, "{found:?} {most}");
    assert!(found[2] > most, "{found:?} {most}");
}
