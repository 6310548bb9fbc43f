//! Noise whose distribution is exact: keyed random streams and the rounded Gaussian.
//!
//! A release adds [`RoundedGaussian`] noise to an integer sum. For an integer `S`,
//! `S + round(s·Z) = round(S + s·Z)` (ties have probability zero), so the release is a function
//! of what the real-valued Gaussian mechanism would have released: it is exactly Gaussian-DP,
//! and so is every composition of such releases. The whole argument, with what it assumes, is
//! in `docs/privacy/sums.md`.
//!
//! ```
//! use dpopt_privacy::noise::{Key, Purpose, RoundedGaussian, StreamId};
//!
//! let key = Key::from_os()?;
//! let mut stream = key.stream(StreamId::new(Purpose::Noise, 0))?;
//! let noise = RoundedGaussian::new(1000.25)?;
//!
//! let mut sums = [17_i64, -4, 1 << 40];
//! noise.add_wrapping(&mut stream, &mut sums);
//! # Ok::<(), dpopt_privacy::noise::NoiseError>(())
//! ```

mod accept;
mod blocks;
mod chacha;
pub(crate) mod digits;
pub(crate) mod dyadic;
mod error;
mod exponential;
mod purpose;
pub(crate) mod real;
mod rounded_gaussian;
mod stream;
mod strips;

#[cfg(test)]
mod exactness_tests;
#[cfg(test)]
mod law_tests;
#[cfg(test)]
mod testkit;
#[cfg(test)]
mod vector_tests;

pub use error::NoiseError;
pub use purpose::Purpose;
pub(crate) use rounded_gaussian::of_steps;
pub use rounded_gaussian::{NoisySum, RoundedGaussian};
pub use stream::{Key, KeyOrigin, KeyedStream, ReplayKeyForTests, StreamId, StreamIds};
