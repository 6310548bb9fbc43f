//! Eight entries at a time, rounded to integers with the instructions that the processor has.
//!
//! The widest of AVX-512, AVX2 with FMA, and plain code is chosen when rows are added, and the choice
//! never changes within a process. The fused ones round alike.

#[cfg(target_arch = "x86_64")]
use std::sync::LazyLock;

use pulp::{Simd, WithSimd};

use super::MAGIC;

/// Entries that are handled together.
pub(super) const LANES: usize = 8;

/// Entries in single precision that are handled together.
pub(super) const SINGLES: usize = 16;

/// Work written once for all widths.
pub(super) trait Kernel {
    /// Does it; implementations are `#[inline(always)]`, so that it is compiled for each width.
    fn run<L: Lanes>(self, lanes: L);
}

/// Runs a kernel with the best instructions of this processor.
#[inline]
pub(super) fn dispatch<K: Kernel>(kernel: K) {
    #[cfg(target_arch = "x86_64")]
    match *WIDTH {
        Width::V4(simd) => return Simd::vectorize(simd, With(kernel, simd)),
        Width::V3(simd) => return Simd::vectorize(simd, With(kernel, simd)),
        Width::Other => {}
    }
    pulp::Arch::new().dispatch(Portable(kernel));
}

/// The instructions of this processor, asked once: asking costs as much as a short row.
#[cfg(target_arch = "x86_64")]
static WIDTH: LazyLock<Width> = LazyLock::new(|| {
    if let Some(simd) = pulp::x86::V4::try_new() {
        Width::V4(simd)
    } else if let Some(simd) = pulp::x86::V3::try_new() {
        Width::V3(simd)
    } else {
        Width::Other
    }
});

#[cfg(target_arch = "x86_64")]
enum Width {
    V4(pulp::x86::V4),
    V3(pulp::x86::V3),
    Other,
}

#[cfg(target_arch = "x86_64")]
struct With<K, L>(K, L);

#[cfg(target_arch = "x86_64")]
impl<K: Kernel, L: Lanes> WithSimd for With<K, L> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        self.0.run(self.1);
    }
}

struct Portable<K>(K);

impl<K: Kernel> WithSimd for Portable<K> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        if S::IS_SCALAR {
            self.0.run(Arrays::<false>);
        } else {
            self.0.run(Arrays::<true>);
        }
    }
}

/// Eight doubles, eight words, and the one step from entries to the lattice; and sixteen singles.
pub(super) trait Lanes: Copy {
    type Doubles: Copy;
    type Words: Copy;
    type Singles: Copy;
    /// Whether [`Lanes::rounded`] rounds once.
    const FUSED: bool;

    fn splat(self, x: f64) -> Self::Doubles;
    fn doubles(self, from: &[f64; LANES]) -> Self::Doubles;
    fn singles(self, from: &[f32; LANES]) -> Self::Doubles;
    fn words(self, from: &[i64; LANES]) -> Self::Words;
    fn to_array(self, words: Self::Words) -> [i64; LANES];
    /// Sum modulo 2^64.
    fn add(self, a: Self::Words, b: Self::Words) -> Self::Words;
    /// `a * b + c`, rounded once where [`Lanes::FUSED`].
    fn mul_add(self, a: Self::Doubles, b: Self::Doubles, c: Self::Doubles) -> Self::Doubles;
    fn to_doubles(self, a: Self::Doubles) -> [f64; LANES];
    fn splat_single(self, x: f32) -> Self::Singles;
    fn load_singles(self, from: &[f32; SINGLES]) -> Self::Singles;
    /// `a * b + c`, rounded once where [`Lanes::FUSED`].
    fn mul_add_singles(self, a: Self::Singles, b: Self::Singles, c: Self::Singles)
    -> Self::Singles;
    fn to_singles(self, a: Self::Singles) -> [f32; SINGLES];
    /// The bits of [`MAGIC`] + x * steps.
    fn rounded(self, x: Self::Doubles, steps: Self::Doubles, magic: Self::Doubles) -> Self::Words;

    /// [`Lanes::rounded`] for one entry, less the bits of [`MAGIC`]: the nearest integer.
    #[inline(always)]
    fn nearest(self, x: f64, steps: f64) -> i64 {
        let sum = if Self::FUSED {
            x.mul_add(steps, MAGIC)
        } else {
            x * steps + MAGIC
        };
        sum.to_bits().wrapping_sub(MAGIC.to_bits()) as i64
    }
}

/// The type of the entries of a dense row.
pub trait RowEntry: Copy + Into<f64> + sealed::Sealed {}

impl RowEntry for f32 {}
impl RowEntry for f64 {}
impl RowEntry for u8 {}

/// Keeps the lanes out of the public trait.
#[expect(
    private_bounds,
    private_interfaces,
    reason = "only the kernels here load lanes"
)]
pub(super) mod sealed {
    use super::{LANES, Lanes};

    /// How entries enter the lanes, exactly.
    pub trait Sealed: Sized {
        fn load<L: Lanes>(lanes: L, from: &[Self; LANES]) -> L::Doubles;
    }

    impl Sealed for f64 {
        #[inline(always)]
        fn load<L: Lanes>(lanes: L, from: &[f64; LANES]) -> L::Doubles {
            lanes.doubles(from)
        }
    }

    impl Sealed for f32 {
        #[inline(always)]
        fn load<L: Lanes>(lanes: L, from: &[f32; LANES]) -> L::Doubles {
            lanes.singles(from)
        }
    }

    impl Sealed for u8 {
        #[inline(always)]
        fn load<L: Lanes>(lanes: L, from: &[u8; LANES]) -> L::Doubles {
            lanes.singles(&from.map(f32::from))
        }
    }
}

/// Lanes as arrays, which the compiler vectorises as it can.
#[derive(Clone, Copy)]
pub(super) struct Arrays<const FUSED: bool>;

impl<const FUSED: bool> Lanes for Arrays<FUSED> {
    type Doubles = [f64; LANES];
    type Words = [i64; LANES];
    type Singles = [f32; SINGLES];
    const FUSED: bool = FUSED;

    #[inline(always)]
    fn splat(self, x: f64) -> [f64; LANES] {
        [x; LANES]
    }

    #[inline(always)]
    fn doubles(self, from: &[f64; LANES]) -> [f64; LANES] {
        *from
    }

    #[inline(always)]
    fn singles(self, from: &[f32; LANES]) -> [f64; LANES] {
        from.map(f64::from)
    }

    #[inline(always)]
    fn words(self, from: &[i64; LANES]) -> [i64; LANES] {
        *from
    }

    #[inline(always)]
    fn to_array(self, words: [i64; LANES]) -> [i64; LANES] {
        words
    }

    #[inline(always)]
    fn add(self, mut a: [i64; LANES], b: [i64; LANES]) -> [i64; LANES] {
        for lane in 0..LANES {
            a[lane] = a[lane].wrapping_add(b[lane]);
        }
        a
    }

    #[inline(always)]
    fn mul_add(self, a: [f64; LANES], b: [f64; LANES], mut c: [f64; LANES]) -> [f64; LANES] {
        for lane in 0..LANES {
            c[lane] = if FUSED {
                a[lane].mul_add(b[lane], c[lane])
            } else {
                a[lane] * b[lane] + c[lane]
            };
        }
        c
    }

    #[inline(always)]
    fn to_doubles(self, a: [f64; LANES]) -> [f64; LANES] {
        a
    }

    #[inline(always)]
    fn splat_single(self, x: f32) -> [f32; SINGLES] {
        [x; SINGLES]
    }

    #[inline(always)]
    fn load_singles(self, from: &[f32; SINGLES]) -> [f32; SINGLES] {
        *from
    }

    #[inline(always)]
    fn mul_add_singles(
        self,
        a: [f32; SINGLES],
        b: [f32; SINGLES],
        mut c: [f32; SINGLES],
    ) -> [f32; SINGLES] {
        for lane in 0..SINGLES {
            c[lane] = if FUSED {
                a[lane].mul_add(b[lane], c[lane])
            } else {
                a[lane] * b[lane] + c[lane]
            };
        }
        c
    }

    #[inline(always)]
    fn to_singles(self, a: [f32; SINGLES]) -> [f32; SINGLES] {
        a
    }

    #[inline(always)]
    fn rounded(self, x: [f64; LANES], steps: [f64; LANES], magic: [f64; LANES]) -> [i64; LANES] {
        self.mul_add(x, steps, magic)
            .map(|sum| sum.to_bits() as i64)
    }
}

#[cfg(target_arch = "x86_64")]
impl Lanes for pulp::x86::V4 {
    type Doubles = pulp::f64x8;
    type Words = pulp::i64x8;
    type Singles = pulp::f32x16;
    const FUSED: bool = true;

    #[inline(always)]
    fn splat(self, x: f64) -> pulp::f64x8 {
        self.splat_f64x8(x)
    }

    #[inline(always)]
    fn doubles(self, from: &[f64; LANES]) -> pulp::f64x8 {
        pulp::cast(*from)
    }

    #[inline(always)]
    fn singles(self, from: &[f32; LANES]) -> pulp::f64x8 {
        self.convert_f32x8_to_f64x8(pulp::cast(*from))
    }

    #[inline(always)]
    fn words(self, from: &[i64; LANES]) -> pulp::i64x8 {
        pulp::cast(*from)
    }

    #[inline(always)]
    fn to_array(self, words: pulp::i64x8) -> [i64; LANES] {
        pulp::cast(words)
    }

    #[inline(always)]
    fn add(self, a: pulp::i64x8, b: pulp::i64x8) -> pulp::i64x8 {
        pulp::cast(self.avx512f._mm512_add_epi64(pulp::cast(a), pulp::cast(b)))
    }

    #[inline(always)]
    fn mul_add(self, a: pulp::f64x8, b: pulp::f64x8, c: pulp::f64x8) -> pulp::f64x8 {
        self.mul_add_f64x8(a, b, c)
    }

    #[inline(always)]
    fn to_doubles(self, a: pulp::f64x8) -> [f64; LANES] {
        pulp::cast(a)
    }

    #[inline(always)]
    fn splat_single(self, x: f32) -> pulp::f32x16 {
        self.splat_f32x16(x)
    }

    #[inline(always)]
    fn load_singles(self, from: &[f32; SINGLES]) -> pulp::f32x16 {
        pulp::cast(*from)
    }

    #[inline(always)]
    fn mul_add_singles(self, a: pulp::f32x16, b: pulp::f32x16, c: pulp::f32x16) -> pulp::f32x16 {
        self.mul_add_f32x16(a, b, c)
    }

    #[inline(always)]
    fn to_singles(self, a: pulp::f32x16) -> [f32; SINGLES] {
        pulp::cast(a)
    }

    #[inline(always)]
    fn rounded(self, x: pulp::f64x8, steps: pulp::f64x8, magic: pulp::f64x8) -> pulp::i64x8 {
        pulp::cast(self.mul_add_f64x8(x, steps, magic))
    }
}

#[cfg(target_arch = "x86_64")]
impl Lanes for pulp::x86::V3 {
    type Doubles = [pulp::f64x4; 2];
    type Words = [pulp::i64x4; 2];
    type Singles = [pulp::f32x8; 2];
    const FUSED: bool = true;

    #[inline(always)]
    fn splat(self, x: f64) -> [pulp::f64x4; 2] {
        [self.splat_f64x4(x); 2]
    }

    #[inline(always)]
    fn doubles(self, from: &[f64; LANES]) -> [pulp::f64x4; 2] {
        pulp::cast(*from)
    }

    #[inline(always)]
    fn singles(self, from: &[f32; LANES]) -> [pulp::f64x4; 2] {
        let halves: [pulp::f32x4; 2] = pulp::cast(*from);
        [
            self.convert_f32x4_to_f64x4(halves[0]),
            self.convert_f32x4_to_f64x4(halves[1]),
        ]
    }

    #[inline(always)]
    fn words(self, from: &[i64; LANES]) -> [pulp::i64x4; 2] {
        pulp::cast(*from)
    }

    #[inline(always)]
    fn to_array(self, words: [pulp::i64x4; 2]) -> [i64; LANES] {
        pulp::cast(words)
    }

    #[inline(always)]
    fn add(self, a: [pulp::i64x4; 2], b: [pulp::i64x4; 2]) -> [pulp::i64x4; 2] {
        [
            pulp::cast(
                self.avx2
                    ._mm256_add_epi64(pulp::cast(a[0]), pulp::cast(b[0])),
            ),
            pulp::cast(
                self.avx2
                    ._mm256_add_epi64(pulp::cast(a[1]), pulp::cast(b[1])),
            ),
        ]
    }

    #[inline(always)]
    fn mul_add(
        self,
        a: [pulp::f64x4; 2],
        b: [pulp::f64x4; 2],
        c: [pulp::f64x4; 2],
    ) -> [pulp::f64x4; 2] {
        [
            self.mul_add_f64x4(a[0], b[0], c[0]),
            self.mul_add_f64x4(a[1], b[1], c[1]),
        ]
    }

    #[inline(always)]
    fn to_doubles(self, a: [pulp::f64x4; 2]) -> [f64; LANES] {
        pulp::cast(a)
    }

    #[inline(always)]
    fn splat_single(self, x: f32) -> [pulp::f32x8; 2] {
        [self.splat_f32x8(x); 2]
    }

    #[inline(always)]
    fn load_singles(self, from: &[f32; SINGLES]) -> [pulp::f32x8; 2] {
        pulp::cast(*from)
    }

    #[inline(always)]
    fn mul_add_singles(
        self,
        a: [pulp::f32x8; 2],
        b: [pulp::f32x8; 2],
        c: [pulp::f32x8; 2],
    ) -> [pulp::f32x8; 2] {
        [
            self.mul_add_f32x8(a[0], b[0], c[0]),
            self.mul_add_f32x8(a[1], b[1], c[1]),
        ]
    }

    #[inline(always)]
    fn to_singles(self, a: [pulp::f32x8; 2]) -> [f32; SINGLES] {
        pulp::cast(a)
    }

    #[inline(always)]
    fn rounded(
        self,
        x: [pulp::f64x4; 2],
        steps: [pulp::f64x4; 2],
        magic: [pulp::f64x4; 2],
    ) -> [pulp::i64x4; 2] {
        [
            pulp::cast(self.mul_add_f64x4(x[0], steps[0], magic[0])),
            pulp::cast(self.mul_add_f64x4(x[1], steps[1], magic[1])),
        ]
    }
}

/// Runs a kernel on the portable fused lanes (0), AVX2 (1) or AVX-512 (2), for tests that compare
/// their bits; false where the processor has not got them.
#[cfg(test)]
pub(super) fn on_width<K: Kernel>(width: usize, kernel: K) -> bool {
    if width == 0 {
        kernel.run(Arrays::<true>);
        return true;
    }
    #[cfg(target_arch = "x86_64")]
    if width == 1 {
        if let Some(simd) = pulp::x86::V3::try_new() {
            Simd::vectorize(simd, With(kernel, simd));
            return true;
        }
    } else if let Some(simd) = pulp::x86::V4::try_new() {
        Simd::vectorize(simd, With(kernel, simd));
        return true;
    }
    false
}
