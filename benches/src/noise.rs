//! Speed of the samplers, as questions for the speed table.

use std::error::Error;
use std::num::NonZeroUsize;

use dpopt_privacy::noise::{
    DiscreteGaussian, DiscreteLaplace, FloatGaussian, Purpose, ReplayKeyForTests, RoundedGaussian,
    StreamId,
};

/// Draws in one repeat, but for the long releases.
pub const DRAWS: usize = 1_000_000;

/// Coordinates of a long release.
pub const LONG: usize = 10_000_000;

/// One sampler to be timed: its name, the draws of one repeat, a target in seconds, and the
/// work, which gives some number that depends on all of it.
pub struct NoiseRow {
    /// The name in the table.
    pub id: String,
    /// How many draws the work makes.
    pub draws: usize,
    /// In seconds; none where the row is only for comparison.
    pub target: Option<f64>,
    /// The work.
    #[allow(clippy::type_complexity, reason = "one place, and spelled out")]
    pub work: Box<dyn Fn() -> Result<f64, Box<dyn Error>>>,
}

const ID: StreamId = StreamId::new(Purpose::Noise, 0);

/// One row per sampler at a scale of 2^30, on one thread; words of the generator alone; and one
/// release of ten million coordinates on one and on two threads.
#[must_use]
pub fn rows() -> Vec<NoiseRow> {
    let scale = 30_f64.exp2();
    // The target: 2e7 draws a second.
    let target = Some(DRAWS as f64 / 2e7);
    let mut rows = vec![
        row("generator words", DRAWS, None, |out: &mut Vec<i64>| {
            let mut words = vec![0; out.len()];
            ReplayKeyForTests::from_seed(1)
                .stream(ID)
                .fill_words(&mut words);
            Ok(words.iter().fold(0, |all, word| all ^ word) as f64)
        }),
        row("rounded gaussian", DRAWS, target, move |out| {
            let mut stream = ReplayKeyForTests::from_seed(1).stream(ID);
            RoundedGaussian::new(scale)?.add_wrapping(&mut stream, out);
            Ok(out[0] as f64)
        }),
        row("discrete gaussian", DRAWS, None, move |out| {
            let key = ReplayKeyForTests::from_seed(1);
            DiscreteGaussian::new(scale)?.add_release(key.as_key(), ID, NonZeroUsize::MIN, out)?;
            Ok(out[0] as f64)
        }),
        row("discrete laplace", DRAWS, None, move |out| {
            let key = ReplayKeyForTests::from_seed(1);
            let noise = DiscreteLaplace::new(1.0 / scale)?;
            noise.add_release(key.as_key(), ID, NonZeroUsize::MIN, out)?;
            Ok(out[0] as f64)
        }),
        row("float (no privacy)", DRAWS, None, move |out| {
            let mut values = vec![0.0; out.len()];
            let mut stream = ReplayKeyForTests::from_seed(1).stream(ID);
            FloatGaussian::for_simulation(scale)?.add(&mut stream, &mut values);
            Ok(values[0])
        }),
    ];
    for (threads, name) in [(1, "1e7, 1 thread"), (2, "1e7, 2 threads")] {
        rows.push(row(name, LONG, None, move |out| {
            let key = ReplayKeyForTests::from_seed(1);
            let threads = NonZeroUsize::new(threads).unwrap_or(NonZeroUsize::MIN);
            RoundedGaussian::new(scale)?.add_release(key.as_key(), ID, threads, out)?;
            Ok(out[0] as f64)
        }));
    }
    rows
}

fn row(
    name: &str,
    draws: usize,
    target: Option<f64>,
    work: impl Fn(&mut Vec<i64>) -> Result<f64, Box<dyn Error>> + 'static,
) -> NoiseRow {
    let out = std::cell::RefCell::new(vec![0; draws]);
    NoiseRow {
        id: format!("noise/{name}"),
        draws,
        target,
        work: Box::new(move || work(&mut out.borrow_mut())),
    }
}
