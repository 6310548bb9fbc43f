//! Masks, so that no rank sees another's part of a sum.

use std::sync::{Mutex, PoisonError};

use dpopt_privacy::{Exchange, ExchangeError};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use sha2::{Digest as _, Sha256};
use x25519_dalek::{PublicKey, StaticSecret};
use zeroize::Zeroizing;

/// Words of a public key.
const WORDS: usize = 4;
/// Keeps keys of masks apart from other uses of what two ranks share.
const LABEL: &[u8] = b"dpopt masks v1";

/// An exchange whose sums show nothing but themselves.
///
/// # Formula
/// In each round, rank i gives `x_i + sum over j > i of m_ij - sum over j < i of m_ji`, modulo 2^64: the masks `m_ij` are words of ChaCha20
/// under a key that ranks i and j alone have (X25519, of fresh keys from the operating system), at a place that no other round uses. In
/// the sum over all ranks the masks cancel. (Bonawitz et al. 2017, "Practical secure aggregation", without recovery of those that drop out:
/// here a rank that drops out ends the run.)
///
/// # Privacy
/// Who does not know the keys of two ranks, and sees all that crosses the wire, learns the sum of the words of these two and not the
/// words of each: as long as ChaCha20 is pseudo-random and X25519 shared secrets can't be found from public keys. Ranks have to follow the
/// protocol: who exchanges public keys on the way reads all (`docs/privacy/parties.md`).
pub struct Masked<E> {
    inner: E,
    masks: Mutex<Masks>,
}

struct Masks {
    /// Of each other rank, with its number.
    keys: Vec<(usize, Zeroizing<[u8; 32]>)>,
    /// Rounds so far.
    rounds: u64,
}

impl<E: Exchange> Masked<E> {
    /// Agrees on keys with all other ranks, which make the same call. One round.
    ///
    /// # Errors
    /// [`ExchangeError::Engine`] without random bytes, and for a rank whose public key makes a secret that others know; what the exchange gives.
    pub fn new(inner: E) -> Result<Self, ExchangeError> {
        let (own, ranks) = (inner.rank(), inner.ranks());
        let mut bytes = Zeroizing::new([0; 32]);
        getrandom::fill(bytes.as_mut_slice()).map_err(|_| ExchangeError::Engine {
            why: "the operating system has no random bytes for masks",
        })?;
        let secret = StaticSecret::from(*bytes);
        let mut words = vec![0u64; WORDS * ranks];
        let place = words.iter_mut().skip(WORDS * own);
        for (word, bytes) in place.zip(PublicKey::from(&secret).as_bytes().as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        inner.add(&mut words)?;
        let mut keys = Vec::with_capacity(ranks);
        for (rank, words) in words.as_chunks::<WORDS>().0.iter().enumerate() {
            if rank == own {
                continue;
            }
            let mut public = [0; 32];
            for (bytes, word) in public.as_chunks_mut::<8>().0.iter_mut().zip(words) {
                *bytes = word.to_le_bytes();
            }
            let shared = secret.diffie_hellman(&PublicKey::from(public));
            if !shared.was_contributory() {
                let why = "a rank has shown a public key that hides nothing";
                return Err(ExchangeError::Engine { why });
            }
            let mut hasher = Sha256::new();
            hasher.update(LABEL);
            hasher.update((own.min(rank) as u64).to_le_bytes());
            hasher.update((own.max(rank) as u64).to_le_bytes());
            hasher.update(shared.as_bytes());
            keys.push((rank, Zeroizing::new(hasher.finalize().into())));
        }
        let masks = Mutex::new(Masks { keys, rounds: 0 });
        Ok(Self { inner, masks })
    }
}

impl Masks {
    /// Puts the masks of the next round on.
    fn put_on(&mut self, own: usize, words: &mut [u64]) {
        let round = self.rounds;
        self.rounds += 1;
        for (rank, key) in &self.keys {
            let mut mask = ChaCha20Rng::from_seed(**key);
            mask.set_stream(round);
            for word in words.iter_mut() {
                let mask = mask.next_u64();
                *word = match own < *rank {
                    true => word.wrapping_add(mask),
                    false => word.wrapping_sub(mask),
                };
            }
        }
    }
}

impl<E: Exchange> Exchange for Masked<E> {
    fn rank(&self) -> usize {
        self.inner.rank()
    }

    fn ranks(&self) -> usize {
        self.inner.ranks()
    }

    fn hides_parts(&self) -> bool {
        true
    }

    fn add(&self, words: &mut [u64]) -> Result<(), ExchangeError> {
        // Held to the end: rounds are numbered in the order that they are made in.
        let mut masks = self.masks.lock().unwrap_or_else(PoisonError::into_inner);
        masks.put_on(self.rank(), words);
        self.inner.add(words)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use dpopt_privacy::exchange::ThreadRanks;
    use dpopt_privacy::{Exchange, ExchangeError};

    use super::Masked;

    type Wire = Arc<Mutex<Vec<Vec<u64>>>>;

    /// Ranks that are threads, with a look at what each sends.
    struct Tapped(ThreadRanks, Wire);

    impl Exchange for Tapped {
        fn rank(&self) -> usize {
            self.0.rank()
        }

        fn ranks(&self) -> usize {
            self.0.ranks()
        }

        fn add(&self, words: &mut [u64]) -> Result<(), ExchangeError> {
            self.1.lock().unwrap().push(words.to_vec());
            self.0.add(words)
        }
    }

    /// The sums of these rounds on each rank, and what each sent.
    fn rounds(
        ranks: usize,
        own: impl Fn(usize) -> Vec<Vec<u64>> + Sync,
    ) -> Vec<[Vec<Vec<u64>>; 2]> {
        let own = &own;
        std::thread::scope(|scope| {
            let all = ThreadRanks::new(ranks, Duration::MAX).into_iter();
            let started = all.map(|rank| {
                scope.spawn(move || {
                    let wire = Wire::default();
                    let masked = Masked::new(Tapped(rank, Arc::clone(&wire))).unwrap();
                    assert!(masked.hides_parts());
                    let mut found = own(masked.rank());
                    for words in &mut found {
                        masked.add(words).unwrap();
                    }
                    // The first round was that of the keys.
                    let sent = wire.lock().unwrap().split_off(1);
                    [found, sent]
                })
            });
            let started: Vec<_> = started.collect();
            started.into_iter().map(|one| one.join().unwrap()).collect()
        })
    }

    #[test]
    fn masks_cancel_and_show_nothing_of_a_part() {
        for ranks in [2, 3, 5] {
            // The same words in two rounds, of two lengths.
            let own = |rank: usize| [4, 4, 7].map(|n| vec![rank as u64; n]).to_vec();
            let found = rounds(ranks, own);
            let total: u64 = (0..ranks as u64).sum();
            let mut seen = Vec::new();
            for [sums, sent] in &found {
                assert_eq!(*sums, [4, 4, 7].map(|n| vec![total; n]));
                seen.extend(sent.iter().flatten().copied());
                // Were masks those of the round before, differences of rounds would show those of sums.
                assert!((0..4).all(|k| sent[0][k] != sent[1][k] && sent[0][k] != sent[2][k]));
            }
            // All words differ, and half of their bits are set: a standard deviation is 4/sqrt(words) of 64.
            let words = seen.len();
            let bits: u32 = seen.iter().map(|word| word.count_ones()).sum();
            let mean = f64::from(bits) / words as f64;
            assert!(
                (mean - 32.0).abs() < 6.0 * 4.0 / (words as f64).sqrt(),
                "{mean}"
            );
            seen.sort_unstable();
            seen.dedup();
            assert_eq!(seen.len(), words);
        }
    }

    /// Who knows all keys but those of two ranks learns their sum, and what they send alone is another in each run.
    #[test]
    fn keys_are_fresh_in_every_run() {
        let own = |rank: usize| vec![vec![rank as u64; 3]];
        let (one, other) = (rounds(2, own), rounds(2, own));
        for (one, other) in one.iter().zip(&other) {
            assert_eq!(one[0], other[0]);
            assert_ne!(one[1], other[1]);
        }
        let add = |k: usize| one[0][1][0][k].wrapping_add(one[1][1][0][k]);
        assert_eq!([add(0), add(1), add(2)], [1; 3]);
    }

    #[test]
    fn a_public_key_of_no_order_is_refused() {
        struct Zero;
        impl Exchange for Zero {
            fn rank(&self) -> usize {
                0
            }
            fn ranks(&self) -> usize {
                2
            }
            fn add(&self, words: &mut [u64]) -> Result<(), ExchangeError> {
                words[4..].fill(0);
                Ok(())
            }
        }
        let refused = Masked::new(Zero).err();
        assert!(matches!(refused, Some(ExchangeError::Engine { .. })));
        // A rank alone has nobody to hide from.
        let alone = rounds(1, |_| vec![vec![7, 8]]);
        assert_eq!(alone[0], [vec![vec![7, 8]], vec![vec![7, 8]]]);
    }
}
