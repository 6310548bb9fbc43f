//! The law of released prefix sums: variances and covariances against closed forms.
//!
//! Seeds are fixed. A check fails for a right program with probability below 3e-9 over seeds
//! (6.2 standard deviations of a normal limit, or of a chi-square with 6,000 degrees of freedom,
//! skewness included); there are about 2,000 of them, 1e-5 in all.

use std::num::NonZeroUsize;

use dpopt_privacy::{
    Adjacency, Bound, ClipNorm, Curator, Event, LatticeSum, NoiseMultiplier, Participation, Prefix,
    PrefixKind, PrefixNoise, Spend, Which,
};

use PrefixKind::{Banded, Honaker, Independent, Toeplitz, Tree};

use crate::common::{self, push, simulated};
use crate::factors;

const DIM: usize = 6000;
const LIMIT: f64 = 6.2;
fn kinds() -> [PrefixKind; 7] {
    let bands = [1, 3].map(|band| Banded { band });
    [
        Independent,
        Tree,
        Honaker,
        Toeplitz,
        bands[0],
        bands[1],
        factors::tuned(),
    ]
}

fn bound() -> Bound {
    common::bound(1.0, DIM)
}

fn nothing() -> LatticeSum {
    LatticeSum::new(bound())
}

fn z() -> NoiseMultiplier {
    common::z(0.7)
}

fn curator(seed: u64, periods: u64) -> Curator {
    let event = Event::gaussian(z()).repeated(periods);
    simulated(Adjacency::ReplaceOne, seed, event)
}

fn open(curator: &mut Curator, kind: PrefixKind, len: u64) -> Prefix {
    curator
        .prefix(kind, bound(), len, z(), Participation::Every)
        .unwrap()
}

/// The noise of all prefix sums of a period, a row for each.
fn noise(period: &mut Prefix, curator: &mut Curator, len: u64) -> Vec<Vec<f64>> {
    (0..len)
        .map(|_| push(period, Which::All, nothing(), curator).unwrap())
        .collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Standardised statistics of rows that should be independent with this covariance: one for each
/// row (its variance) and each pair (their covariance), after whitening.
fn deviations(rows: &[Vec<f64>], covariance: &[Vec<f64>]) -> Vec<f64> {
    let l = factors::cholesky(covariance).unwrap();
    let mut white: Vec<Vec<f64>> = vec![Vec::with_capacity(DIM); rows.len()];
    for i in 0..rows[0].len() {
        let column: Vec<f64> = rows.iter().map(|row| row[i]).collect();
        for (row, y) in white.iter_mut().zip(factors::whiten(&l, &column)) {
            row.push(y);
        }
    }
    let n = DIM as f64;
    let mut out = Vec::new();
    for a in 0..rows.len() {
        out.push((dot(&rows[a], &rows[a]) / covariance[a][a] - n) / (2.0 * n).sqrt());
        out.push((dot(&white[a], &white[a]) - n) / (2.0 * n).sqrt());
        for b in 0..a {
            out.push(dot(&white[a], &white[b]) / n.sqrt());
        }
        out.push(rows[a].iter().sum::<f64>() / (n * covariance[a][a]).sqrt());
    }
    out
}

fn largest(deviations: &[f64]) -> f64 {
    deviations
        .iter()
        .fold(0.0, |largest, x| largest.max(x.abs()))
}

/// Covariance that one Gaussian release of this multiplier at sensitivity 2 allows.
fn scaled(kind: PrefixKind, len: u64) -> Vec<Vec<f64>> {
    let design = PrefixNoise::new(kind, len, Participation::Every).unwrap();
    let sigma = design.sensitivity() * z().get() * 2.0;
    let (b, _) = factors::unit_maps(kind, len as usize);
    let mut covariance = factors::covariance(&b);
    covariance
        .iter_mut()
        .flatten()
        .for_each(|x| *x *= sigma * sigma);
    covariance
}

#[test]
fn prefix_sums_have_the_covariance_of_the_mechanism() {
    for (seed, kind) in kinds().into_iter().enumerate() {
        for len in [1, 2, 7, 16] {
            let mut curator = curator(100 + seed as u64, 1);
            let mut period = open(&mut curator, kind, len);
            let rows = noise(&mut period, &mut curator, len);
            let covariance = scaled(kind, len);
            let off = largest(&deviations(&rows, &covariance));
            assert!(off < LIMIT, "{kind} {len}: {off}");
            for (t, row) in rows.iter().enumerate() {
                let claimed = period.standard_deviation(t as u64 + 1).unwrap();
                let exact = covariance[t][t].sqrt();
                assert!((claimed / exact - 1.0).abs() < 1e-9);
                assert!(row.iter().all(|x| x.abs() < 8.0 * claimed));
            }
        }
    }
}

/// What a twin with another covariance looks like to the same statistics.
#[test]
fn other_covariances_are_told_apart() {
    let len = 16;
    for (kind, twin) in [
        (Tree, Honaker),
        (Toeplitz, Banded { band: 3 }),
        (Independent, Tree),
    ] {
        let mut curator = curator(7, 1);
        let mut period = open(&mut curator, kind, len);
        let rows = noise(&mut period, &mut curator, len);
        let (b, _) = factors::unit_maps(twin, len as usize);
        let own = scaled(kind, len);
        let mut other = factors::covariance(&b);
        let factor = own[0][0] / other[0][0];
        other.iter_mut().flatten().for_each(|x| *x *= factor);
        assert!(largest(&deviations(&rows, &other)) > 3.0 * LIMIT, "{kind}");
        // Five percent of the standard deviation are seen as well.
        let narrow: Vec<Vec<f64>> = own
            .iter()
            .map(|row| row.iter().map(|x| x * 0.9).collect())
            .collect();
        assert!(largest(&deviations(&rows, &narrow)) > LIMIT);
    }
}

/// Every restart has its own noise; noise that came again would show.
#[test]
fn restarts_draw_fresh_noise() {
    let len = 4;
    for kind in kinds() {
        let mut one = curator(11, 2);
        let mut first = open(&mut one, kind, len);
        let before = noise(&mut first, &mut one, len);
        let mut second = open(&mut one, kind, len);
        let after = noise(&mut second, &mut one, len);
        let cross = |a: &[Vec<f64>], b: &[Vec<f64>]| {
            a.iter()
                .flat_map(|x| b.iter().map(move |y| (x, y)))
                .map(|(x, y)| dot(x, y) / (dot(x, x) * dot(y, y)).sqrt() * (DIM as f64).sqrt())
                .fold(0.0, |largest: f64, x| largest.max(x.abs()))
        };
        assert!(cross(&before, &after) < LIMIT, "{kind}");
        // The twin: another curator with the same key.
        let mut two = curator(11, 1);
        let mut again = open(&mut two, kind, len);
        let same = noise(&mut again, &mut two, len);
        assert!(cross(&before, &same) > 10.0 * LIMIT);
        assert_eq!(before, same);
    }
}

#[test]
fn threads_do_not_change_a_bit() {
    for kind in kinds() {
        let run = |threads: usize| {
            let mut curator = curator(5, 1).with_threads(NonZeroUsize::new(threads).unwrap());
            let mut period = open(&mut curator, kind, 5);
            noise(&mut period, &mut curator, 5)
        };
        let alone = run(1);
        for threads in [2, 3, 64] {
            assert_eq!(run(threads), alone, "{kind} {threads}");
        }
    }
}

/// Wide noise: up to 2^44 lattice steps and more, where the last bits need the exact path.
#[test]
fn wide_noise_has_the_right_width() {
    let dim = 400;
    let bound = Bound::new(ClipNorm::new(1.0).unwrap(), dim).unwrap();
    for exponent in [14, 25] {
        let z = NoiseMultiplier::new(2f64.powi(exponent)).unwrap();
        let mut curator = Curator::simulated(Adjacency::ZeroOut, 3);
        curator.reserve(&Spend::Fixed(Event::gaussian(z))).unwrap();
        let mut period = curator
            .prefix(Toeplitz, bound, 6, z, Participation::Every)
            .unwrap();
        for t in 1..=6 {
            let sum = LatticeSum::new(bound);
            let row = push(&mut period, Which::All, sum, &mut curator).unwrap();
            let sigma = period.standard_deviation(t).unwrap();
            assert!(sigma > z.get());
            let chi = (dot(&row, &row) / (sigma * sigma) - 400.0) / 800f64.sqrt();
            // Chi-square with 400 degrees of freedom: skewed, so a wider limit for 2e-9.
            assert!(chi.abs() < 7.5, "{exponent} {t}: {chi}");
        }
    }
}
