//! Moment functions of Poisson-sampled Gaussians: on the real axis to find the saddle point, at
//! equally spaced complex arguments for the integral, and a bound on their decay.

use realfft::num_complex::Complex64;

use super::error::ExactError;
use super::moments::{Cumulant, Entry, Moments};
use super::pair::{NEGLIGIBLE, Node, Pair, ULP, ln_1p, polar};
use crate::accounting::special::exp_minus_linear;

/// Most nodes on one line.
const MOST_NODES: usize = 60_000;
/// log of the target for the error of the inner trapezoid rule.
const LN_TARGET: f64 = 40.0;
/// Below this log of the moment the moment minus one is what is computed.
const EXCESS: f64 = 1.0;
/// Terms of the exponential series for arguments up to 1: the remainder is below 1e-22.
const TERMS: usize = 22;
/// Relative slack for rounding in sums of positive terms.
const SUM_SLACK: f64 = 4e-12;
/// Lines on which the decay is bounded.
const TAIL_LINES: usize = 11;

#[derive(Debug, Clone)]
struct RealNode {
    ln_weight: f64,
    weight: f64,
    loss: f64,
}

impl RealNode {
    /// Weight times `e^y - 1 - y`; the weight may underflow where the exponential overflows.
    fn excess(&self, y: f64) -> f64 {
        if y > 1.0 {
            (self.ln_weight + y).exp() - self.weight * (1.0 + y)
        } else {
            self.weight * exp_minus_linear(y)
        }
    }
}

/// `count` releases of one pair.
#[derive(Debug, Clone)]
pub(super) struct Sampled {
    pair: Pair,
    count: f64,
    limit: f64,
    nodes: Vec<RealNode>,
    rest: f64,
    /// The tail bound's lines at `tail_theta`.
    lines: Vec<TailLine>,
}

/// log weight at the tilt, and imaginary part of the loss, per node.
#[derive(Debug, Clone)]
struct TailLine {
    nodes: Vec<(f64, f64)>,
    error: f64,
}

/// Height of the line, step of the nodes. The integrand is analytic and bounded by `growth` in
/// the strip from 0 to twice the height.
#[derive(Debug, Clone, Copy)]
struct Rule {
    height: f64,
    step: f64,
}

impl Rule {
    fn new(pair: &Pair, count: f64, theta: f64) -> Self {
        let sigma = pair.sigma;
        let curvature = 1.0 + pair.denominator() * theta / (4.0 * sigma * sigma);
        let height = (1.5 / curvature.sqrt()).min(pair.highest() * sigma);
        let need = LN_TARGET + count.ln() + pair.ln_growth(2.0 * height, theta);
        let step = 2.0 * std::f64::consts::PI * height / need;
        // Few significant bits: the nodes k step are then exact.
        let step = f64::from_bits(step.to_bits() & !((1 << 34) - 1));
        Self { height, step }
    }

    /// `(1 + e^{growth(2 height)}) / (e^{2 pi height / step} - 1)` for a strip of half-width
    /// `share` times the height around a line: the error of the trapezoid rule over the integral
    /// of the bound of the integrand.
    fn error(&self, pair: &Pair, theta: f64, share: f64) -> f64 {
        let d = share * self.height;
        2.0 * (pair.ln_growth(2.0 * self.height, theta)).exp()
            / (2.0 * std::f64::consts::PI * d / self.step).exp_m1()
    }
}

impl Sampled {
    pub(super) fn new(pair: Pair, count: f64) -> Result<Self, ExactError> {
        let mut out = Self {
            pair,
            count,
            limit: 0.0,
            nodes: Vec::new(),
            rest: 0.0,
            lines: Vec::new(),
        };
        out.extend(6.0)?;
        Ok(out)
    }

    fn places(&self, rule: &Rule, theta: f64) -> Result<Vec<i64>, ExactError> {
        self.pair
            .reach(rule.step, theta, MOST_NODES)
            .ok_or(ExactError::TooManyNodes {
                tilt: theta,
                rate: self.pair.rate,
                sigma: self.pair.sigma,
                limit: MOST_NODES,
            })
    }

    /// Mass left out of a sum over the nodes on a line, including the tails, over the bound
    /// of the integrand. The skipped range is at most this long.
    fn left_out(&self, theta: f64) -> f64 {
        let range = 2.0 * (1.0 + 2.0 * theta) / self.pair.sigma + 40.0;
        (-NEGLIGIBLE).exp() * range
    }

    /// `log E e^{theta L}` alone.
    fn value_one(&self, theta: f64) -> f64 {
        let excess: f64 = self.nodes.iter().map(|n| n.excess(theta * n.loss)).sum();
        let value = (excess + theta * self.rest).ln_1p();
        if value <= EXCESS {
            return value;
        }
        // It may have overflowed.
        let top = self.top(theta);
        let sum: f64 = self
            .nodes
            .iter()
            .map(|n| n.ln_weight + theta * n.loss - top)
            .filter(|e| *e > -60.0)
            .map(f64::exp)
            .sum();
        top + sum.ln()
    }

    fn top(&self, theta: f64) -> f64 {
        self.nodes
            .iter()
            .map(|n| n.ln_weight + theta * n.loss)
            .fold(f64::NEG_INFINITY, f64::max)
    }

    fn tail_lines(&self, theta: f64) -> Result<Vec<TailLine>, ExactError> {
        let rule = Rule::new(&self.pair, self.count, theta);
        let places = self.places(&rule, theta)?;
        let scale = self.value_one(theta);
        // A sum over lines cannot be finer than about 1/sqrt(count).
        let needed = (rule.height / (1.0 / self.count.sqrt())).log2().ceil();
        let lines = (needed.clamp(1.0, TAIL_LINES as f64) as usize) + 1;
        Ok((0..lines)
            .map(|line| {
                let main = line == 0;
                let y = rule.height * 0.5_f64.powi(line as i32);
                let nodes = places
                    .iter()
                    .map(|k| {
                        let node = self.pair.node(*k as f64 * rule.step, y, rule.step);
                        (
                            node.ln_weight + theta * node.loss.re - scale,
                            node.loss.im.max(0.0),
                        )
                    })
                    .filter(|(size, _)| *size > -60.0)
                    .collect();
                let share = if main { 1.0 } else { 0.5 };
                let growth = self.pair.ln_growth(2.0 * rule.height, theta) - scale.max(0.0);
                let error = rule.error(&self.pair, theta, share)
                    + growth.exp() * self.left_out(theta)
                    + 1e-26 * places.len() as f64;
                TailLine { nodes, error }
            })
            .collect())
    }
}

impl Moments for Sampled {
    fn extend(&mut self, theta: f64) -> Result<(), ExactError> {
        if theta <= self.limit {
            return Ok(());
        }
        let theta = theta * 1.5;
        let rule = Rule::new(&self.pair, self.count, theta);
        let places = self.places(&rule, theta)?;
        self.rest = 0.0;
        self.nodes = places
            .into_iter()
            .map(|k| {
                let node = self.pair.node(k as f64 * rule.step, 0.0, rule.step);
                self.rest += node.rest.re;
                RealNode {
                    ln_weight: node.ln_weight,
                    weight: node.ln_weight.exp(),
                    loss: node.loss.re,
                }
            })
            .collect();
        self.limit = theta;
        Ok(())
    }

    fn supremum(&self) -> f64 {
        self.count * self.pair.supremum()
    }

    fn cumulant(&self, theta: f64) -> Cumulant {
        let (mut excess, mut tilted, mut square) = (theta * self.rest, 0.0, 0.0);
        for node in &self.nodes {
            let y = theta * node.loss;
            excess += node.excess(y);
            let shift = if y > 1.0 {
                (node.ln_weight + y).exp() - node.weight
            } else {
                node.weight * y.exp_m1()
            };
            tilted += node.loss * shift;
            square += node.loss * node.loss * (shift + node.weight);
        }
        let mut value = excess.ln_1p();
        let mut mean = (tilted + self.rest) / (1.0 + excess);
        square /= 1.0 + excess;
        if !(value <= EXCESS) {
            let top = self.top(theta);
            let (mut sum, mut first, mut second) = (0.0, 0.0, 0.0);
            for node in &self.nodes {
                let e = node.ln_weight + theta * node.loss - top;
                if e > -60.0 {
                    let w = e.exp();
                    sum += w;
                    first += w * node.loss;
                    second += w * node.loss * node.loss;
                }
            }
            value = top + sum.ln();
            mean = first / sum;
            square = second / sum;
        }
        Cumulant {
            value: self.count * value,
            mean: self.count * mean,
            variance: self.count * (square - mean * mean).max(0.0),
        }
    }

    fn value(&self, theta: f64) -> f64 {
        self.count * self.value_one(theta)
    }

    fn prepare_decay(&mut self, theta: f64) -> Result<(), ExactError> {
        self.lines = self.tail_lines(theta)?;
        Ok(())
    }

    fn ln_decay(&self, t: f64) -> f64 {
        let mut best = 0.0_f64;
        let mut worse = 0;
        // From the lowest line up: the best height grows with t.
        for line in self.lines.iter().rev() {
            let sum: f64 = line
                .nodes
                .iter()
                .map(|(size, pull)| (size - t * pull).exp())
                .sum();
            let bound = self.count * ((sum + line.error) * (1.0 + SUM_SLACK)).ln();
            if bound < best {
                best = bound;
                worse = 0;
            } else if best < 0.0 {
                worse += 1;
                if worse == 2 {
                    break;
                }
            }
        }
        best
    }

    fn weight(&self) -> f64 {
        self.lines.first().map_or(1.0, |l| l.nodes.len() as f64)
    }

    fn table(&self, theta: f64, h: f64, out: &mut [Entry]) -> Result<(), ExactError> {
        Table::new(self, theta, h)?.fill(out);
        Ok(())
    }
}

/// The moment function at `theta + i k h`, k = 0, 1, ...
struct Table<'a> {
    pair: &'a Pair,
    count: f64,
    theta: f64,
    h: f64,
    /// All weights are divided by `e^scale`.
    scale: f64,
    excess: bool,
    nodes: Vec<Node>,
    rest: Complex64,
    rest_error: f64,
    rule_error: f64,
    left_out: f64,
}

/// What a run of consecutive arguments has in common.
#[derive(Default)]
struct Block {
    real: Vec<f64>,
    imaginary: Vec<f64>,
    turn_real: Vec<f64>,
    turn_imaginary: Vec<f64>,
    /// Sum of weights and of weights times losses of the nodes above.
    mass: Complex64,
    mean: Complex64,
    /// Sums of weight times `(loss * size)^j / j!` of the other nodes.
    series: [Complex64; TERMS + 1],
    error: f64,
}

impl<'a> Table<'a> {
    fn new(of: &'a Sampled, theta: f64, h: f64) -> Result<Self, ExactError> {
        let pair = &of.pair;
        let rule = Rule::new(pair, of.count, theta);
        let value = of.value_one(theta);
        let excess = value <= EXCESS;
        let scale = if excess { 0.0 } else { value };
        let nodes: Vec<Node> = of
            .places(&rule, theta)?
            .into_iter()
            .map(|k| pair.node(k as f64 * rule.step, rule.height, rule.step))
            .collect();
        let mut rest = Complex64::default();
        let mut rest_error = 0.0;
        for node in &nodes {
            rest += node.rest;
            rest_error += node.rest_error;
        }
        Ok(Self {
            pair,
            count: of.count,
            theta,
            h,
            scale,
            excess,
            rest,
            rest_error,
            rule_error: rule.error(pair, theta, 1.0),
            left_out: of.left_out(theta) * pair.ln_growth(2.0 * rule.height, theta).exp(),
            nodes,
        })
    }

    fn argument(&self, k: usize) -> Complex64 {
        Complex64::new(self.theta, k as f64 * self.h)
    }

    fn block(&self, from: usize, to: usize, block: &mut Block) {
        let size = self.argument(to).norm();
        let t = from as f64 * self.h;
        *block = Block::default();
        let run = 4.0 * (to - from) as f64 * ULP;
        for node in &self.nodes {
            let reach = size * node.loss.norm();
            let weight = if self.excess {
                polar(node.ln_weight, node.angle)
            } else {
                Complex64::default()
            };
            if self.excess && reach <= 1.0 {
                let unit = node.loss.scale(size);
                let mut term = weight * unit;
                for j in 2..=TERMS {
                    term = (term * unit).scale(1.0 / j as f64);
                    block.series[j] += term;
                }
                block.error += (4.0 * node.error + 100.0 * ULP) * weight.norm() * reach * reach;
                continue;
            }
            let now = polar(
                node.ln_weight + self.theta * node.loss.re - t * node.loss.im - self.scale,
                node.angle + self.theta * node.loss.im + t * node.loss.re,
            );
            let magnitude = now.norm();
            let plain = weight.norm() * (1.0 + reach);
            let error = 4.0 * node.error + 8.0 * ULP + run;
            if magnitude + plain < 1e-30 {
                block.error += magnitude + plain;
                continue;
            }
            block.error += error * (magnitude * (1.0 + reach) + plain);
            let turn = polar(-self.h * node.loss.im, self.h * node.loss.re);
            block.real.push(now.re);
            block.imaginary.push(now.im);
            block.turn_real.push(turn.re);
            block.turn_imaginary.push(turn.im);
            block.mass += weight;
            block.mean += weight * node.loss;
        }
        while !block.real.len().is_multiple_of(LANES) {
            block.real.push(0.0);
            block.imaginary.push(0.0);
            block.turn_real.push(0.0);
            block.turn_imaginary.push(0.0);
        }
        block.error += self.rule_error * self.bound(size);
        block.error += self.left_out * (2.0 + 2.0 * size);
        if self.excess {
            block.error += self.rest_error * size;
        }
    }

    /// Bound on the integral of the absolute integrand on the real axis, over `e^scale`.
    fn bound(&self, size: f64) -> f64 {
        if self.excess {
            // |m e^{sL}|, 1 or m, and s times at most two changes of mass at most 2q.
            EXCESS.exp() + 1.0 + 4.0 * self.pair.rate * (1.0 + size)
        } else {
            1.0 + 1e-6
        }
    }

    fn fill(&self, out: &mut [Entry]) {
        let mut block = Block::default();
        let mut from = 0;
        while from < out.len() {
            let length = if from < 512 { 64 } else { 128 };
            let to = (from + length).min(out.len());
            self.block(from, to, &mut block);
            let size = self.argument(to).norm();
            for (k, entry) in (from..to).zip(&mut out[from..to]) {
                let s = self.argument(k);
                let mut sum = advance(&mut block);
                if self.excess {
                    let unit = s.scale(1.0 / size);
                    let mut series = Complex64::default();
                    for j in (2..=TERMS).rev() {
                        series = block.series[j] + series * unit;
                    }
                    sum = sum - block.mass - s * block.mean + series * unit * unit + s * self.rest;
                }
                self.enter(sum, block.error, entry);
            }
            from = to;
        }
    }

    /// Adds `count log M` to the entry.
    fn enter(&self, sum: Complex64, error: f64, entry: &mut Entry) {
        let moment = if self.excess {
            sum + Complex64::new(1.0, 0.0)
        } else {
            sum
        };
        let size = moment.norm();
        let relative = error / size;
        if !(relative < 0.1) {
            // Nothing but a bound on the size is known.
            entry.ln.re += self.count * (self.scale + (size + error).ln());
            entry.unknown = true;
            return;
        }
        let ln = if self.excess { ln_1p(sum) } else { sum.ln() };
        let ln = ln + Complex64::new(self.scale, 0.0);
        entry.ln += ln.scale(self.count);
        entry.error += self.count * (relative / (1.0 - relative) + 8.0 * ULP * ln.norm());
    }
}

const LANES: usize = 4;

/// The sum over the nodes, which are then turned on by one step.
fn advance(block: &mut Block) -> Complex64 {
    let mut sum_real = [0.0; LANES];
    let mut sum_imaginary = [0.0; LANES];
    let nodes = block
        .real
        .chunks_exact_mut(LANES)
        .zip(block.imaginary.chunks_exact_mut(LANES))
        .zip(
            block
                .turn_real
                .chunks_exact(LANES)
                .zip(block.turn_imaginary.chunks_exact(LANES)),
        );
    for ((real, imaginary), (turn_real, turn_imaginary)) in nodes {
        for lane in 0..LANES {
            let (re, im) = (real[lane], imaginary[lane]);
            let (a, b) = (turn_real[lane], turn_imaginary[lane]);
            sum_real[lane] += re;
            sum_imaginary[lane] += im;
            real[lane] = re * a - im * b;
            imaginary[lane] = re * b + im * a;
        }
    }
    Complex64::new(sum_real.iter().sum(), sum_imaginary.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::super::pair::Direction;
    use super::*;

    const CASES: [(Direction, f64, f64, f64, f64); 8] = [
        (Direction::Remove, 0.01, 1.0, 1e4, 3.0),
        (Direction::Remove, 1e-5, 0.4, 1e5, 1.7),
        (Direction::Remove, 0.5, 0.3, 10.0, 0.4),
        (Direction::Remove, 0.9, 4.0, 200.0, 2.0),
        (Direction::Add, 0.01, 1.0, 1e4, 5.0),
        (Direction::Add, 0.9, 0.5, 3.0, 2.0),
        (Direction::Replace, 0.02, 2.0, 500.0, 9.0),
        (Direction::Replace, 0.6, 0.7, 20.0, 1.0),
    ];

    /// The plain definition, on a fine grid of the real axis.
    fn direct(pair: &Pair, s: Complex64) -> Complex64 {
        let step = 0.002 * pair.sigma.min(1.0);
        let end = ((1.0 + 2.0 * s.re) / pair.sigma + 12.0) / step;
        let mut sum = Complex64::default();
        for k in -(end as i64)..=(end as i64) {
            let node = pair.node(k as f64 * step, 0.0, step);
            // On the real axis the add direction's conjugate is no different.
            let z = s.scale(node.loss.re);
            sum += polar(node.ln_weight + z.re, z.im);
        }
        sum
    }

    #[test]
    fn tables_agree_with_the_definition() {
        for (direction, rate, sigma, count, theta) in CASES {
            let pair = Pair {
                direction,
                rate,
                sigma,
            };
            let mut sampled = Sampled::new(pair, count).unwrap();
            sampled.extend(theta).unwrap();
            for h in [0.05, 0.9] {
                let mut entries = vec![Entry::default(); 150];
                sampled.table(theta, h, &mut entries).unwrap();
                for k in [0, 1, 2, 17, 63, 64, 149] {
                    let truth = direct(&pair, Complex64::new(theta, k as f64 * h));
                    let entry = entries[k];
                    if entry.unknown {
                        continue;
                    }
                    let got = entry.ln.scale(1.0 / count).exp();
                    let error = (got - truth).norm() / truth.norm();
                    // The sum on the real axis cancels; it is good to this itself.
                    let own = 1e-13 * direct(&pair, Complex64::new(theta, 0.0)).re / truth.norm();
                    assert!(
                        error <= entry.error / count + own,
                        "{pair:?} {h} {k}: {error:e}, bound {:e}, own {own:e}",
                        entry.error / count
                    );
                }
            }
        }
    }

    #[test]
    fn nothing_exceeds_its_bound() {
        for (direction, rate, sigma, count, theta) in CASES {
            let pair = Pair {
                direction,
                rate,
                sigma,
            };
            let mut sampled = Sampled::new(pair, count).unwrap();
            sampled.extend(theta).unwrap();
            sampled.prepare_decay(theta).unwrap();
            for h in [0.01, 0.3, 5.0] {
                let mut entries = vec![Entry::default(); 400];
                sampled.table(theta, h, &mut entries).unwrap();
                let mut bound = 0.0_f64;
                for (k, entry) in entries.iter().enumerate() {
                    // A bound holds from its argument on.
                    bound = bound.min(sampled.ln_decay(k as f64 * h));
                    let size = entry.ln.re - entries[0].ln.re;
                    assert!(
                        entry.unknown || size <= bound + entry.error + 1e-9 * count.sqrt(),
                        "{pair:?} {h} {k}: {size} above {bound}"
                    );
                }
            }
        }
    }
}
