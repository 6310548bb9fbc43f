//! Seeded normals for starts, samples and directions; nothing here protects anybody.

use dpopt_privacy::noise::{KeyedStream, Purpose, ReplayKeyForTests, StreamId};
use rand::Rng as _;
use rand_distr::{Distribution as _, StandardNormal};

/// Independent normals that anybody can repeat from the seed.
pub struct Normals(KeyedStream);

impl Normals {
    /// The normals of a seed.
    pub fn new(seed: u64) -> Self {
        let key = ReplayKeyForTests::from_seed(seed);
        Self(key.stream(StreamId::new(Purpose::Perturbation, 0)))
    }

    /// A vector of normals.
    pub fn vector(&mut self, dim: usize) -> Vec<f64> {
        (0..dim)
            .map(|_| StandardNormal.sample(&mut self.0))
            .collect()
    }

    /// One normal.
    pub fn normal(&mut self) -> f64 {
        StandardNormal.sample(&mut self.0)
    }

    /// A number in [0, 1).
    pub fn uniform(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A whole number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A unit vector with the uniform law.
    pub fn direction(&mut self, dim: usize) -> Vec<f64> {
        loop {
            let mut v = self.vector(dim);
            let length = dpopt_linalg::norm(&v);
            if length > 0.0 {
                v.iter_mut().for_each(|x| *x /= length);
                return v;
            }
        }
    }
}
