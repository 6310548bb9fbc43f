//! The adaptive search against closed forms of radial functions and of quadratics.

use dpopt_linalg::{Hull, add_scaled, distance, norm};

use super::*;
use crate::random::Normals;

/// Psi(||x||), with its derivative.
struct Radial {
    dim: usize,
    value: fn(f64) -> f64,
    slope: fn(f64) -> f64,
}

impl Objective for Radial {
    fn dim(&self) -> usize {
        self.dim
    }
    fn value(&self, x: &[f64]) -> f64 {
        (self.value)(norm(x))
    }
    fn gradient(&self, x: &[f64], out: &mut [f64]) {
        let r = norm(x);
        let c = if r > 0.0 { (self.slope)(r) / r } else { 0.0 };
        for (out, x) in out.iter_mut().zip(x) {
            *out = c * x;
        }
    }
}

fn ring(dim: usize) -> Radial {
    Radial {
        dim,
        value: |r| (r - 1.0).abs(),
        slope: |r| if r > 1.0 { 1.0 } else { -1.0 },
    }
}

/// A point at distance r in a direction that favours no axis.
fn at(dim: usize, r: f64, seed: u64) -> Vec<f64> {
    let unit = Normals::new(seed).direction(dim);
    unit.iter().map(|x| r * x).collect()
}

/// The certificate is what it says: points of the ball, whose mean gradient is as long as `upper`.
fn recheck(objective: &impl Objective, point: &[f64], found: &Goldstein) {
    let mut mean = vec![0.0; point.len()];
    let mut gradient = mean.clone();
    let mut total = 0.0;
    for (weight, y) in &found.certificate {
        assert!(*weight > 0.0 && distance(y, point) <= found.radius);
        objective.gradient(y, &mut gradient);
        add_scaled(&mut mean, *weight, &gradient);
        total += weight;
    }
    assert!((total - 1.0).abs() < 1e-12);
    assert!((norm(&mean) - found.upper).abs() < 1e-12);
}

/// Where uniform points say 0.98 the truth is 0, and the search finds it.
#[test]
fn the_ring_across_its_kink() {
    for dim in [2, 10, 30, 100] {
        let ring = ring(dim);
        for seed in 0..3 {
            let point = at(dim, 1.2, seed + 50);
            let settings = GoldsteinSettings {
                seed,
                ..GoldsteinSettings::default()
            };
            let found = goldstein(&ring, &point, 0.25, &settings).unwrap();
            assert!(
                found.upper <= 1e-6,
                "{dim} {seed} {} {:?}",
                found.upper,
                found.stop
            );
            recheck(&ring, &point, &found);
        }
    }
}

#[test]
fn uniform_points_alone_are_wrong_in_ten_dimensions() {
    let ring = ring(10);
    let point = at(10, 1.2, 7);
    let mut random = Normals::new(3);
    let mut hull = Hull::new(10);
    let mut gradient = vec![0.0; 10];
    for _ in 0..4000 {
        let mut y = point.clone();
        add_scaled(
            &mut y,
            0.25 * random.uniform().powf(0.1),
            &random.direction(10),
        );
        ring.gradient(&y, &mut gradient);
        hull.push(&gradient).unwrap();
    }
    assert!(hull.nearest(1e-9).unwrap().lower_bound() > 0.9);
}

/// Positive distances: never below the closed form, and within 1e-6 of it.
#[test]
fn radial_functions_have_their_distance() {
    let cases: [(Radial, &[f64], f64, f64); 6] = [
        (ring(10), &[1.0], 1.5, 0.25),
        (ring(30), &[1.0], 1.3, 0.25),
        (ring(5), &[1.0], 0.5, 0.2),
        (
            Radial {
                dim: 10,
                value: f64::ln_1p,
                slope: |r| 1.0 / (1.0 + r),
            },
            &[],
            2.0,
            0.5,
        ),
        (
            Radial {
                dim: 30,
                value: f64::ln_1p,
                slope: |r| 1.0 / (1.0 + r),
            },
            &[],
            0.8,
            0.4,
        ),
        (
            Radial {
                dim: 3,
                value: |r| r * r,
                slope: |r| 2.0 * r,
            },
            &[],
            1.0,
            0.9,
        ),
    ];
    for (k, (objective, breaks, r, a)) in cases.into_iter().enumerate() {
        let exact = radial_goldstein(r, a, objective.slope, breaks).unwrap();
        let point = at(objective.dim, r, 11);
        let found = goldstein(&objective, &point, a, &GoldsteinSettings::default()).unwrap();
        assert!(found.upper >= exact - 1e-9, "{k}: {} {exact}", found.upper);
        assert!(
            found.upper <= exact + 1e-6,
            "{k}: {} {exact} {:?} {}",
            found.upper,
            found.stop,
            found.gradients
        );
        assert!(found.lower <= exact + 1e-12);
        recheck(&objective, &point, &found);
    }
}

/// A quadratic with Hessian diag(h): the gradients of the ball are an ellipsoid around H x.
struct Quadratic(Vec<f64>);

impl Objective for Quadratic {
    fn dim(&self) -> usize {
        self.0.len()
    }
    fn value(&self, x: &[f64]) -> f64 {
        self.0.iter().zip(x).map(|(h, x)| 0.5 * h * x * x).sum()
    }
    fn gradient(&self, x: &[f64], out: &mut [f64]) {
        for (i, out) in out.iter_mut().enumerate() {
            *out = self.0[i] * x[i];
        }
    }
}

#[test]
fn quadratics_have_their_distance() {
    // Axis-aligned points of a ball: H x - a H u with u = x/||x|| for H = h I; and along one axis.
    let mut point = vec![0.0; 12];
    point[3] = 2.0;
    let h: Vec<f64> = (1..=12).map(f64::from).collect();
    // min ||H y|| over the ball around 2 e_3: by the multiplier equation y_j = 0 but for j = 3.
    let settings = GoldsteinSettings {
        smoothness: Some(12.0),
        ..GoldsteinSettings::default()
    };
    let found = goldstein(&Quadratic(h), &point, 0.1, &settings).unwrap();
    assert!((found.upper - 4.0 * 1.9).abs() < 1e-6, "{}", found.upper);
    assert!((found.lower - (8.0 - 1.2)).abs() < 1e-12);
    // A saddle whose minimiser is inside the ball.
    let found = goldstein(
        &Quadratic(vec![1.0, -3.0, 2.0]),
        &[0.1, 0.1, 0.05],
        0.2,
        &settings,
    );
    assert!(found.unwrap().upper <= 1e-6);
}

#[test]
fn one_dimension_and_degenerate_input() {
    let absolute = Radial {
        dim: 1,
        value: |r| r,
        slope: |_| 1.0,
    };
    let settings = GoldsteinSettings::default();
    let across = goldstein(&absolute, &[0.1], 0.2, &settings).unwrap();
    assert!(across.upper <= 1e-7 && across.stop == GoldsteinStop::Tolerance);
    let beside = goldstein(&absolute, &[0.3], 0.2, &settings).unwrap();
    assert_eq!((beside.upper, beside.stop), (1.0, GoldsteinStop::NoCut));
    // Radius 0 is the gradient norm.
    let still = goldstein(&absolute, &[0.3], 0.0, &settings).unwrap();
    assert_eq!((still.upper, still.gradients), (1.0, 1));
    assert!(goldstein(&absolute, &[0.3], -1.0, &settings).is_err());
    assert!(goldstein(&absolute, &[0.3], f64::NAN, &settings).is_err());
    assert!(goldstein(&absolute, &[f64::NAN], 0.1, &settings).is_err());
    assert!(goldstein(&absolute, &[0.1, 0.2], 0.1, &settings).is_err());
    let few = GoldsteinSettings {
        max_gradients: 3,
        ..settings
    };
    let spent = goldstein(&ring(10), &at(10, 1.2, 1), 0.25, &few).unwrap();
    assert_eq!((spent.stop, spent.gradients), (GoldsteinStop::Spent, 3));
}

/// The mean of |<e_j, x> - c_j| over many directions: near its least value every round cuts, and gains next to nothing.
struct Kinks(Vec<(Vec<f64>, f64)>);

impl Objective for Kinks {
    fn dim(&self) -> usize {
        self.0[0].0.len()
    }
    fn value(&self, x: &[f64]) -> f64 {
        let terms = self
            .0
            .iter()
            .map(|(e, c)| (dpopt_linalg::dot(e, x) - c).abs());
        terms.sum::<f64>() / self.0.len() as f64
    }
    fn gradient(&self, x: &[f64], out: &mut [f64]) {
        out.fill(0.0);
        for (e, c) in &self.0 {
            let sign = if dpopt_linalg::dot(e, x) > *c {
                1.0
            } else {
                -1.0
            };
            add_scaled(out, sign / self.0.len() as f64, e);
        }
    }
}

#[test]
fn a_search_that_gains_next_to_nothing_ends() {
    let mut random = Normals::new(5);
    let term = |_| (random.direction(200), 0.1 * random.uniform());
    let kinks = Kinks((0..300).map(term).collect());
    let point = vec![0.02; 200];
    let by = |progress| GoldsteinSettings {
        progress,
        ..GoldsteinSettings::default()
    };
    let early = goldstein(&kinks, &point, 0.05, &by(0.05)).unwrap();
    let late = goldstein(&kinks, &point, 0.05, &by(0.0)).unwrap();
    recheck(&kinks, &point, &early);
    recheck(&kinks, &point, &late);
    assert_eq!(early.stop, GoldsteinStop::NoCut);
    assert!(early.gradients < late.gradients / 2);
    // The same search, broken off.
    assert!(late.upper <= early.upper);
    for bad in [-0.1, 1.0, f64::NAN] {
        assert!(goldstein(&kinks, &point, 0.05, &by(bad)).is_err());
    }
}
