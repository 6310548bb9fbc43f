//! What the tests share: units, events, and the table of values from outside.

use dpopt_accounting::{Adjacency, Delta, Epsilon, Event, NoiseMultiplier, SamplingRate};
use proptest::prelude::*;

pub(crate) const EVERY: [Adjacency; 3] = [
    Adjacency::ReplaceOne,
    Adjacency::AddRemove,
    Adjacency::ZeroOut,
];

/// One of the three.
pub(crate) fn adjacency() -> impl Strategy<Value = Adjacency> {
    prop::sample::select(&EVERY)
}

pub(crate) fn z(value: f64) -> NoiseMultiplier {
    NoiseMultiplier::new(value).unwrap()
}

pub(crate) fn delta(value: f64) -> Delta {
    Delta::new(value).unwrap()
}

pub(crate) fn epsilon(value: f64) -> Epsilon {
    Epsilon::new(value).unwrap()
}

pub(crate) fn rate(value: f64) -> SamplingRate {
    SamplingRate::new(value).unwrap()
}

pub(crate) fn gaussian(noise: f64) -> Event {
    Event::gaussian(z(noise))
}

pub(crate) fn laplace(scale: f64) -> Event {
    Event::Laplace {
        noise_multiplier: z(scale),
    }
}

pub(crate) fn pure_dp(value: f64) -> Event {
    Event::EpsilonDelta {
        epsilon: value,
        delta: 0.0,
    }
}

/// Steps on Poisson samples.
pub(crate) fn sampled(q: f64, noise: f64, count: u64) -> Event {
    gaussian(noise).poisson_sampled(rate(q)).repeated(count)
}

/// Such steps one after another: (rate, noise multiplier, count).
pub(crate) fn steps(list: &[(f64, f64, u64)]) -> Event {
    Event::composed(list.iter().map(|&(q, z, t)| sampled(q, z, t)).collect())
}

const TABLE: &str = include_str!("../data/accounting_reference.tsv");

/// A row of the table of values from outside, which says where they come from.
pub(crate) struct Row {
    pub(crate) first: &'static str,
    pub(crate) second: &'static str,
    pub(crate) value: f64,
    relative: f64,
    absolute: f64,
}

impl Row {
    pub(crate) fn numbers(&self) -> (f64, f64) {
        (self.first.parse().unwrap(), self.second())
    }

    pub(crate) fn second(&self) -> f64 {
        self.second.parse().unwrap()
    }

    /// The first cell as steps on samples.
    pub(crate) fn steps(&self) -> Vec<(f64, f64, u64)> {
        let step = |part: &str| {
            let cells: Vec<&str> = part.split(':').collect();
            let number = |i: usize| cells[i].parse().unwrap();
            (number(0), number(1), cells[2].parse().unwrap())
        };
        self.first.split('+').map(step).collect()
    }

    /// The first cell as Gaussians one after another.
    pub(crate) fn gaussians(&self) -> Event {
        let parts = self.first.split('+').map(|part| {
            let (noise, count) = part.split_once('x').unwrap();
            gaussian(noise.parse().unwrap()).repeated(count.parse().unwrap())
        });
        Event::composed(parts.collect())
    }

    pub(crate) fn check(&self, got: f64) {
        let allowed = self.absolute + self.relative * self.value.abs();
        assert!(
            (got - self.value).abs() <= allowed,
            "{} {}: got {got:e}, want {:e}",
            self.first,
            self.second,
            self.value
        );
    }

    /// The reported number is on the safe side of the tabulated double, up to the rounding of
    /// the double itself and of the inputs.
    pub(crate) fn check_not_below(&self, got: f64) {
        assert!(
            got >= self.value * (1.0 - 4e-15),
            "{} {}: got {got:e}, below {:e}",
            self.first,
            self.second,
            self.value
        );
    }
}

pub(crate) fn rows(kind: &str) -> Vec<Row> {
    let found: Vec<Row> = TABLE
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split('\t').collect::<Vec<_>>())
        .filter(|cells| cells[0] == kind)
        .map(|cells| Row {
            first: cells[1],
            second: cells[2],
            value: cells[3].parse().unwrap(),
            relative: cells[4].parse().unwrap(),
            absolute: cells[5].parse().unwrap(),
        })
        .collect();
    assert!(!found.is_empty(), "no rows of kind {kind}");
    found
}
