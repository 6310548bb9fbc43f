//! What the tests share: units, a curator, and a loss without passes of its own.

use dpopt_linalg::Design;
use dpopt_oracle::{Constants, Differentiable, Example, Examples, Loss, TwiceDifferentiable};
use dpopt_privacy::{Adjacency, ClipNorm, Curator, Event, NoiseMultiplier, Spend};

pub(crate) fn z(value: f64) -> NoiseMultiplier {
    NoiseMultiplier::new(value).unwrap()
}

pub(crate) fn clip(value: f64) -> ClipNorm {
    ClipNorm::new(value).unwrap()
}

pub(crate) fn fixed(event: Event) -> Spend {
    Spend::Fixed(event)
}

/// With this reserved.
pub(crate) fn simulated(adjacency: Adjacency, seed: u64, event: Event) -> Curator {
    let mut curator = Curator::simulated(adjacency, seed);
    curator.reserve(&fixed(event)).unwrap();
    curator
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

/// The entries that are not 0.
pub(crate) fn sparse<'a>(columns: usize, rows: impl Iterator<Item = &'a [f64]>) -> Design {
    let mut design = Design::sparse(columns).unwrap();
    for row in rows {
        let entries = (0..).zip(row).filter(|(_, x)| **x != 0.0);
        let entries: Vec<(u32, f32)> = entries.map(|(j, x)| (j, *x as f32)).collect();
        design.push_row(&entries).unwrap();
    }
    design
}

/// The same loss without passes of its own: every record's gradient is formed, clipped and rounded.
pub(crate) struct OneByOne<L>(pub(crate) L);

impl<L: Loss<Records = Examples>> Loss for OneByOne<L> {
    type Records = Examples;
    fn dim(&self, records: &Examples) -> usize {
        self.0.dim(records)
    }
    fn constants_on(&self, records: &Examples) -> Constants {
        self.0.constants_on(records)
    }
    fn value(&self, record: Example<'_>, point: &[f64]) -> f64 {
        Loss::value(&self.0, record, point)
    }
}

impl<L: Differentiable<Records = Examples>> Differentiable for OneByOne<L> {
    fn gradient(&self, record: Example<'_>, point: &[f64], out: &mut [f64]) {
        self.0.gradient(record, point, out);
    }
}

impl<L: TwiceDifferentiable<Records = Examples>> TwiceDifferentiable for OneByOne<L> {
    fn hessian_vector(
        &self,
        record: Example<'_>,
        point: &[f64],
        direction: &[f64],
        out: &mut [f64],
    ) {
        self.0.hessian_vector(record, point, direction, out);
    }
}
