//! What the tests share: facts, budgets, a few records, and an oracle that is listened to.

use dpopt_linalg::{Design, dot};
use dpopt_nonconvex::{Budget, ExtraFacts, HessianFacts, KlCondition, PublicFacts};
use dpopt_oracle::{
    Answer, AskError, Books, Glm, Oracle, OracleFacts, PrivateData, PrivateMean, Question,
};
use dpopt_privacy::accounting::special::ndtr;
use dpopt_privacy::{Adjacency, ClipNorm, Curator, Delta, Epsilon, NoiseMultiplier};

pub(crate) const DELTA: f64 = 1e-5;

/// L0 = L1 = 1 and F0 = 1/2 under replace-one, of losses that are not convex.
pub(crate) fn facts(dim: usize, records: u64) -> PublicFacts {
    PublicFacts {
        initial_gap: 0.5,
        ..PublicFacts::unit(records, dim)
    }
}

/// The same under another adjacency.
pub(crate) fn facts_under(dim: usize, records: u64, adjacency: Adjacency) -> PublicFacts {
    PublicFacts {
        adjacency,
        ..facts(dim, records)
    }
}

/// At delta = 1e-5.
pub(crate) fn budget(epsilon: f64) -> Budget {
    budget_at(epsilon, DELTA)
}

pub(crate) fn budget_at(epsilon: f64, delta: f64) -> Budget {
    Budget {
        epsilon: Epsilon::new(epsilon).unwrap(),
        delta: Delta::new(delta).unwrap(),
    }
}

/// What every solver needs.
pub(crate) fn extra() -> ExtraFacts {
    // kappa = 2 is what both solvers under such a condition take.
    let kl = KlCondition::new(1.0, 2.0).unwrap();
    ExtraFacts::default()
        .with_radius(1.0)
        .with_kl(kl)
        .with_goldstein_radius(3.0)
        .with_hessian(HessianFacts {
            lipschitz: 0.1,
            frobenius: 1.0,
        })
}

pub(crate) fn z(value: f64) -> NoiseMultiplier {
    NoiseMultiplier::new(value).unwrap()
}

/// splitmix64, as numbers in [-1, 1).
pub(crate) fn uniforms(mut state: u64) -> impl FnMut() -> f64 {
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 10) as f64 / (1u64 << 53) as f64 - 1.0
    }
}

/// Of the few records.
pub(crate) const DIM: usize = 3;
pub(crate) const ROWS: usize = 60;
pub(crate) const LOSS: Glm = Glm::Welsch;

/// A few records; rows are at most sqrt(3)/2 long, so none is rescaled.
pub(crate) fn raw() -> (Vec<[f64; DIM]>, Vec<f32>) {
    let mut next = uniforms(7);
    let rows = (0..ROWS).map(|_| [0.5 * next(), 0.5 * next(), 0.5 * next()]);
    let rows: Vec<_> = rows.collect();
    let labels = rows
        .iter()
        .map(|x| (2.0 * x[0] - x[1] + 0.3 * next()) as f32)
        .collect();
    (rows, labels)
}

pub(crate) fn few(adjacency: Adjacency) -> PrivateData {
    let (rows, labels) = raw();
    let declared = (adjacency == Adjacency::AddRemove).then_some(ROWS as u64);
    let design = Design::dense(DIM, rows.concat()).unwrap();
    let bound = ClipNorm::new(1.0).unwrap();
    PrivateData::made_up(design, labels, bound, adjacency, declared).unwrap()
}

pub(crate) fn facts_of_few(adjacency: Adjacency) -> PublicFacts {
    PublicFacts::glm(ROWS as u64, DIM, adjacency, 1.0, LOSS.constants(1.0)).unwrap()
}

/// The gradient of the mean loss of the few records.
pub(crate) fn exact_gradient(point: &[f64]) -> Vec<f64> {
    let (rows, labels) = raw();
    let mut mean = vec![0.0; DIM];
    for (x, y) in rows.iter().zip(&labels) {
        let slope = LOSS.slope(dot(x, point), f64::from(*y));
        for (m, x) in mean.iter_mut().zip(x) {
            *m += slope * x / ROWS as f64;
        }
    }
    mean
}

pub(crate) fn estimator(data: &PrivateData, seed: u64) -> PrivateMean<'_, Glm> {
    PrivateMean::new(data, LOSS, Curator::simulated(data.adjacency(), seed)).unwrap()
}

/// Answers in the place of an oracle, which it may ask.
pub(crate) struct Through<O, F> {
    pub(crate) inner: O,
    answer: F,
}

impl<O, F> Through<O, F>
where
    O: Oracle,
    F: FnMut(&mut O, Question<'_>) -> Result<Answer, AskError>,
{
    pub(crate) fn new(inner: O, answer: F) -> Self {
        Self { inner, answer }
    }
}

impl<O, F> Oracle for Through<O, F>
where
    O: Oracle,
    F: FnMut(&mut O, Question<'_>) -> Result<Answer, AskError>,
{
    fn facts(&self) -> OracleFacts {
        self.inner.facts()
    }

    fn books(&mut self) -> &mut Books {
        self.inner.books()
    }

    fn answer(&mut self, question: Question<'_>) -> Result<Answer, AskError> {
        (self.answer)(&mut self.inner, question)
    }
}

/// Fails with probability at most 2e-6 for independent standard normal samples: the
/// Dvoretzky-Kiefer-Wolfowitz inequality with Massart's constant for the distribution function,
/// and Laurent and Massart's bounds for the sum of squares, at 1e-6 each.
pub(crate) fn is_standard_normal(samples: &[f64]) -> bool {
    let mut samples = samples.to_vec();
    let n = samples.len() as f64;
    samples.sort_by(f64::total_cmp);
    let gap = samples
        .iter()
        .enumerate()
        .map(|(i, x)| {
            let p = ndtr(*x);
            (p - i as f64 / n).max((i + 1) as f64 / n - p)
        })
        .fold(0.0, f64::max);
    let t = 2e6f64.ln();
    let squares = samples.iter().map(|x| x * x).sum::<f64>();
    let (low, high) = (n - 2.0 * (n * t).sqrt(), n + 2.0 * (n * t).sqrt() + 2.0 * t);
    gap < (t / (2.0 * n)).sqrt() && squares > low && squares < high
}
