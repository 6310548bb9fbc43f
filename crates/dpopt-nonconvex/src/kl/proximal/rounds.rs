//! The outer recursion: what a proximal step with a gap does to the excess risk, and the cheapest sequence of rounds.
//!
//! The proof is in `docs/theory/kl-condition.md`, section 1.

use dpopt_solver::KlCondition;

use super::inner::Inner;

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
        let least = self.least_worst(before);
        if least >= after {
            return None;
        }
        let at = |share: f64| self.with_worst(before, after, least + share * (after - least));
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

    /// 4 (before - u)/|grad at u|^2: what 2/L - W/(2 L^2) has to be for the worst proximal point to have the excess u.
    fn needed(&self, before: f64, u: f64) -> f64 {
        let slope = self.condition.gradient_norm_at(u);
        4.0 * (before - u) / (slope * slope)
    }

    /// No weight above W/2 has its worst proximal point below this.
    fn least_worst(&self, before: f64) -> f64 {
        if self.bend == 0.0 {
            return 0.0;
        }
        let (mut low, mut high) = (0.0, before);
        for _ in 0..60 {
            let u = 0.5 * (low + high);
            if 0.5 * self.bend * self.needed(before, u) < 1.0 {
                high = u;
            } else {
                low = u;
            }
        }
        high
    }

    /// The round from `before` to `after` in which the worst proximal point has the excess `u`: L from
    /// u + a x^2 = before, tau from what is left up to `after`.
    fn with_worst(&self, before: f64, after: f64, u: f64) -> Option<Step> {
        // A quadratic in 1/L.
        let needed = self.needed(before, u);
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
            if beyond
                && nodes[j.saturating_sub(WIDEST)..]
                    .iter()
                    .all(|n| n.cost > most as f64)
            {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn landscape(kappa: f64, bend: f64) -> Landscape {
        Landscape {
            condition: KlCondition::new(0.9, kappa).unwrap(),
            bend,
            lipschitz: 2.0,
        }
    }

    /// splitmix64 in [0, 1).
    fn uniforms(mut state: u64) -> impl FnMut() -> f64 {
        move || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
        }
    }

    /// For random exact excess, displacement and gap that strong convexity and the KL condition allow, the excess after the round is
    /// at most the recursion's; and some come close to it.
    #[test]
    fn the_recursion_covers_what_the_inequalities_allow() {
        let mut next = uniforms(3);
        for kappa in [2.0, 3.0, 4.0, 10.0] {
            for bend in [0.0, 0.5] {
                let landscape = landscape(kappa, bend);
                for _ in 0..40 {
                    let weight = 0.5 * bend + 10f64.powf(3.0 * next() - 1.5);
                    let before = 10f64.powf(-4.0 * next());
                    let tau = before * 10f64.powf(-3.0 * next());
                    let bound = landscape.after(weight, tau, before);
                    let modulus = landscape.modulus(weight);
                    let mut worst: f64 = 0.0;
                    for i in 0..600 {
                        let exact = before * (f64::from(i) / 599.0).powi(4);
                        // e* + (L + mu/2) r^2 <= before and 2 L r >= the least gradient norm at e*.
                        let most = ((before - exact) / (weight + 0.5 * modulus)).sqrt();
                        let least = landscape.condition.gradient_norm_at(exact) / (2.0 * weight);
                        if least > most {
                            continue;
                        }
                        for j in 0..20 {
                            let r = least + (most - least) * f64::from(j) / 19.0;
                            let tau = tau * if j % 2 == 0 { 1.0 } else { next() };
                            let off = (2.0 * tau / modulus).sqrt();
                            let kept = (r - off).max(0.0);
                            let after = exact + tau + weight * (r * r - kept * kept);
                            worst = worst.max(after);
                        }
                    }
                    assert!(worst <= bound * (1.0 + 1e-9), "{worst} {bound}");
                    assert!(worst >= 0.9 * bound.min(before + tau), "{worst} {bound}");
                }
            }
        }
    }

    /// The fixed steps that Lemma 1 is often used with, with their weights and gaps, are inside ours: contraction 9/8 at
    /// L = Phi^(-(kappa - 2)/kappa)/(2 gamma^2) and tau = Phi/40 or less.
    #[test]
    fn the_contraction_of_the_notes_is_not_the_best() {
        for kappa in [2.0, 3.0, 4.0, 10.0] {
            let landscape = landscape(kappa, 0.0);
            let weight = 1.0 / (2.0 * 0.81);
            assert!(landscape.after(weight, 1.0 / 40.0, 9.0 / 8.0) < 1.0);
            // Without a gap it is 2: u + 2 u/2.
            let exact = landscape.after(weight, 0.0, 2.0);
            assert!((exact - 1.0).abs() < 1e-12, "{exact}");
        }
    }

    #[test]
    fn a_round_that_was_asked_for_ends_at_its_target() {
        for kappa in [2.0, 3.0, 10.0] {
            for bend in [0.0, 0.3, 5.0] {
                let landscape = landscape(kappa, bend);
                for (before, drop) in [(1.0, 1.02), (1e-3, 1.3), (1e-9, 2.0)] {
                    let after = before / drop;
                    let Some(step) = landscape.best(before, after) else {
                        // An exact step could not do it either.
                        assert!(landscape.least_worst(before) >= after);
                        continue;
                    };
                    let tau = step.product / landscape.modulus(step.weight);
                    let reached = landscape.after(step.weight, tau, before);
                    assert!((reached / after - 1.0).abs() < 1e-9, "{reached} {after}");
                    // No weight near it needs less.
                    for factor in [0.8, 0.95, 1.05, 1.3] {
                        let weight = step.weight * factor;
                        if weight > 0.5 * bend {
                            let tau = step.product / landscape.modulus(weight);
                            let other = landscape.after(weight, tau, before);
                            assert!(other > after * (1.0 - 1e-6), "{factor} {other} {after}");
                        }
                    }
                }
            }
        }
    }

    /// A path over the grid costs what the best geometric sequence does: 43.7 gamma^2/Phi for kappa = 2, where that is
    /// 2 (1 + sqrt v)^2/(v^2 (1 - v)) at its least.
    #[test]
    fn the_cheapest_path_for_kappa_two_is_the_closed_form() {
        let landscape = landscape(2.0, 0.0);
        let inner = Inner {
            noise_std: 1.0,
            lipschitz: 1e-9,
            dim: 100.0,
            batch: None,
            tail: 1e-9,
        };
        let most = 1u64 << 40;
        let paths = landscape.paths(1.0, &inner, most);
        let unit = inner.product(most as f64, 0.0) * (most as f64 + 1.0);
        let last = paths
            .nodes
            .iter()
            .rposition(|node| node.cost <= most as f64);
        let last = last.unwrap();
        let cost = paths.nodes[last].cost * paths.targets[last] / (unit * 0.81);
        let closed = (1..1000)
            .map(|k| f64::from(k) / 1000.0)
            .map(|v: f64| 2.0 * (1.0 + v.sqrt()).powi(2) / (v * v * (1.0 - v)))
            .fold(f64::INFINITY, f64::min);
        assert!((43.6..43.8).contains(&closed));
        assert!((cost / closed - 1.0).abs() < 0.01, "{cost} {closed}");
    }
}
