//! What all cases share: records, points, and what is noted of a run.

use std::num::NonZeroUsize;

use dpopt_linalg::Design;
use dpopt_oracle::{
    Batch, Counts, Differentiable, Estimate, Glm, Level, Mean, Number, PrivateData, PrivateMean,
};
use dpopt_privacy::{Adjacency, ClipNorm, Curator, Epsilon, Event, NoiseMultiplier, Spend};

use crate::ranks;
use crate::table::{Hash, Table};

pub(crate) const RECORDS: usize = 300;
pub(crate) const DIM: usize = 5;
pub(crate) const LOSS: Glm = Glm::Logistic;
pub(crate) const ADJACENCIES: [Adjacency; 3] = [
    Adjacency::ReplaceOne,
    Adjacency::ZeroOut,
    Adjacency::AddRemove,
];
const SEED: u64 = 23;

pub(crate) fn z(multiplier: f64) -> NoiseMultiplier {
    NoiseMultiplier::new(multiplier).unwrap()
}

pub(crate) fn clip(radius: f64) -> ClipNorm {
    ClipNorm::new(radius).unwrap()
}

pub(crate) fn level(batch: Batch, multiplier: f64) -> Level {
    Level {
        batch,
        noise_multiplier: z(multiplier),
    }
}

/// A batch in the names of cases.
pub(crate) fn batch_name(batch: Batch) -> String {
    match batch {
        Batch::All => "everything".to_owned(),
        Batch::Poisson(rate) => format!("poisson {}", rate.get()),
        Batch::FixedSize(size) => format!("fixed size {size}"),
        Batch::Next(len) => format!("next {len}"),
        Batch::PerLength(rate) => format!("per length {rate}"),
        Batch::Held(len) => format!("held {len}"),
        other => panic!("no name for {other:?}"),
    }
}

/// Numbers in [-1, 1), the same ones each time.
pub(crate) fn uniforms(mut state: u64) -> impl FnMut() -> f64 {
    move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}

/// Points on a path; the third is the second again.
pub(crate) fn points(dim: usize) -> Vec<Vec<f64>> {
    let mut next = uniforms(7);
    let mut all = vec![vec![0.0; dim]];
    for t in 1..9 {
        let step = |w: &f64| w + 0.3 * next();
        let point = all[t - 1].iter().map(step).collect();
        all.push(if t == 2 { all[1].clone() } else { point });
    }
    all
}

/// Rows of norm at most 1, but one in 20 that is longer.
pub(crate) fn rows() -> Vec<[f64; DIM]> {
    let mut next = uniforms(5);
    let row = |i: usize| {
        let scale = if i.is_multiple_of(20) { 2.0 } else { 0.4 };
        std::array::from_fn(|_| scale * next())
    };
    (0..RECORDS).map(row).collect()
}

pub(crate) fn labels() -> Vec<f32> {
    (0..RECORDS)
        .map(|i| if i.is_multiple_of(3) { 1.0 } else { -1.0 })
        .collect()
}

pub(crate) fn declared(adjacency: Adjacency) -> Option<u64> {
    (adjacency == Adjacency::AddRemove).then_some(RECORDS as u64)
}

pub(crate) fn stored(design: Design, labels: Vec<f32>, adjacency: Adjacency) -> PrivateData {
    let own = ranks::rows(labels.len());
    let at: Vec<u32> = own.clone().map(|i| i as u32).collect();
    let (design, labels) = (design.gathered(&at), labels[own].to_vec());
    let data = PrivateData::made_up(design, labels, clip(1.0), adjacency, declared(adjacency));
    ranks::joined(data.unwrap())
}

pub(crate) fn data(adjacency: Adjacency) -> PrivateData {
    stored(
        Design::dense(DIM, rows().concat()).unwrap(),
        labels(),
        adjacency,
    )
}

pub(crate) fn curator(adjacency: Adjacency) -> Curator {
    ranks::curator(Curator::simulated(adjacency, SEED))
}

pub(crate) fn means<L: Differentiable>(
    data: &PrivateData<L::Records>,
    loss: L,
    threads: NonZeroUsize,
) -> PrivateMean<'_, L> {
    PrivateMean::new(data, loss, curator(data.adjacency()))
        .unwrap()
        .with_threads(threads)
}

/// More than the case may spend, with a selection.
pub(crate) fn with_selection(spend: Spend, epsilon: Epsilon) -> Spend {
    let selection = Event::ExponentialMechanism { epsilon };
    Spend::Fixed(Event::composed(vec![spend.event().clone(), selection]))
}

/// What a run released so far.
pub(crate) struct Told(Hash);

impl Told {
    pub(crate) fn new() -> Self {
        Self(Hash::new())
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.0.text(text);
    }

    pub(crate) fn numbers(&mut self, numbers: &[f64]) {
        self.0.numbers(numbers);
    }

    pub(crate) fn mean(&mut self, mean: &Mean) {
        self.numbers(&mean.mean);
        self.numbers(&[mean.noise_std]);
    }

    pub(crate) fn number(&mut self, number: Number) {
        self.numbers(&[number.number, number.noise_std]);
    }

    pub(crate) fn estimate(&mut self, estimate: Estimate<'_>) {
        self.numbers(estimate.gradient);
        self.numbers(&[estimate.noise_std, estimate.release_std]);
    }

    /// Ends the run: a line of the table.
    pub(crate) fn line(
        self,
        table: &mut Table,
        name: &str,
        adjacency: Adjacency,
        spent: &Event,
        counts: Counts,
    ) {
        let mut counted = Hash::new();
        counted.numbers(&[
            counts.releases as f64,
            counts.records,
            counts.gradients,
            counts.values,
            counts.passes,
        ]);
        table.line(&[
            name.to_owned(),
            adjacency.to_string(),
            self.0.to_string(),
            Hash::of(&serde_json::to_string(spent).unwrap()).to_string(),
            counted.to_string(),
        ]);
    }
}
