//! An event reduced to what each accountant works on: Gaussians, sampled ones, and the rest.

use super::releases::{Releases, SampledGaussian, float, up};

/// A release that is not a Gaussian, by what is known of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Other {
    /// Pure epsilon-DP. `share` is the probability of the two outcomes at which the neighbours
    /// differ in the worst case; 1 where nothing is known.
    Pure { epsilon: f64, share: f64 },
    /// (epsilon, delta)-DP with delta above 0.
    Approximate { epsilon: f64, delta: f64 },
    /// Privacy losses within an interval of length epsilon.
    BoundedRange { epsilon: f64 },
    /// Laplace noise, with the L1 sensitivity over the scale.
    Laplace { epsilon: f64 },
    /// Discrete Laplace noise of parameter `rate` per unit, `epsilon` in all.
    DiscreteLaplace { rate: f64, epsilon: f64 },
    /// Renyi divergences of at most `xi + rho alpha`.
    Concentrated { rho: f64, xi: f64 },
    /// A Gaussian on a sample drawn without replacement.
    WithoutReplacement { rate: f64, noise_multiplier: f64 },
    /// A Gaussian on a Poisson sample that is cut where it is too large, with a bound on the probability of that.
    Truncated {
        rate: f64,
        noise_multiplier: f64,
        overflow: f64,
    },
    /// A Gaussian at each of so many steps, in one of which, drawn uniformly, a record takes part.
    Allocated { steps: u64, noise_multiplier: f64 },
    /// The best of a random number of runs.
    Selected {
        inner: Box<Parts>,
        mean: f64,
        shape: f64,
    },
    /// One of these, depending on where the record is.
    Parallel(Vec<Parts>),
}

/// A composition, reduced.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Parts {
    /// Gaussian releases, trees of them, and Gaussians on Poisson samples.
    pub(crate) releases: Releases,
    /// The rest, with multiplicities.
    pub(crate) others: Vec<(Other, u64)>,
}

impl Parts {
    pub(crate) fn is_empty(&self) -> bool {
        self.releases.is_empty() && self.others.is_empty()
    }

    /// Whether `part` is this, or made of releases of which there are at least as many here: then it is a part of this, and costs no more at
    /// any epsilon.
    pub(crate) fn holds(&self, part: &Parts) -> bool {
        let (ours, theirs) = (&self.releases, &part.releases);
        let sampled = |one: &SampledGaussian| {
            let same = |own: &&SampledGaussian| {
                (own.rate, own.noise_multiplier) == (one.rate, one.noise_multiplier)
            };
            ours.sampled
                .iter()
                .find(same)
                .is_some_and(|own| own.count >= one.count)
        };
        let times = |of: &Parts, one: &Other| {
            let same = of.others.iter().filter(|(other, _)| other == one);
            same.fold(0_u64, |all, (_, count)| all.saturating_add(*count))
        };
        let mut others = part.others.iter();
        self == part
            || others.all(|(one, _)| times(self, one) >= times(part, one))
                && theirs.laplace.is_empty()
                && theirs.mu_squared() <= ours.mu_squared()
                && theirs.sampled.iter().all(sampled)
    }

    /// Whether all of it is plain Gaussians.
    pub(crate) fn is_gaussian(&self) -> bool {
        self.releases.sampled.is_empty()
            && self.releases.laplace.is_empty()
            && self.others.is_empty()
    }

    /// Sum of `rho` and `xi` of concentrated differential privacy, rounded up.
    ///
    /// `rho = 1/(2 z^2)` for Gaussians (Bun and Steinke 2016, Proposition 1.6), `epsilon^2/8` for
    /// bounded range (Rogers and Steinke 2021), and `epsilon tanh(epsilon/2)` for pure epsilon.
    /// The last is exact for randomised response: its log moment at `alpha = 1 + x` is
    /// `log cosh((x + 1/2) epsilon) - log cosh(epsilon/2)`, and `log cosh sqrt(v)` is concave in v,
    /// so the difference is at most `x (1 + x) epsilon tanh(epsilon/2)`.
    pub(crate) fn concentrated(&self) -> (f64, f64) {
        let mut rho = 0.5 * self.releases.mu_squared();
        let mut xi = 0.0;
        for (other, count) in &self.others {
            let (one, constant) = match other {
                Other::Pure { epsilon, .. }
                | Other::Laplace { epsilon }
                | Other::DiscreteLaplace { epsilon, .. } => (pure_rho(*epsilon), 0.0),
                Other::BoundedRange { epsilon } => {
                    (up(0.125 * epsilon * epsilon).min(pure_rho(*epsilon)), 0.0)
                }
                Other::Concentrated { rho, xi } => (*rho, *xi),
                Other::Parallel(parts) => parts
                    .iter()
                    .map(Parts::concentrated)
                    .fold((0.0, 0.0), |worst: (f64, f64), part| {
                        (worst.0.max(part.0), worst.1.max(part.1))
                    }),
                // Refused when the parts were made.
                _ => (f64::INFINITY, 0.0),
            };
            rho = up(rho + up(one * float(*count)));
            if constant > 0.0 {
                xi = up(xi + up(constant * float(*count)));
            }
        }
        (rho, xi)
    }
}

fn pure_rho(epsilon: f64) -> f64 {
    up(epsilon * (0.5 * epsilon).tanh() * (1.0 + 4.0 * f64::EPSILON))
}
