//! Closed convex sets with exact projections.

use crate::vector::{distance, norm};

/// A closed convex set that points are brought back to.
///
/// # Formula
/// The projection is the nearest point of the set. It is 1-Lipschitz, and a point of the set stays where it is (a point of a simplex up
/// to rounding).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Domain {
    /// All points with `dim` coordinates.
    Everywhere {
        /// Coordinates.
        dim: usize,
    },
    /// The points within `radius` of `centre`.
    Ball {
        /// The centre.
        centre: Vec<f64>,
        /// The radius.
        radius: f64,
    },
    /// The points whose coordinates are between `low` and `high`, one by one.
    Box {
        /// Least values.
        low: Vec<f64>,
        /// Largest values, none below the least.
        high: Vec<f64>,
    },
    /// The points of `dim` coordinates that are at least 0 and add up to `total`.
    Simplex {
        /// Coordinates.
        dim: usize,
        /// What they add up to.
        total: f64,
    },
    /// Points whose blocks of coordinates are in these sets, one after the other.
    Product(Vec<Domain>),
}

/// No domain.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("a domain with a {name} of {value} holds no point, or has no bound")]
pub struct DomainError {
    /// What of it.
    pub name: &'static str,
    /// Its value.
    pub value: f64,
}

impl Domain {
    /// The ball of this radius around 0.
    #[must_use]
    pub fn ball(dim: usize, radius: f64) -> Self {
        Self::Ball {
            centre: vec![0.0; dim],
            radius,
        }
    }

    /// The probability simplex.
    #[must_use]
    pub fn simplex(dim: usize) -> Self {
        Self::Simplex { dim, total: 1.0 }
    }

    /// Refuses sets that are empty, and numbers that are not finite.
    ///
    /// # Errors
    /// [`DomainError`].
    pub fn check(&self) -> Result<(), DomainError> {
        let finite = |name, values: &[f64]| match values.iter().find(|x| !x.is_finite()) {
            Some(&value) => Err(DomainError { name, value }),
            None => Ok(()),
        };
        let positive = |name, value: f64| match value > 0.0 && value.is_finite() {
            true => Ok(()),
            false => Err(DomainError { name, value }),
        };
        match self {
            Domain::Everywhere { .. } => Ok(()),
            Domain::Ball { centre, radius } => {
                finite("centre", centre)?;
                positive("radius", *radius)
            }
            Domain::Box { low, high } => {
                finite("least value", low)?;
                finite("largest value", high)?;
                if low.len() != high.len() {
                    let value = high.len() as f64;
                    return Err(DomainError {
                        name: "number of largest values",
                        value,
                    });
                }
                let gaps = low.iter().zip(high).map(|(low, high)| high - low);
                match gaps.reduce(f64::min) {
                    Some(value) if value < 0.0 => Err(DomainError {
                        name: "width",
                        value,
                    }),
                    _ => Ok(()),
                }
            }
            Domain::Simplex { dim, total } => {
                positive("number of coordinates", *dim as f64)?;
                positive("total", *total)
            }
            Domain::Product(parts) => parts.iter().try_for_each(Domain::check),
        }
    }

    /// Coordinates of its points.
    #[must_use]
    pub fn dim(&self) -> usize {
        match self {
            Domain::Everywhere { dim } | Domain::Simplex { dim, .. } => *dim,
            Domain::Ball { centre, .. } => centre.len(),
            Domain::Box { low, .. } => low.len(),
            Domain::Product(parts) => parts.iter().map(Domain::dim).sum(),
        }
    }

    /// The largest distance of two of its points; infinite where there is none.
    #[must_use]
    pub fn diameter(&self) -> f64 {
        match self {
            Domain::Everywhere { dim: 0 } => 0.0,
            Domain::Everywhere { .. } => f64::INFINITY,
            Domain::Ball { radius, .. } => 2.0 * radius,
            Domain::Box { low, high } => distance(low, high),
            Domain::Simplex { dim: 0 | 1, .. } => 0.0,
            Domain::Simplex { total, .. } => std::f64::consts::SQRT_2 * total,
            Domain::Product(parts) => {
                let all: Vec<f64> = parts.iter().map(Domain::diameter).collect();
                norm(&all)
            }
        }
    }

    /// A point in the middle: the centre, or the point of equal coordinates of a simplex.
    #[must_use]
    pub fn middle(&self) -> Vec<f64> {
        match self {
            Domain::Everywhere { dim } => vec![0.0; *dim],
            Domain::Ball { centre, .. } => centre.clone(),
            Domain::Box { low, high } => {
                let pairs = low.iter().zip(high);
                pairs.map(|(low, high)| 0.5 * low + 0.5 * high).collect()
            }
            Domain::Simplex { dim, total } => vec![total / (*dim).max(1) as f64; *dim],
            Domain::Product(parts) => parts.iter().flat_map(Domain::middle).collect(),
        }
    }

    /// How far `point` is from everything outside of the set, at least; 0 for a point that is not in it, and for a simplex, which has no
    /// interior.
    ///
    /// # Shapes
    /// As [`Domain::project`].
    #[must_use]
    pub fn margin(&self, point: &[f64]) -> f64 {
        // NaN is nowhere.
        let positive = |x: f64| if x > 0.0 { x } else { 0.0 };
        match self {
            Domain::Everywhere { .. } | Domain::Simplex { dim: 0, .. } => f64::INFINITY,
            Domain::Ball { centre, .. } if centre.is_empty() => f64::INFINITY,
            Domain::Ball { centre, radius } => positive(radius - distance(point, centre)),
            Domain::Box { low, high } => {
                let each = point.iter().zip(low.iter().zip(high));
                each.map(|(x, (low, high))| positive(f64::min(x - low, high - x)))
                    .fold(f64::INFINITY, f64::min)
            }
            Domain::Simplex { .. } => 0.0,
            Domain::Product(parts) => {
                let (mut least, mut rest) = (f64::INFINITY, point);
                for part in parts {
                    let (here, after) = rest.split_at(part.dim().min(rest.len()));
                    least = least.min(part.margin(here));
                    rest = after;
                }
                least
            }
        }
    }

    /// Brings `point` to the nearest point of the set. A point that is not finite goes to the middle.
    ///
    /// # Shapes
    /// `point`: [`Domain::dim`] numbers; what is beyond them is left alone.
    pub fn project(&self, point: &mut [f64]) {
        if !point.iter().all(|x| x.is_finite()) {
            for (x, middle) in point.iter_mut().zip(self.middle()) {
                *x = middle;
            }
            return;
        }
        match self {
            Domain::Everywhere { .. } => {}
            Domain::Ball { centre, radius } => into_ball(point, centre, *radius),
            Domain::Box { low, high } => {
                for (x, (low, high)) in point.iter_mut().zip(low.iter().zip(high)) {
                    *x = x.max(*low).min(*high);
                }
            }
            Domain::Simplex { dim, total } => {
                let count = point.len().min(*dim);
                onto_simplex(&mut point[..count], *total);
            }
            Domain::Product(parts) => {
                let mut rest = point;
                for part in parts {
                    let (here, after) = rest.split_at_mut(part.dim().min(rest.len()));
                    part.project(here);
                    rest = after;
                }
            }
        }
    }
}

/// Brings `point` into the ball of this radius around `centre`, along the line to it.
///
/// # Shapes
/// `point` and `centre` have the same length; the shorter one decides otherwise.
pub fn into_ball(point: &mut [f64], centre: &[f64], radius: f64) {
    let length = distance(point, centre);
    if length > radius {
        for (x, c) in point.iter_mut().zip(centre) {
            *x = c + (*x - c) * (radius / length);
        }
    }
}

/// max(x - t, 0) with the t for which it adds up to `total`: the largest (sum of the k largest less the total)/k.
fn onto_simplex(point: &mut [f64], total: f64) {
    let mut sorted = point.to_vec();
    sorted.sort_unstable_by(|a, b| b.total_cmp(a));
    let (mut sum, mut shift) = (0.0, f64::NEG_INFINITY);
    for (k, x) in sorted.iter().enumerate() {
        sum += x;
        shift = f64::max(shift, (sum - total) / (k + 1) as f64);
    }
    for x in point {
        *x = (*x - shift).max(0.0);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn domains() -> Vec<Domain> {
        let ball = Domain::Ball {
            centre: vec![0.3, -1.0, 2.0],
            radius: 0.7,
        };
        let square = Domain::Box {
            low: vec![-1.0, 0.0, 2.0],
            high: vec![1.0, 0.0, 5.0],
        };
        let simplex = Domain::Simplex { dim: 3, total: 2.0 };
        let product = Domain::Product(vec![
            Domain::ball(1, 0.5),
            Domain::simplex(2),
            Domain::Everywhere { dim: 0 },
        ]);
        vec![
            Domain::Everywhere { dim: 3 },
            ball,
            square,
            simplex,
            product,
        ]
    }

    fn projected(domain: &Domain, point: &[f64]) -> Vec<f64> {
        let mut point = point.to_vec();
        domain.project(&mut point);
        point
    }

    proptest! {
        /// p is nearest in a convex set exactly where <x - p, z - p> <= 0 for all z of it, and those z are projections of others.
        #[test]
        fn projections_are_nearest_idempotent_and_lipschitz(
            x in prop::collection::vec(-4.0..4.0f64, 3),
            other in prop::collection::vec(-4.0..4.0f64, 3),
        ) {
            for domain in domains() {
                let (p, z) = (projected(&domain, &x), projected(&domain, &other));
                let towards: f64 = (0..3).map(|i| (x[i] - p[i]) * (z[i] - p[i])).sum();
                prop_assert!(towards <= 1e-12, "{domain:?}: {towards}");
                prop_assert!(distance(&projected(&domain, &p), &p) <= 1e-14, "{domain:?}");
                prop_assert!(distance(&p, &z) <= distance(&x, &other) + 1e-13, "{domain:?}");
                prop_assert!(distance(&p, &z) <= domain.diameter() + 1e-13, "{domain:?}");
            }
        }
    }

    /// No point nearer than the margin is moved by the projection.
    #[test]
    fn margins_are_to_the_outside() {
        let all = domains();
        let middle = |k: usize| (&all[k], all[k].middle());
        let (ball, centre) = middle(1);
        assert!((ball.margin(&centre) - 0.7).abs() < 1e-15);
        assert!((ball.margin(&[0.3, -0.5, 2.0]) - 0.2).abs() < 1e-15);
        assert_eq!(ball.margin(&[9.0, 0.0, 0.0]), 0.0);
        assert_eq!(ball.margin(&[f64::NAN, 0.0, 0.0]), 0.0);
        let square = Domain::Box {
            low: vec![-1.0, 0.0],
            high: vec![1.0, 5.0],
        };
        assert_eq!(square.margin(&[0.5, 1.0]), 0.5);
        assert_eq!(Domain::simplex(3).margin(&[1.0 / 3.0; 3]), 0.0);
        let product = Domain::Product(vec![square, Domain::ball(1, 0.25)]);
        assert_eq!(product.margin(&[0.0, 1.0, 0.125]), 0.125);
        assert_eq!(all[0].margin(&[1.0; 3]), f64::INFINITY);
    }

    #[test]
    fn simplices_by_hand() {
        let simplex = Domain::simplex(3);
        assert_eq!(projected(&simplex, &[5.0, 0.0, 0.0]), [1.0, 0.0, 0.0]);
        assert_eq!(projected(&simplex, &[0.75, 0.75, -3.0]), [0.5, 0.5, 0.0]);
        let thirds = projected(&simplex, &[7.0, 7.0, 7.0]);
        assert!(distance(&thirds, &[1.0 / 3.0; 3]) < 1e-15);
    }

    #[test]
    fn points_that_are_not_finite_go_to_the_middle() {
        for domain in domains() {
            assert_eq!(
                projected(&domain, &[f64::NAN, 1.0, f64::INFINITY]),
                domain.middle()
            );
        }
    }

    #[test]
    fn empty_sets_are_refused() {
        assert!(domains().iter().all(|domain| domain.check().is_ok()));
        let crossed = Domain::Box {
            low: vec![1.0],
            high: vec![0.0],
        };
        let uneven = Domain::Box {
            low: vec![1.0],
            high: vec![],
        };
        let infinite = Domain::ball(2, f64::INFINITY);
        for domain in [
            crossed,
            uneven,
            infinite,
            Domain::simplex(0),
            Domain::ball(1, f64::NAN),
        ] {
            assert!(Domain::Product(vec![domain]).check().is_err());
        }
    }
}
