//! ChaCha20, sixteen blocks at a time.
//!
//! D. J. Bernstein, *ChaCha, a variant of Salsa20* (2008), with its own 64-bit counter and 64-bit stream number. Words are those of
//! the crate `chacha20`, which fills the blocks where the processor has neither AVX2 nor AVX-512.

use dpopt_lanes::{BLOCKS, Kernel, Lanes, dispatch};
use rand::{Rng, SeedableRng};
use zeroize::Zeroize;

/// Words of 32 bits in a block.
const BLOCK_WORDS: usize = 16;
/// Words of 32 bits that are ready at most.
const WORDS: usize = BLOCKS * BLOCK_WORDS;
/// "expand 32-byte k".
const CONSTANTS: [u32; 4] = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];

/// A stream of words. Key and words are overwritten when it is dropped.
pub(super) struct ChaCha20 {
    key: [u32; 8],
    stream: u64,
    /// The block after those that are ready.
    counter: u64,
    /// Words that were read of those that are ready, all of them at first.
    read: usize,
    /// Whether any are ready.
    filled: bool,
    /// Words 2p and 2p + 1 of block b, the first in the low half: `ready[p][b]`.
    ready: [[u64; BLOCKS]; BLOCK_WORDS / 2],
}

impl ChaCha20 {
    /// The stream with this number, at its first word.
    pub(super) fn new(key: &[u8; 32], stream: u64) -> Self {
        let mut words = [0; 8];
        for (word, bytes) in words.iter_mut().zip(key.as_chunks::<4>().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        Self {
            key: words,
            stream,
            counter: 0,
            read: WORDS,
            filled: false,
            ready: [[0; BLOCKS]; BLOCK_WORDS / 2],
        }
    }

    /// Goes on at this word of 32 bits. Within the blocks that are ready it costs nothing.
    #[inline]
    pub(super) fn seek(&mut self, word: u128) {
        // Its 2^64 blocks end where they began.
        let block = (word / BLOCK_WORDS as u128) as u64;
        let mut ahead = block.wrapping_sub(self.counter.wrapping_sub(BLOCKS as u64));
        if !self.filled || ahead >= BLOCKS as u64 {
            self.counter = block;
            self.refill();
            ahead = 0;
        }
        self.read = ahead as usize * BLOCK_WORDS + (word % BLOCK_WORDS as u128) as usize;
    }

    /// The next 32 bits.
    #[inline]
    pub(super) fn next_u32(&mut self) -> u32 {
        if self.read >= WORDS {
            self.refill();
        }
        let pair = self.pair(self.read);
        let word = if self.read.is_multiple_of(2) {
            pair as u32
        } else {
            (pair >> u32::BITS) as u32
        };
        self.read += 1;
        word
    }

    /// The next two words of 32 bits, the first in the low half.
    #[inline(always)]
    pub(super) fn next_u64(&mut self) -> u64 {
        let place = self.read;
        if place >= WORDS || !place.is_multiple_of(2) {
            return self.next_u64_slowly();
        }
        self.read = place + 2;
        self.pair(place)
    }

    #[cold]
    #[inline(never)]
    fn next_u64_slowly(&mut self) -> u64 {
        let low = u64::from(self.next_u32());
        low | u64::from(self.next_u32()) << u32::BITS
    }

    /// The next bytes, of as many whole words as they need.
    pub(super) fn fill_bytes(&mut self, bytes: &mut [u8]) {
        for part in bytes.chunks_mut(4) {
            part.copy_from_slice(&self.next_u32().to_le_bytes()[..part.len()]);
        }
    }

    /// The pair of words that a word stands in.
    #[inline(always)]
    fn pair(&self, word: usize) -> u64 {
        self.ready[word / 2 % (BLOCK_WORDS / 2)][word / BLOCK_WORDS % BLOCKS]
    }

    fn refill(&mut self) {
        dispatch(Refill(self));
        self.counter = self.counter.wrapping_add(BLOCKS as u64);
        self.filled = true;
        self.read = 0;
    }

    /// The next blocks from the crate `chacha20`.
    fn fill_from_crate(&mut self) {
        let mut key = [0; 32];
        for (bytes, word) in key.as_chunks_mut::<4>().0.iter_mut().zip(self.key) {
            *bytes = word.to_le_bytes();
        }
        let mut generator = chacha20::ChaCha20Rng::from_seed(key);
        key.zeroize();
        generator.set_stream(self.stream);
        generator.set_word_pos(u128::from(self.counter) * BLOCK_WORDS as u128);
        for block in 0..BLOCKS {
            for pairs in &mut self.ready {
                pairs[block] = generator.next_u64();
            }
        }
    }

    /// Fills some of the blocks, from number `first` on.
    #[inline(always)]
    fn fill<L: Lanes>(&mut self, lanes: L, first: usize) {
        let (mut low, mut high) = ([0; BLOCKS], [0; BLOCKS]);
        for i in 0..L::COUNT {
            let counter = self.counter.wrapping_add((first + i) as u64);
            (low[i], high[i]) = (counter as u32, (counter >> u32::BITS) as u32);
        }
        let mut start = [lanes.splat_word(0); BLOCK_WORDS];
        for i in 0..4 {
            start[i] = lanes.splat_word(CONSTANTS[i]);
        }
        for i in 0..8 {
            start[4 + i] = lanes.splat_word(self.key[i]);
        }
        start[12] = lanes.load(&low);
        start[13] = lanes.load(&high);
        start[14] = lanes.splat_word(self.stream as u32);
        start[15] = lanes.splat_word((self.stream >> u32::BITS) as u32);
        let mut words = start;
        // Ten times the columns, then the diagonals.
        for _ in 0..10 {
            for i in 0..4 {
                quarter(lanes, &mut words, [i, 4 + i, 8 + i, 12 + i]);
            }
            for i in 0..4 {
                let diagonal = [i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4];
                quarter(lanes, &mut words, diagonal);
            }
        }
        for (p, pairs) in self.ready.iter_mut().enumerate() {
            let (mut low, mut high) = ([0; BLOCKS], [0; BLOCKS]);
            lanes.store(lanes.sum(words[2 * p], start[2 * p]), &mut low);
            lanes.store(lanes.sum(words[2 * p + 1], start[2 * p + 1]), &mut high);
            let pairs = &mut pairs[first..][..L::COUNT];
            for i in 0..L::COUNT {
                pairs[i] = u64::from(low[i]) | u64::from(high[i]) << u32::BITS;
            }
        }
    }
}

impl Drop for ChaCha20 {
    fn drop(&mut self) {
        self.key.zeroize();
        self.ready.as_flattened_mut().zeroize();
    }
}

/// The quarter round on four of the words.
#[inline(always)]
fn quarter<L: Lanes>(lanes: L, words: &mut [L::Mixed; BLOCK_WORDS], [a, b, c, d]: [usize; 4]) {
    words[a] = lanes.sum(words[a], words[b]);
    words[d] = lanes.turned::<16, 16>(words[d], words[a]);
    words[c] = lanes.sum(words[c], words[d]);
    words[b] = lanes.turned::<12, 20>(words[b], words[c]);
    words[a] = lanes.sum(words[a], words[b]);
    words[d] = lanes.turned::<8, 24>(words[d], words[a]);
    words[c] = lanes.sum(words[c], words[d]);
    words[b] = lanes.turned::<7, 25>(words[b], words[c]);
}

/// The next blocks.
struct Refill<'a>(&'a mut ChaCha20);

impl Kernel for Refill<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        // Of four words at a time the crate is faster.
        if L::COUNT < 8 {
            return self.0.fill_from_crate();
        }
        for first in (0..BLOCKS).step_by(L::COUNT) {
            self.0.fill(lanes, first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bernstein's ChaCha20 with a key and a stream of all zeros: test vector 1 of RFC 8439, appendix A.1, and its second block from vector 2.
    #[test]
    fn the_first_blocks_are_the_published_ones() {
        let mut bytes = [0; 128];
        ChaCha20::new(&[0; 32], 0).fill_bytes(&mut bytes);
        let first = "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7\
                     da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586";
        let second = "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed\
                      29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f";
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, [first, second].concat());
    }

    /// What is read with each set of instructions, in every order of words, pairs and bytes, is what the crate gives.
    #[test]
    fn words_are_those_of_the_crate_however_they_are_read() {
        let key = std::array::from_fn(|i| (i * 37 + 11) as u8);
        for (stream, start) in [
            (0, 0),
            (1, 5),
            (u64::MAX, 255),
            (0x1234_5678_9abc_def0, (1 << 36) - 40),
            (7, (1 << 68) - 300),
        ] {
            let mut ours = ChaCha20::new(&key, stream);
            let mut theirs = chacha20::ChaCha20Rng::from_seed(key);
            theirs.set_stream(stream);
            if start > 0 {
                ours.seek(start);
                theirs.set_word_pos(start);
            }
            let (mut a, mut b) = ([0; 97], [0; 97]);
            for round in 0..400 {
                match round % 7 {
                    0 | 3 => assert_eq!(ours.next_u32(), theirs.next_u32(), "{round}"),
                    6 if round % 5 == 0 => {
                        let length = round % 97;
                        ours.fill_bytes(&mut a[..length]);
                        theirs.fill_bytes(&mut b[..length]);
                        assert_eq!(a, b, "{round}");
                    }
                    _ => assert_eq!(ours.next_u64(), theirs.next_u64(), "{round}"),
                }
            }
        }
    }

    #[test]
    fn every_set_of_instructions_fills_the_same_blocks() {
        struct Fill;
        impl Kernel for Fill {
            type Output = [[u64; BLOCKS]; BLOCK_WORDS / 2];

            fn run<L: Lanes>(self, lanes: L) -> Self::Output {
                let mut of = ChaCha20::new(&[9; 32], 3);
                // The low half of the counter overflows among these.
                of.counter = u64::from(u32::MAX) - 6;
                for first in (0..BLOCKS).step_by(L::COUNT) {
                    of.fill(lanes, first);
                }
                of.ready
            }
        }
        let mut of = ChaCha20::new(&[9; 32], 3);
        of.counter = u64::from(u32::MAX) - 6;
        of.fill_from_crate();
        for (width, ready) in dpopt_lanes::each_width(|| Fill) {
            assert_eq!(ready, of.ready, "{width:?}");
        }
    }
}
