//! The ledger worked out again: what a run cost, from the noise that was really drawn.
//!
//! Nothing here composes events or asks an accountant. The multiplier of each release comes from the
//! standard deviation of its noise and the bound on a contribution, squares of 1/z are added up per slice, and
//! sampled releases are integrated on their own. The audit compares the result with what the curator
//! says was spent.

use std::collections::{BTreeMap, BTreeSet};

use dpopt_privacy::accounting::{AccountingError, costs};
use dpopt_privacy::{
    Adjacency, Event, Participation, PrefixKind, ReplayedMechanism, ReplayedReads, ReplayedRelease,
    SampleOf,
};

/// Orders at which Renyi divergences are compared.
const ORDERS: [f64; 3] = [1.5, 4.0, 16.0];
/// Longest period whose patterns of participation are all tried.
const ALL_PATTERNS: u64 = 14;

/// What the releases of a run cost.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct OwnCost {
    /// Squared mu of the Gaussian releases as if nothing were sampled: those on all records and on samples,
    /// and those of the dearest slice.
    pub unsampled_squared_mu: f64,
    /// The same without the releases on samples.
    pub squared_mu: f64,
    /// Rate and noise multiplier of each release on a Poisson sample.
    pub poisson: Vec<(f64, f64)>,
    /// Releases on samples of fixed size, on samples with a largest batch, and at steps of allocations: they are counted, and what one costs is
    /// left to the accountants.
    pub fixed_size: u64,
    /// Sum of the epsilons of selections.
    pub epsilon: f64,
    /// Whether a release was charged by an upper bound that is not attained: trees whose records take part
    /// more than once and not always.
    pub loose: bool,
    /// What is wrong with single releases: less noise than their event says.
    pub problems: Vec<String>,
}

/// The cost of these releases.
#[must_use]
pub fn own_cost(releases: &[ReplayedRelease], adjacency: Adjacency) -> OwnCost {
    let mut cost = OwnCost::default();
    let mut slices: BTreeMap<u64, f64> = BTreeMap::new();
    let mut slice_samples: BTreeMap<u64, Samples> = BTreeMap::new();
    let mut sampled = 0.0;
    let mut allocations = Allocations::default();
    for (number, release) in releases.iter().enumerate() {
        let Some(z) = noise_multiplier(release, adjacency) else {
            let epsilon = release.radius_steps / release.noise_steps;
            if let Some(charged) = charged_epsilon(&release.charged)
                && epsilon > charged * (1.0 + 1e-9)
            {
                cost.problems.push(format!(
                    "selection {number} is drawn at epsilon {epsilon}, charged at {charged}"
                ));
            }
            cost.epsilon += epsilon;
            continue;
        };
        if let Some(charged) = charged_multiplier(release)
            && z < charged * (1.0 - 1e-9)
        {
            cost.problems.push(format!(
                "release {number} has noise of multiplier {z}, charged as {charged}"
            ));
        }
        cost.loose |= matches!(
            release.mechanism,
            ReplayedMechanism::Prefix {
                kind: PrefixKind::Tree | PrefixKind::Honaker,
                participation: Participation::Repeated { .. },
                ..
            }
        );
        let square = 1.0 / (z * z);
        match &release.reads {
            ReplayedReads::Poisson(rate) => {
                cost.poisson.push((rate.get(), z));
                sampled += square;
            }
            ReplayedReads::FixedSize { .. } | ReplayedReads::Truncated { .. } => {
                cost.fixed_size += 1;
                sampled += square;
            }
            ReplayedReads::Allocated { number, step } => {
                cost.fixed_size += 1;
                sampled += square;
                if let Some(problem) = allocations.note(*number, *step, &release.charged) {
                    cost.problems.push(problem);
                }
            }
            ReplayedReads::Slices(numbers) => {
                for slice in numbers {
                    *slices.entry(*slice).or_default() += square;
                }
            }
            ReplayedReads::Sampled(slice, drawn) => {
                let samples = slice_samples.entry(*slice).or_default();
                let wrong = samples.note(z, *drawn, &release.charged, &mut allocations);
                cost.problems.extend(wrong);
            }
            ReplayedReads::SampledSteps(steps) => {
                for (slice, drawn) in steps {
                    let charged = drawn.event(release.charged.clone());
                    let samples = slice_samples.entry(*slice).or_default();
                    let wrong = samples.note(z, *drawn, &charged, &mut allocations);
                    cost.problems.extend(wrong);
                }
            }
            _ => cost.squared_mu += square,
        }
    }
    cost.squared_mu += slices.values().copied().fold(0.0, f64::max);
    // No run here reads some slices whole and samples others.
    let dearest = slice_samples
        .into_values()
        .max_by(|a, b| a.square.total_cmp(&b.square))
        .unwrap_or_default();
    cost.unsampled_squared_mu = cost.squared_mu + sampled + dearest.square;
    cost.poisson.extend(dearest.poisson);
    cost.fixed_size += dearest.allocated;
    cost
}

/// The samples of one slice.
#[derive(Default)]
struct Samples {
    /// Squared mu as if nothing were sampled.
    square: f64,
    /// Rate and noise multiplier of Poisson samples.
    poisson: Vec<(f64, f64)>,
    /// Steps of allocations.
    allocated: u64,
}

impl Samples {
    /// What is wrong with one more.
    fn note(
        &mut self,
        z: f64,
        drawn: SampleOf,
        charged: &Event,
        allocations: &mut Allocations,
    ) -> Option<String> {
        self.square += 1.0 / (z * z);
        match drawn {
            SampleOf::Poisson(rate) => self.poisson.push((rate.get(), z)),
            SampleOf::Allocated { number, step, .. } => {
                self.allocated += 1;
                return allocations.note(number, step, charged);
            }
            _ => return Some(format!("a sample that is not known: {drawn:?}")),
        }
        None
    }
}

/// The steps of allocations that were released.
#[derive(Default)]
struct Allocations(BTreeMap<u64, (Event, BTreeSet<u64>)>);

impl Allocations {
    /// What is wrong with one more step.
    fn note(&mut self, number: u64, step: u64, charged: &Event) -> Option<String> {
        let Event::RandomAllocation { num_steps, .. } = charged else {
            return Some(format!("a step of an allocation was charged as {charged}"));
        };
        let (event, steps) = self
            .0
            .entry(number)
            .or_insert_with(|| (charged.clone(), BTreeSet::new()));
        let fits = step < *num_steps && event == charged && steps.insert(step);
        (!fits).then(|| {
            format!(
                "step {step} of allocation {number} was released twice, or is none of {charged}"
            )
        })
    }
}

impl OwnCost {
    /// What disagrees with `spent`, what the curator says was spent on these releases.
    ///
    /// # Errors
    /// The accountants' refusals.
    pub fn disagreements(
        &self,
        spent: &Event,
        releases: &[ReplayedRelease],
        adjacency: Adjacency,
    ) -> Result<Vec<String>, AccountingError> {
        let mut problems = self.problems.clone();
        if holds_tuning(spent) {
            // What the inner runs cost is not the sum of what they released.
            return Ok(problems);
        }
        let charged = charges(releases);
        let mut booked = booked(spent);
        for (event, times) in charged {
            let at = booked.iter().position(|(known, _)| *known == event);
            let found = at.map_or(0, |at| booked.swap_remove(at).1);
            if found != times {
                problems.push(format!(
                    "{event} was made {times} times and booked {found} times"
                ));
            }
        }
        for (event, times) in booked {
            problems.push(format!("{event} was booked {times} times and never made"));
        }
        let selections = self.epsilon > 0.0;
        if self.poisson.is_empty() && self.fixed_size == 0 && !selections {
            let theirs = costs::squared_mu(spent, adjacency)?;
            // Where the charge is a bound only, it must cover ours.
            let theirs = if self.loose && theirs > self.squared_mu {
                self.squared_mu
            } else {
                theirs
            };
            compare("squared mu", self.squared_mu, theirs, 1e-8, &mut problems);
        } else if !selections && self.fixed_size == 0 {
            for order in ORDERS {
                let mut own = order * self.squared_mu / 2.0;
                let mut known: Vec<((f64, f64), f64)> = Vec::new();
                for &(rate, z) in &self.poisson {
                    let at = known.iter().position(|(key, _)| *key == (rate, z));
                    let at = at.unwrap_or_else(|| {
                        let divergence = sampled_divergence(rate, z, order, adjacency);
                        known.push(((rate, z), divergence));
                        known.len() - 1
                    });
                    own += known[at].1;
                }
                let theirs = costs::renyi(spent, order, adjacency)?;
                let what = format!("Renyi divergence at {order}");
                compare(&what, own, theirs, 1e-6, &mut problems);
            }
        }
        Ok(problems)
    }
}

/// Whether the library's number covers ours, and is not far above it.
fn compare(what: &str, own: f64, theirs: f64, tolerance: f64, problems: &mut Vec<String>) {
    if own > theirs * (1.0 + tolerance) {
        problems.push(format!(
            "{what} is {own}, more than the {theirs} of the ledger"
        ));
    } else if theirs > own * (1.0 + tolerance) + 1e-12 {
        problems.push(format!("{what} is {own}, and the ledger says {theirs}"));
    }
}

/// Noise over sensitivity, from what was drawn; none for a selection.
fn noise_multiplier(release: &ReplayedRelease, adjacency: Adjacency) -> Option<f64> {
    // One record comes, goes, or comes in the place of another that may be its opposite.
    let records = match adjacency {
        Adjacency::ReplaceOne => 2.0,
        _ => 1.0,
    };
    let sensitivity = match release.mechanism {
        ReplayedMechanism::Sum => records * release.radius_steps,
        // Two neighbouring norms are rounded each on its own.
        ReplayedMechanism::Norm => records * (release.radius_steps + 1.0),
        ReplayedMechanism::Prefix {
            kind,
            len,
            participation,
            ..
        } => records * release.radius_steps * column_norm(kind, len, participation),
        _ => return None,
    };
    Some(release.noise_steps / sensitivity)
}

/// The multiplier that the release was charged with, where the event has one for the whole release. (That
/// of a tree is a node's, and is compared through the total.)
fn charged_multiplier(release: &ReplayedRelease) -> Option<f64> {
    fn of(event: &Event) -> Option<f64> {
        match event {
            Event::Gaussian { noise_multiplier } => Some(noise_multiplier.get()),
            Event::TruncatedSubsampledGaussian {
                noise_multiplier, ..
            } => Some(noise_multiplier.get()),
            Event::PoissonSampled { event, .. }
            | Event::RandomAllocation { event, .. }
            | Event::SampledWithoutReplacement { event, .. } => of(event),
            _ => None,
        }
    }
    of(&release.charged)
}

fn charged_epsilon(event: &Event) -> Option<f64> {
    match event {
        Event::ExponentialMechanism { epsilon }
        | Event::PermuteAndFlip { epsilon }
        | Event::AboveThreshold { epsilon }
        | Event::ReportNoisyMax { epsilon } => Some(epsilon.get()),
        _ => None,
    }
}

/// What the releases were charged as, with how often: on slices, how often the slice that was charged
/// most often.
fn charges(releases: &[ReplayedRelease]) -> Vec<(Event, u64)> {
    let mut whole: Vec<(Event, u64)> = Vec::new();
    let mut sliced: Vec<(Event, BTreeMap<u64, u64>)> = Vec::new();
    let mut begun: BTreeSet<u64> = BTreeSet::new();
    let first = |drawn: &SampleOf, begun: &mut BTreeSet<u64>| match drawn {
        SampleOf::Allocated { number, .. } => begun.insert(*number),
        _ => true,
    };
    for release in releases {
        let event = &release.charged;
        // An allocation is paid for once.
        if let ReplayedReads::Allocated { number, .. } = &release.reads
            && !begun.insert(*number)
        {
            continue;
        }
        let on_slices: Option<Vec<(u64, Event)>> = match &release.reads {
            ReplayedReads::Slices(numbers) => {
                Some(numbers.iter().map(|&n| (n, event.clone())).collect())
            }
            ReplayedReads::Sampled(number, drawn) => {
                let pays = first(drawn, &mut begun);
                Some(pays.then(|| (*number, event.clone())).into_iter().collect())
            }
            ReplayedReads::SampledSteps(steps) => {
                let paid = steps.iter().filter(|(_, drawn)| first(drawn, &mut begun));
                let one = |&(n, drawn): &(u64, SampleOf)| (n, drawn.event(event.clone()));
                Some(paid.map(one).collect())
            }
            _ => None,
        };
        if let Some(on_slices) = on_slices {
            for (number, event) in on_slices {
                let at = sliced.iter().position(|(known, _)| *known == event);
                let at = at.unwrap_or_else(|| {
                    sliced.push((event, BTreeMap::new()));
                    sliced.len() - 1
                });
                *sliced[at].1.entry(number).or_default() += 1;
            }
        } else if let Some((_, times)) = whole.iter_mut().find(|(known, _)| known == event) {
            *times += 1;
        } else {
            whole.push((event.clone(), 1));
        }
    }
    let most = |times: BTreeMap<u64, u64>| times.into_values().max().unwrap_or(0);
    let sliced = sliced
        .into_iter()
        .map(|(event, times)| (event, most(times)));
    whole.extend(sliced.filter(|(_, times)| *times > 0));
    whole
}

/// The leaves of what was booked, those of slices taken from the slice that has most of each.
fn booked(spent: &Event) -> Vec<(Event, u64)> {
    let mut out: Vec<(Event, u64)> = Vec::new();
    for (leaf, count) in spent.leaves() {
        let Event::ParallelComposed { events } = &leaf else {
            out.push((leaf, count));
            continue;
        };
        let mut most: Vec<(Event, u64)> = Vec::new();
        for (inner, times) in events.iter().flat_map(Event::leaves) {
            match most.iter_mut().find(|(known, _)| *known == inner) {
                Some((_, known)) => *known = times.max(*known),
                None => most.push((inner, times)),
            }
        }
        out.extend(most);
    }
    out
}

fn holds_tuning(event: &Event) -> bool {
    let leaves = event.leaves();
    leaves
        .iter()
        .any(|(leaf, _)| matches!(leaf, Event::RepeatAndSelect { .. }))
}

/// By how much one record can move C x, all its steps being of size 1: from the matrix C itself, over all
/// patterns of participation for short periods, else the pattern of first steps.
fn column_norm(kind: PrefixKind, len: u64, participation: Participation) -> f64 {
    let columns = encoder(kind, len as usize);
    let (most, apart) = match participation {
        Participation::Single | Participation::Sampled { .. } => (1, len),
        Participation::Repeated { most, apart } => (most, apart),
        _ => (len, 1),
    };
    let norm = |steps: &[u64]| -> f64 {
        let mut sum = vec![0.0; columns.first().map_or(0, Vec::len)];
        for &step in steps {
            for (sum, c) in sum.iter_mut().zip(&columns[step as usize]) {
                *sum += c;
            }
        }
        sum.iter().map(|x| x * x).sum::<f64>().sqrt()
    };
    if len > ALL_PATTERNS {
        let steps: Vec<u64> = (0..len)
            .step_by(apart as usize)
            .take(most as usize)
            .collect();
        return norm(&steps);
    }
    (1_u64..1 << len)
        .map(|pattern| {
            (0..len)
                .filter(|t| pattern >> t & 1 == 1)
                .collect::<Vec<u64>>()
        })
        .filter(|steps| {
            steps.len() as u64 <= most && steps.windows(2).all(|pair| pair[1] - pair[0] >= apart)
        })
        .map(|steps| norm(&steps))
        .fold(0.0, f64::max)
}

/// The columns of C, one for each step.
fn encoder(kind: PrefixKind, len: usize) -> Vec<Vec<f64>> {
    let band = match kind {
        PrefixKind::Independent => 1,
        PrefixKind::Banded { band } => (band as usize).min(len),
        PrefixKind::Toeplitz => len,
        PrefixKind::Tuned(factor) => return columns(&factor.coefficients(), len),
        _ => return tree(kind == PrefixKind::Honaker, len),
    };
    // Coefficients of (1 - x)^(-1/2).
    let mut root = vec![1.0];
    for k in 1..band {
        root.push(root[k - 1] * (1.0 - 0.5 / k as f64));
    }
    columns(&root, len)
}

/// Those of a Toeplitz matrix with this first column.
fn columns(first: &[f64], len: usize) -> Vec<Vec<f64>> {
    (0..len)
        .map(|step| {
            let at = |row: usize| row.checked_sub(step).and_then(|k| first.get(k));
            (0..len)
                .map(|row| at(row).copied().unwrap_or(0.0))
                .collect()
        })
        .collect()
}

/// Which released nodes hold a step: blocks of 2^h steps that end by `len`, all of them or those that no
/// later prefix can do without.
fn tree(all: bool, len: usize) -> Vec<Vec<f64>> {
    let mut nodes = Vec::new();
    let mut size = 1;
    while size <= len {
        for (number, start) in (0..len).step_by(size).enumerate() {
            // A right half is never used: its parent, which ends with it, is.
            if start + size <= len && (all || number % 2 == 0) {
                nodes.push(start..start + size);
            }
        }
        size *= 2;
    }
    (0..len)
        .map(|step| {
            nodes
                .iter()
                .map(|node| f64::from(u8::from(node.contains(&step))))
                .collect()
        })
        .collect()
}

/// Renyi divergence of one sampled release, by Simpson's rule.
///
/// # Formula
/// log E_Q[(P/Q)^a]/(a - 1). Add-remove and zero-out: Q = N(0, z^2), P = (1 - q) Q + q N(1, z^2). Replace-one,
/// in units of half the sensitivity: (1 - q) N(0) + q N(1) against (1 - q) N(0) + q N(-1) at
/// deviation 2 z.
fn sampled_divergence(rate: f64, z: f64, order: f64, adjacency: Adjacency) -> f64 {
    let both = adjacency == Adjacency::ReplaceOne;
    let deviation = if both { 2.0 * z } else { z };
    let variance = deviation * deviation;
    let normal = |x: f64, mean: f64| -(x - mean).powi(2) / (2.0 * variance);
    let mixture = |x: f64, mean: f64| {
        let (rest, own) = (normal(x, 0.0), normal(x, mean));
        if rate >= 1.0 {
            return own;
        }
        let high = rest.max(own);
        high + ((1.0 - rate) * (rest - high).exp() + rate * (own - high).exp()).ln()
    };
    let density = |x: f64| {
        let p = mixture(x, 1.0);
        let q = if both {
            mixture(x, -1.0)
        } else {
            normal(x, 0.0)
        };
        order * p + (1.0 - order) * q
    };
    // The integrand has its mass between the means, moved by at most `order`.
    let (low, high) = (-order - 14.0 * deviation, order + 1.0 + 14.0 * deviation);
    let intervals = 8_000;
    let step = (high - low) / f64::from(intervals);
    let mut sum = 0.0;
    for i in 0..=intervals {
        let weight = match i {
            0 => 1.0,
            i if i == intervals => 1.0,
            i if i % 2 == 1 => 4.0,
            _ => 2.0,
        };
        sum += weight * density(low + step * f64::from(i)).exp();
    }
    let integral = sum * step / 3.0 / (2.0 * std::f64::consts::PI * variance).sqrt();
    integral.ln() / (order - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A rate of 1 is no sample: a/(2 z^2). And at order 2 the add-remove divergence is
    /// log(1 + q^2 (e^(1/z^2) - 1)).
    #[test]
    fn divergences_have_closed_forms() {
        for z in [0.8, 2.0, 5.0] {
            for order in ORDERS {
                for adjacency in [Adjacency::AddRemove, Adjacency::ReplaceOne] {
                    let own = sampled_divergence(1.0, z, order, adjacency);
                    let exact = order / (2.0 * z * z);
                    assert!((own / exact - 1.0).abs() < 1e-9, "{z} {order} {adjacency}");
                }
            }
            for q in [0.01_f64, 0.3] {
                let own = sampled_divergence(q, z, 2.0, Adjacency::ZeroOut);
                let exact = (q * q * (1.0 / (z * z)).exp_m1()).ln_1p();
                assert!((own / exact - 1.0).abs() < 1e-7, "{z} {q}");
            }
        }
    }

    /// By hand: 1, 1/2, 3/8; a leaf of the tree over four is in three nodes at most.
    #[test]
    fn encoders_are_those_of_the_definitions() {
        let norm = |kind, participation| column_norm(kind, 4, participation);
        let root = (1.0_f64 + 0.25 + 0.140_625 + 0.097_656_25).sqrt();
        assert!((norm(PrefixKind::Toeplitz, Participation::Single) - root).abs() < 1e-15);
        assert_eq!(norm(PrefixKind::Independent, Participation::Every), 2.0);
        assert!((norm(PrefixKind::Tree, Participation::Single) - 3f64.sqrt()).abs() < 1e-15);
        // All four steps: the nodes used are those of 1, 3, 1-2 and 1-4.
        assert!((norm(PrefixKind::Tree, Participation::Every) - 22f64.sqrt()).abs() < 1e-15);
        // And of all seven nodes: 4 + 2 * 4 + 16.
        assert!((norm(PrefixKind::Honaker, Participation::Every) - 28f64.sqrt()).abs() < 1e-15);
    }
}
