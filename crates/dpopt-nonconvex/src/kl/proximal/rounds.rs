//! The outer recursion: what a proximal step with a gap does to the excess risk, and the cheapest sequence of rounds.
//!
//! The proof is in `docs/theory/proximal-point.md`, section 1.

use super::inner::Inner;
use crate::kl::KlCondition;

/// Ratio of neighbouring targets on the grid, where the condition number is small.
const FINEST: f64 = 0.04;
/// Most targets on the grid.
const MOST_TARGETS: usize = 20_000;
/// Rounds that bring the risk down by more than this factor are not tried.
const LARGEST_DROP: f64 = 4.0;
/// Targets that one round may skip, at most.
const WIDEST: usize = 48;
/// Steps of the golden-section search for a weight.
const SECTIONS: u32 = 28;
const SMALLEST_TARGET: f64 = 1e-250;

/// What the recursion needs to know of F.
#[derive(Debug, Clone, Copy)]
pub(super) struct Landscape {
    pub(super) condition: KlCondition,
    /// Weak convexity.
    pub(super) bend: f64,
    /// L0.
    pub(super) lipschitz: f64,
}

/// A round: minimise F + L ||w - centre||^2 up to a gap tau.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Step {
    /// L.
    pub(super) weight: f64,
    /// (2 L - W) tau: what the inner solver has to reach.
    pub(super) product: f64,
}

impl Landscape {
    /// 2 L - W.
    pub(super) fn modulus(&self, weight: f64) -> f64 {
        2.0 * weight - self.bend
    }

    /// How far the exact proximal point can be from a centre of excess at most `before`.
    pub(super) fn reach(&self, weight: f64, before: f64) -> f64 {
        let by_slope = self.lipschitz / (2.0 * weight);
        by_slope.min((before / (self.gain(weight) * weight)).sqrt())
    }

    /// The largest gradient of the term (W/2)||w - centre||^2 in the ball.
    pub(super) fn pull(&self, weight: f64, before: f64) -> f64 {
        self.bend * self.reach(weight, before)
    }

    /// a = 2 - W/(2 L): L + modulus/2 over L.
    fn gain(&self, weight: f64) -> f64 {
        2.0 - self.bend / (2.0 * weight)
    }

    /// sqrt(L) times the least distance that a proximal step moves when it ends at the excess `u`.
    fn stride(&self, weight: f64, u: f64) -> f64 {
        0.5 * self.condition.gradient_norm_at(u) / weight.sqrt()
    }

    /// The largest excess after a round with gap tau from an excess of at most `before`.
    ///
    /// # Formula
    /// u + a u^(2/kappa)/(4 gamma^2 L) = before, x = u^(1/kappa)/(2 gamma sqrt L), y = sqrt(2 L tau/(2 L - W)):
    /// u + tau + 2 x y - y^2 where y <= x, else u + tau + x^2.
    pub(super) fn after(&self, weight: f64, tau: f64, before: f64) -> f64 {
        let gain = self.gain(weight);
        let (mut low, mut high) = (0.0, before);
        for _ in 0..200 {
            let u = 0.5 * (low + high);
            if u <= low || u >= high {
                break;
            }
            let x = self.stride(weight, u);
            if u + gain * x * x > before {
                high = u;
            } else {
                low = u;
            }
        }
        // The upper end: an excess too large is on the safe side.
        let (u, x) = (high, self.stride(weight, high));
        let y = (2.0 * weight * tau / self.modulus(weight)).sqrt();
        u + tau + if y <= x { y * (2.0 * x - y) } else { x * x }
    }

    /// The round from `before` to `after` that asks least of the inner solver.
    fn best(&self, before: f64, after: f64) -> Option<Step> {
        let at = |share: f64| self.with_worst(before, after, share * after);
        let golden = 0.5 * (5f64.sqrt() - 1.0);
        let value = |step: Option<Step>| step.map_or(0.0, |step| step.product);
        let (mut low, mut high) = (0.0, 1.0);
        let (mut left, mut right) = (high - golden, low + golden);
        let (mut at_left, mut at_right) = (at(left), at(right));
        for _ in 0..SECTIONS {
            if value(at_left) < value(at_right) {
                low = left;
                (left, at_left) = (right, at_right);
                right = low + golden * (high - low);
                at_right = at(right);
            } else {
                high = right;
                (right, at_right) = (left, at_left);
                left = high - golden * (high - low);
                at_left = at(left);
            }
        }
        if value(at_left) < value(at_right) {
            at_right
        } else {
            at_left
        }
    }

    /// The round from `before` to `after` in which the worst proximal point has the excess `u`: L from
    /// u + a x^2 = before, tau from what is left up to `after`.
    fn with_worst(&self, before: f64, after: f64, u: f64) -> Option<Step> {
        // a x^2 = (2/L - W/(2 L^2)) g^2/4 with g the least gradient norm at u; a quadratic in 1/L.
        let slope = self.condition.gradient_norm_at(u);
        let needed = 4.0 * (before - u) / (slope * slope);
        let root = 1.0 - 0.5 * self.bend * needed;
        if !(root > 0.0 && needed > 0.0 && needed.is_finite()) {
            return None;
        }
        let weight = (1.0 + root.sqrt()) / needed;
        let (modulus, x) = (self.modulus(weight), self.stride(weight, u));
        let (left, part) = (after - u, 0.5 * self.bend / weight);
        // -part y^2 + 2 x y = left for y <= x.
        let tau = if left > x * x * (2.0 - part) {
            left - x * x
        } else {
            let y = left / (x + (x * x - part * left).max(0.0).sqrt());
            0.5 * y * y * modulus / weight
        };
        let product = modulus * tau;
        (modulus > 0.0 && product > 0.0 && product.is_finite()).then_some(Step { weight, product })
    }

    /// Targets from `first` down, close enough that a round can go over several of them.
    fn targets(&self, first: f64) -> Vec<f64> {
        let mut targets = vec![first];
        let mut target = first;
        while targets.len() < MOST_TARGETS && target > SMALLEST_TARGET {
            let number = self.condition.condition_number(self.bend, target);
            // An exact step divides the excess by 1 + 1/(2 number) at most.
            target /= 1.0 + FINEST.min(0.15 / (1.0 + 4.0 * number));
            targets.push(target);
        }
        targets
    }

    /// The cheapest rounds to each of a grid of targets below `first`, as far as `most` inner steps go.
    pub(super) fn paths(&self, first: f64, inner: &Inner, most: u64) -> Paths {
        let targets = self.targets(first);
        let mut nodes = vec![Node::start()];
        for (j, &after) in targets.iter().enumerate().skip(1) {
            let mut node = Node::unreached();
            for i in (j.saturating_sub(WIDEST)..j).rev() {
                let before = targets[i];
                if before > LARGEST_DROP * after {
                    break;
                }
                if nodes[i].cost > node.cost {
                    continue;
                }
                let Some(step) = self.best(before, after) else {
                    continue;
                };
                let pull = self.pull(step.weight, before);
                // In the limit of many steps; the true number is found once the path is known.
                let steps = inner.product(most as f64, pull) * (most as f64 + 1.0) / step.product;
                let cost = nodes[i].cost + steps.max(1.0);
                if cost < node.cost {
                    node = Node {
                        cost,
                        from: i,
                        step: Some(step),
                    };
                }
            }
            let beyond = node.cost > most as f64;
            nodes.push(node);
            // Cost grows along the grid, up to its own roughness.
            if beyond && nodes[j.saturating_sub(WIDEST)..].iter().all(|n| n.cost > most as f64) {
                break;
            }
        }
        Paths { nodes, targets }
    }
}

#[derive(Debug, Clone, Copy)]
struct Node {
    cost: f64,
    from: usize,
    step: Option<Step>,
}

impl Node {
    fn start() -> Self {
        Self {
            cost: 0.0,
            from: 0,
            step: None,
        }
    }

    fn unreached() -> Self {
        Self {
            cost: f64::INFINITY,
            ..Self::start()
        }
    }
}

/// The cheapest paths found.
pub(super) struct Paths {
    nodes: Vec<Node>,
    targets: Vec<f64>,
}

impl Paths {
    /// Paths that cost at most `most` in the model, deepest first: rounds with the excess before each.
    pub(super) fn deepest_first(&self, most: f64) -> impl Iterator<Item = Vec<(f64, Step)>> {
        let ends = (1..self.nodes.len()).rev();
        ends.filter(move |&end| self.nodes[end].cost <= most)
            .map(|end| self.path_to(end))
    }

    fn path_to(&self, end: usize) -> Vec<(f64, Step)> {
        let mut path = Vec::new();
        let mut at = end;
        while let Some(step) = self.nodes[at].step {
            at = self.nodes[at].from;
            path.push((self.targets[at], step));
        }
        path.reverse();
        path
    }
}
