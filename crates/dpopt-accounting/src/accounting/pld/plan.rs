//! Cumulants without a grid, to choose the tilt, the step and the window.
//!
//! Nothing here is certified and nothing has to be: a poor plan makes the bounds wider,
//! never wrong.

use libm::{exp, log, log1p, sqrt};

use super::any::AnyPair;
use super::laplace;
use super::law::Law;

/// Smallest tail mass, as a logarithm, that the module resolves.
pub(super) const LN_FLOOR: f64 = -640.0;

/// One kind of step and how often it was taken.
#[derive(Debug, Clone)]
pub(super) struct Step {
    pub(super) pair: AnyPair,
    pub(super) count: u64,
}

struct Nodes {
    log_weight: Vec<f64>,
    loss: Vec<f64>,
    count: f64,
}

/// Cumulant generating function of the composed privacy loss under P, by the trapezoid rule.
pub(super) struct Cumulants {
    nodes: Vec<Nodes>,
}

/// Value and first two derivatives of the cumulant generating function.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cumulant {
    pub(super) value: f64,
    pub(super) mean: f64,
    pub(super) variance: f64,
}

/// The saddle point for a target, and what it says about epsilon and delta.
#[derive(Debug, Clone, Copy)]
pub(super) struct Saddle {
    pub(super) theta: f64,
    pub(super) epsilon: f64,
    pub(super) ln_delta: f64,
}

/// The part of the composed loss that the transform must resolve, with the exponents that
/// bound what lies outside.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) t_low: f64,
    pub(super) t_high: f64,
}

/// Logarithms of weights, and losses, along the variable of a pair.
fn line(pair: &impl Law, scale: f64, ln_above: f64) -> (Vec<f64>, Vec<f64>) {
    let low = pair.lower_point(LN_FLOOR);
    let high = pair.upper_point(ln_above);
    let spacing = (0.05 * scale).max((high - low) / 100_000.0);
    let n = ((high - low) / spacing).ceil() as usize + 1;
    (0..n)
        .map(|i| {
            let y = low + spacing * i as f64;
            let (p, l) = pair.log_density_and_loss(y);
            (p + log(spacing), l)
        })
        .unzip()
}

/// Logarithms of weights, and losses, of a pair.
fn nodes_of(pair: &AnyPair, ln_above: f64) -> (Vec<f64>, Vec<f64>) {
    match pair {
        AnyPair::Normal(pair) => line(pair, pair.s, ln_above),
        AnyPair::Fixed(pair) => line(pair, pair.radius(0.0), ln_above),
        AnyPair::Mixture(pair) => line(&**pair, 0.5 * pair.scale(), ln_above),
        AnyPair::Laplace(pair) => laplace::plan_nodes(pair)
            .into_iter()
            .map(|(loss, ln)| (ln, loss))
            .unzip(),
        AnyPair::Points(points) => points
            .plan_nodes()
            .into_iter()
            .map(|(loss, ln)| (ln, loss))
            .unzip(),
        AnyPair::Truncated(pair) => {
            let (mut weights, mut losses) = nodes_of(&pair.within, ln_above);
            let ln = log(pair.overflow);
            if ln > ln_above {
                let (more, of) = nodes_of(&pair.beyond, ln_above - ln);
                weights.extend(more.into_iter().map(|weight| weight + ln));
                losses.extend(of);
            }
            (weights, losses)
        }
    }
}

impl Cumulants {
    /// Leaves out what lies beyond mass `e^{ln_above}`: the lattice leaves it out as well, and
    /// a tilt would otherwise be drawn to events that never happen.
    pub(super) fn new(steps: &[Step], ln_above: f64) -> Self {
        let nodes = steps
            .iter()
            .map(|step| {
                let (log_weight, loss) = nodes_of(&step.pair, ln_above);
                Nodes {
                    log_weight,
                    loss,
                    count: step.count as f64,
                }
            })
            .collect();
        Self { nodes }
    }

    /// Cumulants of step kind `index`, for one step.
    pub(super) fn one(&self, index: usize, theta: f64) -> Cumulant {
        let Some(nodes) = self.nodes.get(index) else {
            return Cumulant::default();
        };
        let exponents = || {
            nodes
                .log_weight
                .iter()
                .zip(&nodes.loss)
                .map(|(w, l)| (w + theta * l, *l))
        };
        let top = exponents().fold(f64::NEG_INFINITY, |top, (e, _)| top.max(e));
        let (mut zero, mut first) = (0.0, 0.0);
        for (e, l) in exponents() {
            if e > top - 60.0 {
                let w = exp(e - top);
                zero += w;
                first += w * l;
            }
        }
        let mean = first / zero;
        let mut second = 0.0;
        for (e, l) in exponents() {
            if e > top - 60.0 {
                second += exp(e - top) * (l - mean) * (l - mean);
            }
        }
        Cumulant {
            value: top + log(zero),
            mean,
            variance: second / zero,
        }
    }

    fn all(&self, theta: f64) -> Cumulant {
        let mut total = Cumulant::default();
        for (index, nodes) in self.nodes.iter().enumerate() {
            let one = self.one(index, theta);
            total.value += nodes.count * one.value;
            total.mean += nodes.count * one.mean;
            total.variance += nodes.count * one.variance;
        }
        total
    }

    /// The epsilon whose saddle point is `theta`, with the Laplace approximation of delta.
    fn at(&self, theta: f64) -> Saddle {
        let k = self.all(theta);
        let epsilon = k.mean - 1.0 / theta - 1.0 / (1.0 + theta);
        let curvature = k.variance + theta.powi(-2) + (1.0 + theta).powi(-2);
        let ln_delta = k.value
            - theta * epsilon
            - log(theta)
            - log1p(theta)
            - 0.5 * log(2.0 * std::f64::consts::PI * curvature);
        Saddle {
            theta,
            epsilon,
            ln_delta: ln_delta.min(-1e-9),
        }
    }

    fn bisect(&self, too_small: impl Fn(&Saddle) -> bool) -> Saddle {
        let (mut low, mut high) = (log(1e-3), log(1e6));
        for _ in 0..30 {
            let middle = 0.5 * (low + high);
            if too_small(&self.at(exp(middle))) {
                low = middle;
            } else {
                high = middle;
            }
        }
        self.at(exp(low))
    }

    pub(super) fn for_epsilon(&self, epsilon: f64) -> Saddle {
        let saddle = self.bisect(|s| s.epsilon < epsilon);
        // Beyond the reach of the search the exponent at the true epsilon is what counts.
        let gap = (epsilon - saddle.epsilon).max(0.0);
        Saddle {
            epsilon,
            ln_delta: saddle.ln_delta - saddle.theta * gap,
            ..saddle
        }
    }

    pub(super) fn for_ln_delta(&self, ln_delta: f64) -> Saddle {
        let saddle = self.bisect(|s| s.ln_delta > ln_delta);
        if saddle.epsilon < 0.0 {
            self.for_epsilon(0.0)
        } else {
            saddle
        }
    }

    /// A window outside which the tilted composed loss has mass of about `e^{-nats}`.
    pub(super) fn window(&self, saddle: &Saddle, nats: f64) -> Window {
        let theta = saddle.theta;
        let here = self.all(theta);
        // Under a steep tilt all of the mass may be on one atom.
        let spread = sqrt(here.variance).max(0.3 / theta);
        let mut window = Window {
            low: f64::NEG_INFINITY,
            high: f64::INFINITY,
            t_low: 1.0,
            t_high: 1.0,
        };
        for i in -24..=8 {
            let t = 8.0 / spread * libm::exp2(0.5 * f64::from(i));
            let up = (self.all(theta + t).value - here.value + nats) / t;
            if up < window.high {
                window.high = up;
                window.t_high = t;
            }
            let down = (here.value - self.all(theta - t).value - nats) / t;
            if down > window.low {
                window.low = down;
                window.t_low = t;
            }
        }
        // Epsilon itself, and the stretch in which the hockey stick gathers its mass.
        let stretch = (30.0 / theta).min(4.0 * spread);
        window.high = window.high.max(saddle.epsilon + stretch);
        window.low = window.low.min(saddle.epsilon - stretch);
        window
    }
}
