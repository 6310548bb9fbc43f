//! Keys and the random streams that they open.
//!
//! A key opens 2^64 streams of ChaCha20; which
//! one is used for what is fixed by [`StreamId`], from public facts only.

use std::convert::Infallible;
use std::fmt;

use getrandom::SysRng;
use rand::{Rng, TryCryptoRng, TryRng};
use zeroize::Zeroizing;

use super::chacha::ChaCha20;
use super::digits::BitSource;
use super::error::NoiseError;
use super::purpose::Purpose;

const KEY_BYTES: usize = 32;

/// Keeps a seeded key apart from any key that a reader might choose by hand.
const SEED_LABEL: &[u8; KEY_BYTES - 8] = b"dpopt simulation key v1 ";

/// A secret from which all randomness of a run is derived.
///
/// It can be neither cloned nor written out (but for the other ranks of its own run: `docs/privacy/interfaces.md`), its `Debug` shows only where it came from, and its
/// bytes are overwritten when it is dropped. (Copies that the compiler leaves on the stack when
/// a value moves are out of reach.)
///
/// A key from the operating system belongs to the process that made it. After a fork both
/// processes hold its bytes and would draw the same noise, so in the child it opens no stream.
///
/// ```compile_fail
/// let key = dpopt_privacy::noise::Key::from_os().unwrap();
/// let copy = key.clone();
/// ```
pub struct Key {
    bytes: Zeroizing<[u8; KEY_BYTES]>,
    origin: KeyOrigin,
    /// The process that made it.
    process: u32,
}

/// Where a [`Key`] came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyOrigin {
    /// Fresh bytes from the operating system: unknown to anybody.
    OperatingSystem,
    /// A small public number: anybody can repeat the run, and take the noise off again.
    Seed,
}

impl Key {
    /// A fresh key from the operating system's generator.
    ///
    /// # Errors
    /// [`NoiseError::NoEntropy`] where the operating system has no random bytes to give.
    pub fn from_os() -> Result<Self, NoiseError> {
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        SysRng
            .try_fill_bytes(bytes.as_mut_slice())
            .map_err(|error| NoiseError::NoEntropy {
                bytes: KEY_BYTES,
                reason: error.to_string(),
            })?;
        Ok(Self {
            bytes,
            origin: KeyOrigin::OperatingSystem,
            process: std::process::id(),
        })
    }

    /// A key for an inner run, from the next bits of one of this key's streams: as secret as this
    /// key, no easier to repeat, and of the same process.
    pub(crate) fn derive(&self, stream: &mut KeyedStream) -> Self {
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        stream.fill_bytes(bytes.as_mut_slice());
        Self {
            bytes,
            origin: self.origin,
            process: self.process,
        }
    }

    /// Its bytes, for the other ranks of its run and nobody else. **Secret**.
    pub(crate) fn words(&self) -> Zeroizing<[u64; 4]> {
        let mut words = Zeroizing::new([0; KEY_BYTES / 8]);
        for (word, bytes) in words.iter_mut().zip(self.bytes.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        words
    }

    /// The key of another rank of the same run, in this process.
    pub(crate) fn of_words(words: &[u64; 4], origin: KeyOrigin) -> Self {
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        for (bytes, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *bytes = word.to_le_bytes();
        }
        Self {
            bytes,
            origin,
            process: std::process::id(),
        }
    }

    /// Where this key came from.
    #[must_use]
    pub fn origin(&self) -> KeyOrigin {
        self.origin
    }

    /// Opens one stream at its beginning.
    ///
    /// Opening the same stream twice gives the same bits twice: noise that is used for two
    /// releases protects neither. Take identifiers for releases from one [`StreamIds`].
    ///
    /// # Errors
    /// [`NoiseError::Forked`] in another process than the one that made the key.
    pub fn stream(&self, id: StreamId) -> Result<KeyedStream, NoiseError> {
        self.check_process()?;
        Ok(self.open(id))
    }

    /// Whether this process may use the key. Repeating a seeded key is what it is for.
    pub(crate) fn check_process(&self) -> Result<(), NoiseError> {
        let process = std::process::id();
        match self.origin {
            KeyOrigin::OperatingSystem if process != self.process => Err(NoiseError::Forked {
                key: self.process,
                process,
            }),
            _ => Ok(()),
        }
    }

    /// [`stream`](Self::stream) for those who have checked the process.
    pub(super) fn open(&self, id: StreamId) -> KeyedStream {
        KeyedStream {
            generator: ChaCha20::new(&self.bytes, id.number()),
        }
    }
}

/// A key that anybody can make again from a small number, for tests and simulations.
///
/// **Never for a protected run**: whoever guesses the seed can subtract the noise. Its
/// [`origin`](Key::origin) says [`KeyOrigin::Seed`], and no protected curator takes a key.
#[derive(Debug)]
pub struct ReplayKeyForTests(Key);

impl ReplayKeyForTests {
    /// The key of a seed.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        let (label, number) = bytes.split_at_mut(SEED_LABEL.len());
        label.copy_from_slice(SEED_LABEL);
        number.copy_from_slice(&seed.to_le_bytes());
        Self(Key {
            bytes,
            origin: KeyOrigin::Seed,
            process: std::process::id(),
        })
    }

    /// Opens one stream at its beginning, as [`Key::stream`] does, in any process.
    #[must_use]
    pub fn stream(&self, id: StreamId) -> KeyedStream {
        self.0.open(id)
    }

    /// As a key, for what takes one.
    #[must_use]
    pub fn as_key(&self) -> &Key {
        &self.0
    }

    /// The key alone, for a simulation that owns it.
    pub(crate) fn into_key(self) -> Key {
        self.0
    }
}

#[cfg(test)]
impl Key {
    /// The key that a child of a fork finds in its memory.
    pub(crate) fn of_another_process() -> Self {
        Self {
            bytes: Zeroizing::new([7; KEY_BYTES]),
            origin: KeyOrigin::OperatingSystem,
            process: std::process::id().wrapping_add(1),
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key")
            .field("origin", &self.origin)
            .finish_non_exhaustive()
    }
}

/// The public name of one stream of a key: a purpose, the number of a release (or of a step),
/// and the number of a block inside it.
///
/// Two different names are two different streams. Nothing in a name may depend on private data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StreamId {
    purpose: Purpose,
    release: u32,
    block: u32,
}

impl StreamId {
    /// The largest block number inside one release.
    pub const MAX_BLOCK: u32 = (1 << Self::BLOCK_BITS) - 1;

    const BLOCK_BITS: u32 = 24;
    const RELEASE_BITS: u32 = 32;

    /// The first block of a release.
    #[must_use]
    pub const fn new(purpose: Purpose, release: u32) -> Self {
        Self {
            purpose,
            release,
            block: 0,
        }
    }

    /// Another block of the same release, for vectors that are filled in fixed pieces.
    ///
    /// # Errors
    /// [`NoiseError::BlockOutOfRange`] above [`MAX_BLOCK`](Self::MAX_BLOCK).
    pub fn with_block(self, block: u32) -> Result<Self, NoiseError> {
        if block > Self::MAX_BLOCK {
            return Err(NoiseError::BlockOutOfRange {
                block,
                max: Self::MAX_BLOCK,
            });
        }
        Ok(Self { block, ..self })
    }

    /// [`with_block`](Self::with_block) for a block known to be in range.
    pub(super) const fn block(self, block: u32) -> Self {
        Self { block, ..self }
    }

    /// Whether a vector may begin here.
    pub(super) fn check_first_block(self) -> Result<(), NoiseError> {
        match self.block {
            0 => Ok(()),
            block => Err(NoiseError::NotFirstBlock { block }),
        }
    }

    /// The number under which the generator knows the stream: purpose, release and block side
    /// by side in 8, 32 and 24 bits, so that no two names share one.
    #[must_use]
    pub const fn number(self) -> u64 {
        (self.purpose as u64) << (Self::RELEASE_BITS + Self::BLOCK_BITS)
            | (self.release as u64) << Self::BLOCK_BITS
            | self.block as u64
    }
}

/// Hands out release numbers, each once.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct StreamIds {
    next: [u64; Purpose::ALL.len()],
}

impl StreamIds {
    /// How many releases of one purpose a key has.
    pub const PER_PURPOSE: u64 = 1 << StreamId::RELEASE_BITS;

    /// Starts from release zero of every purpose.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The next stream of a purpose that has not been handed out yet.
    ///
    /// # Errors
    /// [`NoiseError::StreamsExhausted`] after 2^32 of them; numbers never wrap around.
    pub fn next(&mut self, purpose: Purpose) -> Result<StreamId, NoiseError> {
        let counter = match purpose {
            Purpose::Sampling => &mut self.next[0],
            Purpose::Noise => &mut self.next[1],
            Purpose::Perturbation => &mut self.next[2],
        };
        let release = u32::try_from(*counter).map_err(|_| NoiseError::StreamsExhausted {
            purpose,
            count: Self::PER_PURPOSE,
        })?;
        *counter += 1;
        Ok(StreamId::new(purpose, release))
    }
}

/// The bits of one stream, read in order.
///
/// It implements [`rand::Rng`], so that any sampler can read it. Like a key it can be neither
/// cloned nor shown.
pub struct KeyedStream {
    generator: ChaCha20,
}

impl TryRng for KeyedStream {
    type Error = Infallible;

    #[inline]
    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(self.generator.next_u32())
    }

    #[inline]
    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.generator.next_u64())
    }

    #[inline]
    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        self.generator.fill_bytes(bytes);
        Ok(())
    }
}

impl TryCryptoRng for KeyedStream {}

impl BitSource for KeyedStream {
    const DIGIT_BITS: u32 = u64::BITS;

    #[inline]
    fn word(&mut self) -> u64 {
        self.generator.next_u64()
    }

    #[inline]
    fn digit(&mut self) -> u64 {
        self.generator.next_u64()
    }
}

impl KeyedStream {
    /// Fills `out` with the next words of the stream.
    pub fn fill_words(&mut self, out: &mut [u64]) {
        for place in out {
            *place = self.generator.next_u64();
        }
    }

    /// Goes on reading at this word of 64 bits.
    #[inline]
    pub(crate) fn seek(&mut self, word: u128) {
        self.generator.seek(2 * word);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn replay(seed: u64) -> ReplayKeyForTests {
        ReplayKeyForTests::from_seed(seed)
    }

    fn words(key: &ReplayKeyForTests, id: StreamId) -> Vec<u64> {
        let mut stream = key.stream(id);
        (0..200).map(|_| stream.next_u64()).collect()
    }

    #[test]
    fn a_key_and_a_name_determine_the_stream() {
        let id = StreamId::new(Purpose::Noise, 7);
        assert_eq!(words(&replay(3), id), words(&replay(3), id));
        assert_ne!(words(&replay(3), id), words(&replay(4), id));
    }

    /// Words of different streams meet by chance with probability below 1e-10.
    #[test]
    fn different_names_share_no_word() {
        let key = replay(11);
        let mut seen = HashSet::new();
        let mut count = 0;
        for purpose in Purpose::ALL {
            for release in [0, 1, 2, u32::MAX] {
                for block in [0, 1, StreamId::MAX_BLOCK] {
                    let id = StreamId::new(purpose, release).with_block(block).unwrap();
                    let stream = words(&key, id);
                    count += stream.len();
                    seen.extend(stream);
                }
            }
        }
        assert_eq!(seen.len(), count);
    }

    #[test]
    fn numbers_are_injective_at_the_seams() {
        let mut numbers = HashSet::new();
        let mut count = 0;
        for purpose in Purpose::ALL {
            for release in [0, 1, 255, 1 << 24, u32::MAX - 1, u32::MAX] {
                for block in [0, 1, 1 << 23, StreamId::MAX_BLOCK] {
                    let id = StreamId::new(purpose, release).with_block(block).unwrap();
                    assert_eq!(
                        id.number() & u64::from(StreamId::MAX_BLOCK),
                        u64::from(block)
                    );
                    numbers.insert(id.number());
                    count += 1;
                }
            }
        }
        assert_eq!(numbers.len(), count);
        assert_eq!(
            StreamId::new(Purpose::Noise, 0).with_block(1 << 24),
            Err(NoiseError::BlockOutOfRange {
                block: 1 << 24,
                max: StreamId::MAX_BLOCK
            })
        );
    }

    #[test]
    fn release_numbers_are_handed_out_once_and_never_wrap() {
        let mut ids = StreamIds::new();
        assert_eq!(
            ids.next(Purpose::Noise).unwrap(),
            StreamId::new(Purpose::Noise, 0)
        );
        assert_eq!(
            ids.next(Purpose::Noise).unwrap(),
            StreamId::new(Purpose::Noise, 1)
        );
        assert_eq!(
            ids.next(Purpose::Sampling).unwrap(),
            StreamId::new(Purpose::Sampling, 0)
        );
        ids.next[1] = u64::from(u32::MAX);
        assert!(ids.next(Purpose::Noise).is_ok());
        for _ in 0..2 {
            assert_eq!(
                ids.next(Purpose::Noise),
                Err(NoiseError::StreamsExhausted {
                    purpose: Purpose::Noise,
                    count: 1 << 32
                })
            );
        }
    }

    #[test]
    fn keys_from_the_system_differ_and_do_not_show() {
        let (a, b) = (Key::from_os().unwrap(), Key::from_os().unwrap());
        assert_ne!(*a.bytes, *b.bytes);
        assert_eq!(a.origin(), KeyOrigin::OperatingSystem);
        assert_eq!(replay(0).as_key().origin(), KeyOrigin::Seed);
        assert_eq!(format!("{a:?}"), "Key { origin: OperatingSystem, .. }");
    }

    /// A child of a fork holds the key of its parent: here a key that says it was made by the
    /// parent of this process.
    #[test]
    fn a_key_of_another_process_opens_nothing() {
        let id = StreamId::new(Purpose::Noise, 0);
        assert!(Key::from_os().unwrap().stream(id).is_ok());
        let process = std::process::id();
        let key = Key::of_another_process();
        let refused = key.stream(id).err().unwrap();
        let forked = NoiseError::Forked {
            key: process.wrapping_add(1),
            process,
        };
        assert_eq!(refused, forked);
        assert_eq!(key.check_process(), Err(forked));
        // A replay is meant to be repeated.
        let mut replayed = replay(1);
        replayed.0.process = process.wrapping_add(1);
        assert!(replayed.as_key().stream(id).is_ok());
    }

    #[test]
    fn a_stream_can_be_read_from_any_word() {
        let id = StreamId::new(Purpose::Noise, 7);
        let all = words(&replay(3), id);
        for start in [0_usize, 1, 7, 8, 31, 32, 33, 100] {
            let mut stream = replay(3).stream(id);
            stream.next_u64();
            stream.seek(start as u128);
            for word in &all[start..] {
                assert_eq!(stream.next_u64(), *word, "{start}");
            }
        }
    }
}
