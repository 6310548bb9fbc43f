//! A tape for mechanisms that are not built on the curator: floating-point noise, recorded or replayed.

use rand_distr::{Distribution as _, StandardNormal};

use dpopt_privacy::noise::{KeyedStream, Purpose, ReplayKeyForTests, StreamId};
use rand::Rng as _;

/// The source of noise of a mechanism under audit. In a recorded run it draws; in a replay it returns what
/// was released and notes by how much the exact values differ, in units of the noise.
///
/// # Privacy
/// None: seeded floating-point noise, for made-up records.
pub struct AuditTape {
    noise: KeyedStream,
    coins: KeyedStream,
    state: State,
}

#[derive(Default)]
struct State {
    replaying: bool,
    at: usize,
    lines: Vec<Line>,
    displacements: Vec<f64>,
    diverged: bool,
}

struct Line {
    exact: Vec<f64>,
    released: Vec<f64>,
    deviation: f64,
}

impl AuditTape {
    /// A tape for a run to be recorded; also the noise of a run that is only scored.
    #[must_use]
    pub fn recording(seed: u64) -> Self {
        let key = ReplayKeyForTests::from_seed(seed);
        Self {
            noise: key.stream(StreamId::new(Purpose::Noise, 0)),
            coins: key.stream(StreamId::new(Purpose::Sampling, 0)),
            state: State::default(),
        }
    }

    /// The same tape, for the replay on a neighbour.
    #[must_use]
    pub fn rewound(self, seed: u64) -> Self {
        let mut again = Self::recording(seed);
        again.state = self.state;
        let state = &mut again.state;
        state.replaying = true;
        state.at = 0;
        state.displacements.clear();
        again
    }

    /// Releases `exact` plus Gaussian noise of this standard deviation in each coordinate.
    pub fn gaussian(&mut self, exact: &[f64], deviation: f64) -> Vec<f64> {
        let noise: Vec<f64> = exact
            .iter()
            .map(|_| {
                let z: f64 = StandardNormal.sample(&mut self.noise);
                deviation * z
            })
            .collect();
        self.line(exact, &noise, deviation)
    }

    /// Whether each of `records` positions is in a Poisson sample at this rate; the one at `always` is.
    /// Coins are the same in both runs of a replay.
    pub fn poisson(&mut self, records: usize, rate: f64, always: Option<usize>) -> Vec<bool> {
        (0..records)
            .map(|i| {
                let drawn = (self.coins.next_u64() >> 11) as f64 * f64::EPSILON * 0.5 < rate;
                drawn || always == Some(i)
            })
            .collect()
    }

    /// Displacements of the replayed releases, in units of the noise; infinite where no noise would
    /// explain one.
    #[must_use]
    pub fn displacements(&self) -> Vec<f64> {
        self.state.displacements.clone()
    }

    /// Whether the replay made other releases than the recorded run.
    #[must_use]
    pub fn diverged(&self) -> bool {
        let state = &self.state;
        state.diverged || state.replaying && state.at != state.lines.len()
    }

    fn line(&mut self, exact: &[f64], noise: &[f64], deviation: f64) -> Vec<f64> {
        let state = &mut self.state;
        if !state.replaying {
            let released: Vec<f64> = exact.iter().zip(noise).map(|(x, n)| x + n).collect();
            state.lines.push(Line {
                exact: exact.to_vec(),
                released: released.clone(),
                deviation,
            });
            return released;
        }
        let at = state.at;
        state.at += 1;
        let Some(line) = state.lines.get(at) else {
            state.diverged = true;
            return exact.to_vec();
        };
        if line.exact.len() != exact.len() || line.deviation != deviation {
            state.diverged = true;
            return line.released.clone();
        }
        let released = line.released.clone();
        let squares = exact.iter().zip(&line.exact).map(|(x, y)| (x - y).powi(2));
        let norm = squares.sum::<f64>().sqrt();
        let displacement = if norm == 0.0 { 0.0 } else { norm / deviation };
        state.displacements.push(displacement);
        released
    }
}
