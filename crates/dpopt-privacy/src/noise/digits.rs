//! Uniform real numbers whose digits are drawn when a comparison asks for them.

/// A supply of independent uniform bits, in two shapes.
///
/// The width of a digit is a parameter so that tests can run the sampler with one-bit digits,
/// where ties and refinements, which have probability 2^-64 in use, happen all the time.
pub(crate) trait BitSource {
    /// How many bits [`digit`](Self::digit) gives, from 1 to 64.
    const DIGIT_BITS: u32;

    /// 64 fresh uniform bits.
    fn word(&mut self) -> u64;

    /// A fresh uniform integer below `2^DIGIT_BITS`.
    fn digit(&mut self) -> u64;

    /// Digit `level ≥ 1` after those that every draw has. A source whose draws can be found
    /// again keeps these apart from the bits that decisions read.
    #[inline]
    fn extension(&mut self, level: usize) -> u64 {
        let _ = level;
        self.digit()
    }

    /// What was begun is thrown away. A source whose draws can be found again must not give the
    /// digits that it was decided by to what is tried next.
    #[inline]
    fn refused(&mut self) {}

    /// A fresh uniform integer below `n`; `n` must not be zero.
    ///
    /// The high half of `word · n` takes each value below `n` either ⌊2^64/n⌋ or ⌈2^64/n⌉
    /// times. Refusing the `2^64 mod n` smallest low halves leaves each value exactly
    /// ⌊2^64/n⌋ words (Lemire 2019, "Fast random integer generation in an interval"), so the
    /// result is uniform without any error.
    #[inline]
    fn below(&mut self, n: u64) -> u64 {
        loop {
            let product = u128::from(self.word()) * u128::from(n);
            // The cast keeps the low half. What is refused is below n, so a low half of n or
            // more is accepted without the division.
            let low = product as u64;
            if low >= n || low >= n.wrapping_neg() % n {
                return (product >> u64::BITS) as u64;
            }
        }
    }

    /// 128 fresh uniform bits.
    fn wide_word(&mut self) -> u128 {
        u128::from(self.word()) << u64::BITS | u128::from(self.word())
    }
}

/// A uniform real number in (0, 1), of which finitely many digits are known.
///
/// Its value is `Σ digit_i · B^-i` with `B = 2^DIGIT_BITS`. Digits that nobody has looked at
/// have not been drawn. Every decision below is a function of known digits, so given all
/// decisions taken so far the unknown digits are still independent and uniform: drawing them
/// later is the same as having drawn them at the start.
pub(crate) struct LazyUniform {
    head: u64,
    /// Digits after the first; almost always empty, and an empty vector owns no memory.
    tail: Vec<u64>,
}

impl LazyUniform {
    /// A fresh number with one known digit.
    #[inline]
    pub(crate) fn new<S: BitSource>(source: &mut S) -> Self {
        Self {
            head: source.digit(),
            tail: Vec::new(),
        }
    }

    /// The first digit.
    #[inline]
    pub(crate) fn head(&self) -> u64 {
        self.head
    }

    /// Digit number `index`, counted from zero after the point; drawn now if it is not known.
    pub(crate) fn digit<S: BitSource>(&mut self, index: usize, source: &mut S) -> u64 {
        let Some(index) = index.checked_sub(1) else {
            return self.head;
        };
        while self.tail.len() <= index {
            self.tail.push(source.digit());
        }
        self.tail[index]
    }
}

#[cfg(test)]
impl LazyUniform {
    /// A number with these first digits.
    pub(crate) fn with_digits(digits: &[u64]) -> Self {
        Self {
            head: digits[0],
            tail: digits[1..].to_vec(),
        }
    }
}
