//! Words of 32 bits, one of each of several blocks beside each other: what a stream cipher does with them.

/// Blocks that [`Mixing::load`] and [`Mixing::store`] have room for.
pub const BLOCKS: usize = 16;

/// Words of [`Mixing::COUNT`] blocks, and sums, exclusive ors and rotations of them.
pub trait Mixing: Copy {
    /// One word of each block.
    type Mixed: Copy;
    /// How many blocks: a divisor of [`BLOCKS`].
    const COUNT: usize;

    /// The first of these words.
    fn load(self, from: &[u32; BLOCKS]) -> Self::Mixed;
    /// The same word for each block.
    fn splat_word(self, x: u32) -> Self::Mixed;
    /// Sums modulo 2^32.
    fn sum(self, a: Self::Mixed, b: Self::Mixed) -> Self::Mixed;
    /// `a ^ b`, rotated to the left by `LEFT`; `RIGHT` is 32 - `LEFT`.
    fn turned<const LEFT: i32, const RIGHT: i32>(
        self,
        a: Self::Mixed,
        b: Self::Mixed,
    ) -> Self::Mixed;
    /// Writes the words to the first places.
    fn store(self, a: Self::Mixed, to: &mut [u32; BLOCKS]);
}

#[cfg(target_arch = "x86_64")]
impl Mixing for pulp::x86::V4 {
    type Mixed = pulp::u32x16;
    const COUNT: usize = 16;

    #[inline(always)]
    fn load(self, from: &[u32; BLOCKS]) -> pulp::u32x16 {
        pulp::cast(*from)
    }

    #[inline(always)]
    fn splat_word(self, x: u32) -> pulp::u32x16 {
        self.splat_u32x16(x)
    }

    #[inline(always)]
    fn sum(self, a: pulp::u32x16, b: pulp::u32x16) -> pulp::u32x16 {
        self.wrapping_add_u32x16(a, b)
    }

    #[inline(always)]
    fn turned<const LEFT: i32, const RIGHT: i32>(
        self,
        a: pulp::u32x16,
        b: pulp::u32x16,
    ) -> pulp::u32x16 {
        let (a, b) = (pulp::cast(a), pulp::cast(b));
        let different = self.avx512f._mm512_xor_si512(a, b);
        pulp::cast(self.avx512f._mm512_rol_epi32::<LEFT>(different))
    }

    #[inline(always)]
    fn store(self, a: pulp::u32x16, to: &mut [u32; BLOCKS]) {
        *to = pulp::cast(a);
    }
}

#[cfg(target_arch = "x86_64")]
impl Mixing for pulp::x86::V3 {
    type Mixed = pulp::u32x8;
    const COUNT: usize = 8;

    #[inline(always)]
    fn load(self, from: &[u32; BLOCKS]) -> pulp::u32x8 {
        let [first, _]: [pulp::u32x8; 2] = pulp::cast(*from);
        first
    }

    #[inline(always)]
    fn splat_word(self, x: u32) -> pulp::u32x8 {
        self.splat_u32x8(x)
    }

    #[inline(always)]
    fn sum(self, a: pulp::u32x8, b: pulp::u32x8) -> pulp::u32x8 {
        self.wrapping_add_u32x8(a, b)
    }

    #[inline(always)]
    fn turned<const LEFT: i32, const RIGHT: i32>(
        self,
        a: pulp::u32x8,
        b: pulp::u32x8,
    ) -> pulp::u32x8 {
        let different = self.xor_u32x8(a, b);
        self.or_u32x8(
            self.shl_const_u32x8::<LEFT>(different),
            self.shr_const_u32x8::<RIGHT>(different),
        )
    }

    #[inline(always)]
    fn store(self, a: pulp::u32x8, to: &mut [u32; BLOCKS]) {
        let words: [u32; 8] = pulp::cast(a);
        to[..8].copy_from_slice(&words);
    }
}
