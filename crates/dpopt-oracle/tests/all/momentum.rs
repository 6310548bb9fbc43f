//! Steps of recursive momentum: what is released, how long it is, what it costs, and how the error of the
//! estimate shrinks.

use dpopt_linalg::{Design, distance, dot, norm};
use dpopt_oracle::{
    AskError, Differentiable, Glm, Momentum, Oracle, PrivateData, PrivateGradient, PrivateMean,
    QuadraticLink, Regularized, Regularizer, Scale, Softmax,
};
use dpopt_privacy::accounting::costs::squared_mu;
use dpopt_privacy::{Adjacency, Curator, Event, Refused, SamplingRate, UnitError, Which};

use crate::common::{clip, simulated, uniforms, z};

const DIM: usize = 4;
const ROWS: usize = 50;
/// Noise of a few lattice steps, 2^-29 of the radius each.
const QUIET: f64 = 1e-9;

fn momentum(fresh: f64) -> Momentum {
    Momentum::new(fresh).unwrap()
}

fn raw() -> (Vec<[f64; DIM]>, Vec<f32>) {
    let mut next = uniforms(5);
    let rows: Vec<[f64; DIM]> = (0..ROWS)
        .map(|_| std::array::from_fn(|_| f64::from((0.45 * next()) as f32)))
        .collect();
    let labels = (0..ROWS).map(|i| (i % 3) as f32).collect();
    (rows, labels)
}

fn data(sparse: bool, adjacency: Adjacency) -> PrivateData {
    let (rows, labels) = raw();
    let design = if sparse {
        crate::common::sparse(DIM, rows.iter().map(|row| &row[..]))
    } else {
        Design::dense(DIM, rows.concat()).unwrap()
    };
    let declared = (adjacency == Adjacency::AddRemove).then_some(ROWS as u64);
    PrivateData::made_up(design, labels, clip(1.0), adjacency, declared).unwrap()
}

fn clipped(mut v: Vec<f64>, radius: f64) -> Vec<f64> {
    let length = norm(&v);
    if length > radius {
        v.iter_mut().for_each(|x| *x *= radius / length);
    }
    v
}

/// The mean of clip(clip(g(w)) - (1 - a) clip(g(w'))) from single gradients.
fn expected(
    gradient: impl Fn(usize, &[f64]) -> Vec<f64>,
    (from, to): (&[f64], &[f64]),
    (radius, whole): (f64, f64),
    fresh: f64,
) -> Vec<f64> {
    let mut mean = vec![0.0; to.len()];
    for i in 0..ROWS {
        let old = clipped(gradient(i, from), radius);
        let new = clipped(gradient(i, to), radius);
        let h = new.iter().zip(&old).map(|(b, a)| b - (1.0 - fresh) * a);
        for (mean, h) in mean.iter_mut().zip(clipped(h.collect(), whole)) {
            *mean += h / ROWS as f64;
        }
    }
    mean
}

/// An anchor and a step of a loss against the formula, for clips that shorten nothing, some and all.
fn agrees<L: Differentiable<Records = dpopt_oracle::Examples> + Clone>(
    name: &str,
    loss: &L,
    sparse: bool,
    gradient: impl Fn(usize, &[f64]) -> Vec<f64>,
) {
    let data = data(sparse, Adjacency::ReplaceOne);
    let plain = Curator::simulated(Adjacency::ReplaceOne, 1);
    let means = PrivateMean::new(&data, loss.clone(), plain).unwrap();
    let dim = PrivateMean::dim(&means);
    let mut next = uniforms(9);
    let from: Vec<f64> = (0..dim).map(|_| 2.0 * next()).collect();
    let by: Vec<f64> = (0..dim).map(|_| 0.3 * next()).collect();
    let to: Vec<f64> = from.iter().zip(&by).map(|(a, b)| a + b).collect();
    let smoothness = means.facts().smoothness;
    for radius in [0.05, 0.3, 1e3] {
        for fresh in [1e-6, 0.2, 1.0] {
            let event = Event::gaussian(z(QUIET)).repeated(2);
            let curator = simulated(Adjacency::ReplaceOne, 3, event);
            let mut estimator =
                PrivateGradient::clipped(&data, loss.clone(), curator, clip(radius)).unwrap();
            let first = estimator.refresh(&from, z(QUIET)).unwrap();
            let kept: Vec<f64> = first.gradient.iter().map(|g| (1.0 - fresh) * g).collect();
            let found = estimator
                .advance_with_momentum(&to, momentum(fresh), z(QUIET))
                .unwrap();
            let reach = (smoothness * norm(&by)).min(2.0 * radius);
            let whole = fresh * radius + (1.0 - fresh) * reach;
            // The radius that it states, by its noise.
            let stated = found.release_std / QUIET * ROWS as f64 / 2.0;
            assert!(
                (stated / whole - 1.0).abs() < 1e-9,
                "{name} {stated} {whole}"
            );
            let h = expected(&gradient, (&from, &to), (radius, whole), fresh);
            let sum: Vec<f64> = kept.iter().zip(&h).map(|(a, b)| a + b).collect();
            let off = distance(found.gradient, &sum);
            // A row that is clipped is clipped by the stored bound of its norm, which is up to 2^-20 too long: at each
            // end, and of the whole.
            let bounds = if radius < 1.0 {
                3.0 * radius / 2f64.powi(20)
            } else {
                0.0
            };
            let tolerance = 1e-7 * whole.max(1e-3) + bounds;
            assert!(off < tolerance, "{name} {radius} {fresh}: {off}");
        }
    }
}

#[test]
fn every_loss_releases_the_formula() {
    let (rows, labels) = raw();
    for phi in Glm::SMOOTH {
        let along = |slope: f64, x: &[f64; DIM]| x.map(|x| slope * x).to_vec();
        for sparse in [false, true] {
            let (rows, labels) = (&rows, &labels);
            agrees(&format!("{phi}"), &phi, sparse, |i, w| {
                along(phi.slope(dot(&rows[i], w), f64::from(labels[i])), &rows[i])
            });
            let phase = QuadraticLink::phase_retrieval(phi, clip(2.0));
            agrees(&format!("phase {phi}"), &phase, sparse, |i, w| {
                let t = dot(&rows[i], w);
                let slope = 2.0 * t * phi.slope(t * t, f64::from(labels[i]));
                along(slope, &rows[i])
            });
        }
    }
    let softmax = Softmax::new(3).unwrap();
    agrees("softmax", &softmax, false, |i, w| {
        let logits: Vec<f64> = w.chunks(DIM).map(|w| dot(w, &rows[i])).collect();
        let total: f64 = logits.iter().map(|z| z.exp()).sum();
        let weights = (0..3).map(|k| {
            let label = if labels[i] == k as f32 { 1.0 } else { 0.0 };
            logits[k].exp() / total - label
        });
        weights
            .flat_map(|weight| rows[i].map(|x| weight * x))
            .collect()
    });
}

/// Identical records have the same mean in every batch. Events and counts by hand.
#[test]
fn every_access_reads_charges_and_counts_what_it_should() {
    let row = [0.3, -0.2, 0.1, 0.5];
    let design = || Design::dense(DIM, row.repeat(64)).unwrap();
    let make = || {
        let labels = vec![1.0; 64];
        PrivateData::made_up(design(), labels, clip(1.0), Adjacency::ReplaceOne, None).unwrap()
    };
    let data = make();
    let gaussian = Event::gaussian(z(QUIET));
    let rate = SamplingRate::new(0.25).unwrap();
    let fixed = Event::SampledWithoutReplacement {
        source_dataset_size: 64,
        sample_size: 8,
        event: Box::new(gaussian.clone()),
    };
    let slices = Event::ParallelComposed {
        events: vec![gaussian.clone()],
    };
    for (access, event, read) in [
        (Which::All, gaussian.clone().repeated(3), 64.0),
        (Which::FixedSize(8), fixed.repeated(3), 8.0),
        (Which::Next(4), slices, 4.0),
        (
            Which::Poisson(rate),
            gaussian.poisson_sampled(rate).repeated(3),
            16.0,
        ),
    ] {
        let loss = Glm::Welsch;
        let (first, anchor) = match access {
            Which::Next(_) => (Which::Next(10), 10.0),
            other => (other, read),
        };
        let curator = simulated(Adjacency::ReplaceOne, 3, event.clone());
        let mut estimator = PrivateGradient::new(&data, loss, curator)
            .unwrap()
            .reading(first, access);
        let gradient = |w: &[f64]| row.map(|x| loss.slope(dot(&row, w), 1.0) * x);
        let mut point = [0.0; DIM];
        estimator.refresh(&point, z(QUIET)).unwrap();
        for _ in 0..2 {
            point = point.map(|w| w + 0.2);
            let found = estimator.advance_with_momentum(&point, momentum(0.4), z(QUIET));
            let found = found.unwrap().gradient.to_vec();
            if !matches!(access, Which::Poisson(_)) {
                assert!(distance(&found, &gradient(&point)) < 1e-7, "{access:?}");
            }
        }
        let counts = estimator.counts();
        assert_eq!(counts.releases, 3);
        assert_eq!(counts.records, anchor + 2.0 * read);
        assert_eq!(counts.gradients, anchor + 4.0 * read);
        let spent = estimator.settle().unwrap();
        match access {
            Which::Next(_) => {
                let cost = |event| squared_mu(event, Adjacency::ReplaceOne).unwrap();
                assert!((cost(&spent) / cost(&event) - 1.0).abs() < 1e-9);
            }
            _ => assert_eq!(spent.leaves(), event.leaves()),
        }
        // Nothing is left of the reservation.
        assert!(
            estimator
                .advance_with_momentum(&point, momentum(0.4), z(QUIET))
                .is_err()
        );
    }
}

/// The variance recursion, also where the point has not moved, which is a release as any other.
#[test]
fn the_noise_that_is_kept_shrinks() {
    let data = data(false, Adjacency::AddRemove);
    let event = Event::gaussian(z(2.0)).repeated(4);
    let curator = simulated(Adjacency::AddRemove, 3, event);
    let mut estimator = PrivateGradient::clipped(&data, Glm::Welsch, curator, clip(0.5)).unwrap();
    let first = estimator.refresh(&[0.0; DIM], z(2.0)).unwrap();
    let unit = 2.0 / ROWS as f64;
    assert!((first.noise_std / (0.5 * unit) - 1.0).abs() < 1e-12);
    let mut variance = first.noise_std.powi(2);
    // Lengths of the steps: 0.3, nothing, 0.2. L1 = 1 for rows of norm 1.
    for (fresh, w, length) in [(0.25, 0.3, 0.3), (0.25, 0.3, 0.0), (1.0, 0.1, 0.2f64)] {
        let point = [w, 0.0, 0.0, 0.0];
        let found = estimator
            .advance_with_momentum(&point, momentum(fresh), z(2.0))
            .unwrap();
        let radius = fresh * 0.5 + (1.0 - fresh) * length.min(1.0);
        assert!((found.release_std / (radius * unit) - 1.0).abs() < 1e-9);
        variance = (1.0 - fresh).powi(2) * variance + found.release_std.powi(2);
        assert!((found.noise_std.powi(2) / variance - 1.0).abs() < 1e-9);
    }
    assert_eq!(estimator.settle().unwrap().release_count(), 4);
}

#[test]
fn a_regulariser_stays_outside_of_the_momentum() {
    let data = data(false, Adjacency::ReplaceOne);
    let regularizer = Regularizer::Ridge(Scale::new(0.5).unwrap());
    let event = || Event::gaussian(z(QUIET)).repeated(2);
    let plain = || {
        let curator = simulated(Adjacency::ReplaceOne, 3, event());
        PrivateGradient::new(&data, Glm::Welsch, curator).unwrap()
    };
    let (from, to) = ([0.1; DIM], [0.4, -0.1, 0.2, 0.0]);
    let (mut one, mut other) = (plain(), plain());
    let mut with = Regularized::new(regularizer);
    one.refresh(&from, z(QUIET)).unwrap();
    let _ = with.plus(other.refresh(&from, z(QUIET)).unwrap(), &from);
    let step = |estimator: &mut PrivateGradient<'_>| {
        estimator
            .advance_with_momentum(&to, momentum(0.3), z(QUIET))
            .unwrap();
        estimator.released().clone()
    };
    let mut expected = step(&mut one).gradient;
    regularizer.add_gradient(&to, &mut expected);
    let released = step(&mut other);
    assert_eq!(with.plus(released.estimate(), &to).gradient, expected);
}

#[test]
fn what_is_refused_costs_nothing() {
    let data = data(false, Adjacency::ReplaceOne);
    let event = Event::gaussian(z(1.0)).repeated(2);
    let curator = simulated(Adjacency::ReplaceOne, 3, event);
    let mut estimator = PrivateGradient::new(&data, Glm::Welsch, curator).unwrap();
    estimator.refresh(&[0.0; DIM], z(1.0)).unwrap();
    let before = estimator.released().clone();
    let short = estimator.advance_with_momentum(&[0.0; 2], momentum(0.5), z(1.0));
    assert!(matches!(short, Err(AskError::Shape { dim: DIM })));
    let loud = estimator.advance_with_momentum(&[0.0; DIM], momentum(0.5), z(0.5));
    assert!(matches!(
        loud,
        Err(AskError::Refused(Refused::NotReserved { .. }))
    ));
    assert_eq!(*estimator.released(), before);
    assert_eq!(estimator.curator().spent().release_count(), 1);
    // A point that is not finite is public, and answered within the longest radius, (2 - a) C.
    let lost = estimator
        .advance_with_momentum(&[f64::NAN; DIM], momentum(0.5), z(1.0))
        .unwrap();
    let radius = lost.release_std * ROWS as f64 / 2.0;
    assert!((radius / (1.5 * Glm::Welsch.constants(1.0).lipschitz) - 1.0).abs() < 1e-9);
    for bad in [0.0, -0.1, 1.0 + 1e-9, f64::NAN] {
        assert!(matches!(
            Momentum::new(bad),
            Err(UnitError::NotAProbability { .. })
        ));
    }
}
