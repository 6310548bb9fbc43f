//! The Goldstein distance of any function with gradients, by an adaptive search for gradients that
//! cut the nearest point of their hull.

use dpopt_linalg::{Hull, HullPoint, add_scaled, distance, norm};
use serde::Serialize;

use crate::error::CertificateError;
use crate::objective::{Objective, gradient_at};
use crate::random::Normals;

/// Points are placed this much inside the ball, relative to its radius, so that rounding leaves
/// them in it.
const INSIDE: f64 = 1.0 - 1e-10;
/// A gradient cuts when its inner product with the direction is below this times the norm.
const CUT: f64 = 1.0 - 1e-4;
/// Halvings of a segment. Tuned: a kink is found to within 1e-9 of the radius.
const HALVINGS: usize = 30;
/// Rounds in a row without progress after which the search ends. Tuned.
const PATIENCE: usize = 3;
/// Shares of the radius by which the local search moves. Tuned.
const MOVES: [f64; 5] = [1.0, 0.3, 0.1, 0.03, 0.01];

/// How to search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GoldsteinSettings {
    /// Uniform points of the ball to begin with.
    pub ball: usize,
    /// Uniform points of the sphere to begin with.
    pub sphere: usize,
    /// Most gradients.
    pub max_gradients: usize,
    /// A distance below this counts as 0.
    pub tolerance: f64,
    /// A round that shortens the distance by less than this share of it is one without progress. With thousands of weights 0.001 saves
    /// most of the gradients, and loses little.
    pub progress: f64,
    /// Lipschitz constant of the gradient on the ball, if there is one: gives a lower bound.
    pub smoothness: Option<f64>,
    /// Seed of all random points.
    pub seed: u64,
}

impl Default for GoldsteinSettings {
    fn default() -> Self {
        Self {
            ball: 32,
            sphere: 32,
            max_gradients: 4000,
            tolerance: 1e-7,
            progress: 1e-9,
            smoothness: None,
            seed: 0,
        }
    }
}

/// Why the search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub enum GoldsteinStop {
    /// The distance is below the tolerance.
    Tolerance,
    /// Three rounds in a row found no candidate that cuts the hull by more than [`GoldsteinSettings::progress`]. That none exists is not
    /// proved.
    NoCut,
    /// The gradients were used up.
    Spent,
}

/// Bounds on the Goldstein distance ||d_a F(x)|| = min norm of conv{grad F(y): ||y - x|| <= a}.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Goldstein {
    /// **Upper bound**, up to the rounding of gradients: the norm of `certificate`'s mean gradient.
    pub upper: f64,
    /// Lower bound max(0, ||grad F(x)|| - L1 a) for a smooth F, never more than `upper`; 0 where
    /// no L1 was given. The search itself has no lower bound.
    pub lower: f64,
    /// a.
    pub radius: f64,
    /// Weights that sum to 1 and points of the ball: the mean of their gradients has norm `upper`.
    pub certificate: Vec<(f64, Vec<f64>)>,
    /// By how much the hull of all gradients seen may be nearer to 0 than `upper`.
    pub gap: f64,
    /// Gradients evaluated.
    pub gradients: usize,
    /// Why it ended.
    pub stop: GoldsteinStop,
}

/// Searches for gradients at points of the ball around `point` whose hull comes near to 0.
///
/// Uniform points alone do not find them in high dimension: on F(x) = abs(||x|| - 1) at ||x|| = 1.2 with
/// a = 0.25 the distance is 0, and 4000 uniform points in ten dimensions give 0.98.
///
/// # Algorithm
/// With g the nearest point of the hull of the gradients so far and u = g/||g||, a gradient v with
/// <v, u> < ||g|| cuts it. Candidates, by round, until one kind has found a cut: the points x - a u and
/// x + a u; halvings of the two segments from x to them, always to the half on which the mean slope,
/// which two values give, is smaller; y -> x - a H(y) u/||H(y) u|| with H(y) u by a difference of gradients, which
/// minimises <grad F(y), u> over the ball for a quadratic; random moves around the points of least
/// <grad F(y), u>; new uniform points.
///
/// # Shapes
/// `point`: d.
///
/// # Errors
/// [`CertificateError`].
///
/// # Privacy
/// For public data only.
///
/// # References
/// Zhang et al. 2020, for the segment from x along -g (INGD).
pub fn goldstein<O: Objective + ?Sized>(
    objective: &O,
    point: &[f64],
    radius: f64,
    settings: &GoldsteinSettings,
) -> Result<Goldstein, CertificateError> {
    if !(radius >= 0.0 && radius.is_finite()) {
        return Err(CertificateError::OutOfRange {
            name: "radius",
            value: radius,
        });
    }
    if !(settings.tolerance > 0.0) {
        return Err(CertificateError::OutOfRange {
            name: "tolerance",
            value: settings.tolerance,
        });
    }
    if !(settings.progress >= 0.0 && settings.progress < 1.0) {
        return Err(CertificateError::OutOfRange {
            name: "progress",
            value: settings.progress,
        });
    }
    let first = gradient_at(objective, point)?;
    let slope = norm(&first);
    let mut search = Search {
        objective,
        centre: point,
        radius,
        hull: Hull::new(point.len()),
        points: vec![point.to_vec()],
        gradients: vec![first],
        budget: settings.max_gradients,
        random: Normals::new(settings.seed),
    };
    search.hull.push(&search.gradients[0])?;
    let (nearest, stop) = search.run(settings)?;
    let lower = settings
        .smoothness
        .map_or(0.0, |l1| (slope - l1 * radius).max(0.0));
    Ok(Goldstein {
        upper: nearest.norm,
        lower: lower.min(nearest.norm),
        radius,
        gap: nearest.gap,
        certificate: nearest
            .weights
            .iter()
            .map(|&(i, weight)| (weight, search.points[i].clone()))
            .collect(),
        gradients: search.points.len(),
        stop,
    })
}

struct Search<'a, O: ?Sized> {
    objective: &'a O,
    centre: &'a [f64],
    radius: f64,
    hull: Hull,
    points: Vec<Vec<f64>>,
    gradients: Vec<Vec<f64>>,
    budget: usize,
    random: Normals,
}

impl<O: Objective + ?Sized> Search<'_, O> {
    fn run(
        &mut self,
        settings: &GoldsteinSettings,
    ) -> Result<(HullPoint, GoldsteinStop), CertificateError> {
        // Hulls are searched to a tenth of what is asked of the distance.
        let precision = 0.1 * settings.tolerance;
        let mut misses = 0;
        let mut nearest = self.hull.nearest(precision)?;
        if self.radius > 0.0 {
            for k in 0..settings.ball + settings.sphere {
                self.random_point(k < settings.ball)?;
            }
            nearest = self.hull.nearest(precision)?;
        }
        loop {
            if nearest.norm <= settings.tolerance {
                return Ok((nearest, GoldsteinStop::Tolerance));
            }
            if misses >= PATIENCE || self.radius == 0.0 {
                return Ok((nearest, GoldsteinStop::NoCut));
            }
            if self.spent() {
                return Ok((nearest, GoldsteinStop::Spent));
            }
            let before = nearest.norm;
            self.round(&nearest)?;
            nearest = self.hull.nearest(precision)?;
            // Less than rounding is no progress, whatever was asked for.
            let progress = nearest.norm < before * (1.0 - settings.progress.max(1e-9));
            misses = if progress { 0 } else { misses + 1 };
        }
    }

    fn spent(&self) -> bool {
        self.points.len() >= self.budget
    }

    /// Tries each kind of candidate until one has found a cut.
    fn round(&mut self, nearest: &HullPoint) -> Result<(), CertificateError> {
        let unit: Vec<f64> = nearest.point.iter().map(|x| x / nearest.norm).collect();
        let level = CUT * nearest.norm;
        let mut cut = false;
        for sign in [-1.0, 1.0] {
            let end = self.on_axis(&unit, sign * self.radius * INSIDE);
            cut |= self.visit(end, &unit)? < level;
        }
        for sign in [-1.0, 1.0] {
            if !cut {
                cut = self.halve(&unit, sign, level)?;
            }
        }
        if !cut {
            cut = self.curve(&unit, level)?;
        }
        if !cut {
            cut = self.wander(&unit, level)?;
        }
        if !cut {
            for k in 0..8 {
                self.random_point(k % 2 == 0)?;
            }
        }
        Ok(())
    }

    fn on_axis(&self, unit: &[f64], step: f64) -> Vec<f64> {
        let mut y = self.centre.to_vec();
        add_scaled(&mut y, step, unit);
        y
    }

    /// Adds the gradient at `y`, if it is in the ball; its inner product with `unit`.
    fn visit(&mut self, y: Vec<f64>, unit: &[f64]) -> Result<f64, CertificateError> {
        if self.spent() || !(distance(&y, self.centre) <= self.radius) {
            return Ok(f64::INFINITY);
        }
        let gradient = gradient_at(self.objective, &y)?;
        let product = dpopt_linalg::dot(&gradient, unit);
        self.hull.push(&gradient)?;
        self.points.push(y);
        self.gradients.push(gradient);
        Ok(product)
    }

    /// Halvings of the segment from the centre along `sign` times `unit`, to the half where F rises
    /// least along `unit`.
    fn halve(&mut self, unit: &[f64], sign: f64, level: f64) -> Result<bool, CertificateError> {
        let value = |search: &Self, t: f64| search.objective.value(&search.on_axis(unit, sign * t));
        let (mut from, mut to) = (0.0, self.radius * INSIDE);
        let (mut at_from, mut at_to) = (value(self, from), value(self, to));
        for _ in 0..HALVINGS {
            let middle = 0.5 * (from + to);
            let at_middle = value(self, middle);
            let y = self.on_axis(unit, sign * middle);
            if self.visit(y, unit)? < level {
                return Ok(true);
            }
            // Slope along unit on either half, up to the common length.
            let (first, second) = (sign * (at_middle - at_from), sign * (at_to - at_middle));
            if first <= second {
                (to, at_to) = (middle, at_middle);
            } else {
                (from, at_from) = (middle, at_middle);
            }
            if self.spent() {
                break;
            }
        }
        Ok(false)
    }

    /// Linear steps for y -> <grad F(y), unit>, whose gradient is H(y) unit.
    fn curve(&mut self, unit: &[f64], level: f64) -> Result<bool, CertificateError> {
        let step = 1e-5 * self.radius;
        let mut best = self.least(unit, 1).pop().unwrap_or(0);
        for _ in 0..3 {
            let mut moved = self.points[best].clone();
            add_scaled(&mut moved, step, unit);
            let beside = gradient_at(self.objective, &moved)?;
            self.budget = self.budget.saturating_sub(1);
            let mut bend = beside;
            add_scaled(&mut bend, -1.0, &self.gradients[best]);
            let length = norm(&bend);
            if !(length > 0.0) {
                return Ok(false);
            }
            let mut y = self.centre.to_vec();
            add_scaled(&mut y, -self.radius * INSIDE / length, &bend);
            let product = self.visit(y, unit)?;
            if product < level {
                return Ok(true);
            }
            if !product.is_finite() {
                return Ok(false);
            }
            best = self.points.len() - 1;
        }
        Ok(false)
    }

    /// Random moves around the points whose gradients have the least products with `unit`.
    fn wander(&mut self, unit: &[f64], level: f64) -> Result<bool, CertificateError> {
        for start in self.least(unit, 3) {
            let mut here = start;
            for share in MOVES {
                for _ in 0..4 {
                    let direction = self.random.direction(unit.len());
                    let mut y = self.points[here].clone();
                    add_scaled(&mut y, share * self.radius, &direction);
                    self.project(&mut y);
                    let known = dpopt_linalg::dot(&self.gradients[here], unit);
                    let product = self.visit(y, unit)?;
                    if product < level {
                        return Ok(true);
                    }
                    if product < known {
                        here = self.points.len() - 1;
                    }
                }
            }
        }
        Ok(false)
    }

    /// The positions of the `count` gradients with the least products with `unit`, least last.
    fn least(&self, unit: &[f64], count: usize) -> Vec<usize> {
        let mut order: Vec<(f64, usize)> = self
            .gradients
            .iter()
            .map(|g| dpopt_linalg::dot(g, unit))
            .zip(0..)
            .collect();
        order.sort_by(|a, b| a.0.total_cmp(&b.0));
        order.truncate(count);
        order.iter().rev().map(|entry| entry.1).collect()
    }

    fn project(&self, y: &mut [f64]) {
        let length = distance(y, self.centre);
        if length > self.radius * INSIDE {
            let scale = self.radius * INSIDE / length;
            for (y, x) in y.iter_mut().zip(self.centre) {
                *y = x + (*y - x) * scale;
            }
        }
    }

    fn random_point(&mut self, inside: bool) -> Result<(), CertificateError> {
        let unit = self.random.direction(self.centre.len());
        let share = if inside {
            self.random.uniform().powf(1.0 / unit.len() as f64)
        } else {
            1.0
        };
        let y = self.on_axis(&unit, share * self.radius * INSIDE);
        self.visit(y, &unit).map(|_| ())
    }
}
