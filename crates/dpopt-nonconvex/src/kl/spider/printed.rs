//! Schedules in print: phases as short as the paper's, with and without its constants.

use super::budget::Draft;
use super::search::Search;

/// a and b of the paper.
const PRINTED: (f64, f64) = (0.25, 0.125);
/// a and b of the paper's phases under a geometric budget.
const GEOMETRIC: (f64, f64) = (0.5, 0.25);

/// Phases of a plan at most: more are not kept in memory.
const MOST_PHASES: usize = 1_000_000;

/// A schedule with the squared mu of each phase and the share of its anchor; or the bound that is not below F0.
type Schedule = Result<(Vec<Draft>, Vec<f64>, Option<f64>), f64>;

impl Search<'_> {
    /// D = a (1 - 2b) - a^2/2: what a step takes off at least, in units of G^2/L, where the estimate is not short.
    fn decrease((step, error): (f64, f64)) -> f64 {
        step * (1.0 - 2.0 * error) - 0.5 * step * step
    }

    fn plain(&self, (step, error): (f64, f64), target: f64, updates: f64) -> Draft {
        let gradient = self.kl.gradient_norm_at(target);
        let step_length = step * gradient / self.smoothness;
        let facts = self.facts;
        Draft {
            target,
            updates,
            step_length,
            stop_below: (1.0 - error) * gradient,
            allowed_error: error * gradient,
            anchor: facts.noise_std(facts.lipschitz, 1.0),
            variation: facts.noise_std(
                (facts.smoothness * step_length).min(2.0 * facts.lipschitz),
                1.0,
            ),
        }
    }

    /// (F0/Phi)^((2 - kappa)/kappa), the paper's phase length.
    fn printed_length(&self, target: f64) -> f64 {
        let kappa = self.kl.kappa();
        (self.facts.initial_gap / target).powf((2.0 - kappa) / kappa)
    }

    /// Contraction c = 1 + D/condition and lengths of the paper, a budget in proportion to what each phase needs, as
    /// many phases as it pays for.
    pub(super) fn paper_phases(&self) -> Schedule {
        let gap = self.facts.initial_gap;
        let ratio =
            1.0 + Self::decrease(GEOMETRIC) / self.kl.condition_number(self.smoothness, gap);
        let root = (self.facts.dim as f64).sqrt();
        let (mut drafts, mut needs, mut steps, mut total) = (Vec::new(), Vec::new(), 0.0, 0.0);
        let mut kept = 0;
        loop {
            let target = gap * ratio.powf(-(drafts.len() as f64 + 1.0));
            // A fraction of 1 that rounding added is no step.
            let updates = (self.printed_length(target) * (1.0 - 1e-12))
                .ceil()
                .max(1.0);
            let draft = self.plain(GEOMETRIC, target, updates);
            let need =
                ((draft.anchor + (updates - 1.0) * draft.variation) / draft.allowed_error).powi(2);
            steps += updates;
            total += need;
            drafts.push(draft);
            needs.push(need);
            let q = root + (2.0 * (2.0 * drafts.len() as f64 / self.failure).ln()).sqrt();
            let cost = q * q * total;
            let long = steps > self.max_steps as f64 || drafts.len() > MOST_PHASES;
            // A ratio that rounds to 1 goes nowhere.
            if cost <= self.mu * self.mu && !long && target > 0.0 && target < gap {
                kept = drafts.len();
                continue;
            }
            if kept == 0 {
                let bound = target * (cost / (self.mu * self.mu)).powf(0.5 * self.kl.kappa());
                return Err(self.refused(bound));
            }
            break;
        }
        drafts.truncate(kept);
        needs.truncate(kept);
        total = needs.iter().sum();
        let squared = needs
            .iter()
            .map(|need| self.mu * self.mu * need / total)
            .collect();
        Ok((drafts, squared, None))
    }

    /// The printed schedule: K, c, T_k, the floor, one share of the budget for each phase, half of it for the anchor. Its noise
    /// is what those shares give for the true sensitivities, and whether the errors are then as the proof needs is checked here.
    pub(super) fn paper_constants(&self) -> Schedule {
        let (facts, kl) = (self.facts, self.kl);
        let (gap, dim) = (facts.initial_gap, facts.dim as f64);
        let (gamma, kappa) = (kl.gamma(), kl.kappa());
        let condition = kl.condition_number(self.smoothness, gap);
        let ratio = 1.0 + 1.0 / (64.0 * condition);
        // n sqrt(rho), with rho = mu^2/2.
        let size = facts.records as f64 * self.mu / std::f64::consts::SQRT_2;
        let log = gap.ln() + kappa * (size / (gamma * facts.lipschitz * dim.sqrt())).ln();
        let count = ((1.0 + 64.0 * condition) * log).ceil();
        if !(count >= 1.0) {
            return Err(f64::INFINITY);
        }
        let noise = gamma * facts.lipschitz * (count * dim).sqrt() / size;
        let chance = self.failure / count * (noise / gap.powf(kappa.recip())).powf(2.0 - kappa);
        let floor = (32.0 * noise * (1.0 / chance).ln().sqrt()).powf(kappa);
        if !(floor <= gap) || count > (self.max_steps as f64).min(MOST_PHASES as f64) {
            return Err(self.refused(floor));
        }
        let squared_mu = self.mu * self.mu / count;
        let q = dim.sqrt() + (2.0 * (2.0 * count / self.failure).ln()).sqrt();
        let mut drafts: Vec<Draft> = Vec::new();
        let mut steps = 0.0;
        for _ in 0..count as u64 {
            let before = drafts.last().map_or(gap, |draft| draft.target);
            let target = (before / ratio).max(floor);
            let updates = (self.printed_length(target) * (1.0 - 1e-12))
                .ceil()
                .max(1.0);
            let draft = self.plain(PRINTED, target, updates);
            let variations = (updates - 1.0) * draft.variation;
            let parts = if variations > 0.0 { 2.0 } else { 1.0 };
            let variance = parts * (draft.anchor.powi(2) + variations.powi(2)) / squared_mu;
            steps += updates;
            if !(q * variance.sqrt() <= draft.allowed_error) || steps > self.max_steps as f64 {
                return Err(gap);
            }
            drafts.push(draft);
        }
        let squared = vec![squared_mu; drafts.len()];
        Ok((drafts, squared, Some(0.5)))
    }
}
