//! Kernels on eight doubles, words or bytes at a time, sixteen singles, or the words of some blocks of a stream cipher, with the instructions that the processor has.
//!
//! For the inner products of `dpopt-linalg` and the sums of `dpopt-privacy`, which share one choice of instructions. The widest of AVX-512, AVX2 with FMA, and plain code is chosen when a kernel is called. All of
//! them keep eight lanes and add them up in one fixed tree, so AVX-512, AVX2 and other fused
//! processors give the same bits; a processor without fused multiply-add rounds products first.
//! Within one process the choice never changes.

#[cfg(target_arch = "x86_64")]
use std::sync::LazyLock;

use pulp::{Simd, WithSimd};

mod mixing;
mod threads;

pub use mixing::{BLOCKS, Mixing};
pub use threads::Threads;

/// Lanes of every kernel in double precision.
pub const LANES: usize = 8;

/// Lanes of every kernel in single precision.
pub const SINGLES: usize = 16;

/// A kernel written once for all widths.
pub trait Kernel {
    /// The type of its result.
    type Output;
    /// Runs it; implementations are `#[inline(always)]`, so that it is compiled for each width.
    fn run<L: Lanes>(self, lanes: L) -> Self::Output;
}

/// Runs a kernel with the best instructions of this processor.
#[inline]
pub fn dispatch<K: Kernel>(kernel: K) -> K::Output {
    #[cfg(target_arch = "x86_64")]
    match *CHOSEN {
        Chosen::V4(simd) => return Simd::vectorize(simd, With(kernel, simd)),
        Chosen::V3(simd) => return Simd::vectorize(simd, With(kernel, simd)),
        Chosen::Other => {}
    }
    pulp::Arch::new().dispatch(Portable(kernel))
}

/// The instructions of this processor, asked once: asking costs as much as a short row.
#[cfg(target_arch = "x86_64")]
static CHOSEN: LazyLock<Chosen> = LazyLock::new(|| {
    if let Some(simd) = pulp::x86::V4::try_new() {
        Chosen::V4(simd)
    } else if let Some(simd) = pulp::x86::V3::try_new() {
        Chosen::V3(simd)
    } else {
        Chosen::Other
    }
});

#[cfg(target_arch = "x86_64")]
enum Chosen {
    V4(pulp::x86::V4),
    V3(pulp::x86::V3),
    Other,
}

/// A kernel and the lanes it is to run on.
#[cfg(target_arch = "x86_64")]
struct With<K, L>(K, L);

#[cfg(target_arch = "x86_64")]
impl<K: Kernel, L: Lanes> WithSimd for With<K, L> {
    type Output = K::Output;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> K::Output {
        self.0.run(self.1)
    }
}

/// A kernel on arrays, which the compiler vectorises as it can.
struct Portable<K>(K);

impl<K: Kernel> WithSimd for Portable<K> {
    type Output = K::Output;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> K::Output {
        if S::IS_SCALAR {
            self.0.run(Arrays::<false>)
        } else {
            self.0.run(Arrays::<true>)
        }
    }
}

/// Eight doubles, eight words, or sixteen singles, and what the kernels do with them.
pub trait Lanes: Mixing {
    /// The eight doubles.
    type Doubles: Copy;
    /// The eight words.
    type Words: Copy;
    /// The sixteen singles.
    type Singles: Copy;
    /// Whether `a * b + c` is rounded once.
    const FUSED: bool;
    /// How many times sixteen singles the registers hold.
    const REGISTERS: usize;

    /// The same number in each lane.
    fn splat(self, x: f64) -> Self::Doubles;
    /// These numbers.
    fn doubles(self, from: &[f64; LANES]) -> Self::Doubles;
    /// These numbers, exactly.
    fn singles(self, from: &[f32; LANES]) -> Self::Doubles;
    /// `a * b + c`, rounded once where [`Lanes::FUSED`].
    fn mul_add(self, a: Self::Doubles, b: Self::Doubles, c: Self::Doubles) -> Self::Doubles;
    /// The numbers in the lanes.
    fn to_doubles(self, a: Self::Doubles) -> [f64; LANES];
    /// These words.
    fn words(self, from: &[i64; LANES]) -> Self::Words;
    /// The bits of each number.
    fn bits(self, a: Self::Doubles) -> Self::Words;
    /// Sums modulo 2^64.
    fn add(self, a: Self::Words, b: Self::Words) -> Self::Words;
    /// The words in the lanes.
    fn to_words(self, words: Self::Words) -> [i64; LANES];
    /// The same number in each lane.
    fn splat_single(self, x: f32) -> Self::Singles;
    /// These numbers.
    fn load_singles(self, from: &[f32; SINGLES]) -> Self::Singles;
    /// `a * b + c`, rounded once where [`Lanes::FUSED`].
    fn mul_add_singles(self, a: Self::Singles, b: Self::Singles, c: Self::Singles)
    -> Self::Singles;
    /// The numbers in the lanes.
    fn to_singles(self, a: Self::Singles) -> [f32; SINGLES];

    /// The sums of the lanes of R times eight doubles, each in the same fixed tree.
    #[inline(always)]
    fn sums<const R: usize>(self, doubles: [Self::Doubles; R]) -> [f64; R] {
        let mut sums = [0.0; R];
        for r in 0..R {
            sums[r] = sum(self.to_doubles(doubles[r]));
        }
        sums
    }

    /// `entry` times each column, added to the sums.
    #[inline(always)]
    fn add_multiples<const J: usize>(
        self,
        entry: f64,
        columns: [Self::Doubles; J],
        mut sums: [Self::Doubles; J],
    ) -> [Self::Doubles; J] {
        let entry = self.splat(entry);
        for j in 0..J {
            sums[j] = self.mul_add(entry, columns[j], sums[j]);
        }
        sums
    }

    /// The same in single precision.
    #[inline(always)]
    fn add_single_multiples<const J: usize>(
        self,
        entry: f32,
        columns: [Self::Singles; J],
        mut sums: [Self::Singles; J],
    ) -> [Self::Singles; J] {
        let entry = self.splat_single(entry);
        for j in 0..J {
            sums[j] = self.mul_add_singles(entry, columns[j], sums[j]);
        }
        sums
    }

    /// `a * b + c` for one double, rounded as in the lanes.
    #[inline(always)]
    fn mul_add_one(self, a: f64, b: f64, c: f64) -> f64 {
        if Self::FUSED {
            a.mul_add(b, c)
        } else {
            a * b + c
        }
    }
}

/// The sum of eight lanes, in the tree that halves and pairs of neighbours give.
#[inline(always)]
fn sum(a: [f64; LANES]) -> f64 {
    let [b0, b1, b2, b3] = [a[0] + a[4], a[1] + a[5], a[2] + a[6], a[3] + a[7]];
    (b0 + b1) + (b2 + b3)
}

/// As [`sum`], four doubles at a time, given their two halves.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn sums_of_halves<const R: usize>(simd: pulp::x86::V3, halves: &[[pulp::f64x4; 2]; R]) -> [f64; R] {
    let mut sums = [0.0; R];
    let (groups, rest) = halves.as_chunks::<4>();
    for (g, [a, b, c, d]) in groups.iter().enumerate() {
        let ab = neighbours(simd, fold(simd, a), fold(simd, b));
        let cd = neighbours(simd, fold(simd, c), fold(simd, d));
        let low: pulp::f64x4 = pulp::cast([ab[0], cd[0]]);
        let high: pulp::f64x4 = pulp::cast([ab[1], cd[1]]);
        let four: [f64; 4] = pulp::cast(simd.add_f64x4(low, high));
        sums[4 * g..][..4].copy_from_slice(&four);
    }
    let done = R - rest.len();
    for (sum, halves) in sums[done..].iter_mut().zip(rest) {
        let [b0, b1, b2, b3]: [f64; 4] = pulp::cast(fold(simd, halves));
        *sum = (b0 + b1) + (b2 + b3);
    }
    sums
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn fold(simd: pulp::x86::V3, halves: &[pulp::f64x4; 2]) -> pulp::f64x4 {
    simd.add_f64x4(halves[0], halves[1])
}

/// [a0 + a1, b0 + b1] and [a2 + a3, b2 + b3].
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn neighbours(simd: pulp::x86::V3, a: pulp::f64x4, b: pulp::f64x4) -> [pulp::f64x2; 2] {
    pulp::cast(simd.avx._mm256_hadd_pd(pulp::cast(a), pulp::cast(b)))
}

/// Lanes as an array.
#[derive(Clone, Copy)]
struct Arrays<const FUSED: bool>;

impl<const FUSED: bool> Lanes for Arrays<FUSED> {
    type Doubles = [f64; LANES];
    type Words = [i64; LANES];
    type Singles = [f32; SINGLES];
    const FUSED: bool = FUSED;
    const REGISTERS: usize = 4;

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
    fn mul_add(self, a: [f64; LANES], b: [f64; LANES], mut c: [f64; LANES]) -> [f64; LANES] {
        for lane in 0..LANES {
            c[lane] = self.mul_add_one(a[lane], b[lane], c[lane]);
        }
        c
    }

    #[inline(always)]
    fn to_doubles(self, a: [f64; LANES]) -> [f64; LANES] {
        a
    }

    #[inline(always)]
    fn words(self, from: &[i64; LANES]) -> [i64; LANES] {
        *from
    }

    #[inline(always)]
    fn bits(self, a: [f64; LANES]) -> [i64; LANES] {
        a.map(|x| x.to_bits() as i64)
    }

    #[inline(always)]
    fn add(self, mut a: [i64; LANES], b: [i64; LANES]) -> [i64; LANES] {
        for lane in 0..LANES {
            a[lane] = a[lane].wrapping_add(b[lane]);
        }
        a
    }

    #[inline(always)]
    fn to_words(self, words: [i64; LANES]) -> [i64; LANES] {
        words
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
}

impl<const FUSED: bool> Mixing for Arrays<FUSED> {
    type Mixed = [u32; 4];
    const COUNT: usize = 4;

    #[inline(always)]
    fn load(self, from: &[u32; BLOCKS]) -> [u32; 4] {
        std::array::from_fn(|i| from[i])
    }

    #[inline(always)]
    fn splat_word(self, x: u32) -> [u32; 4] {
        [x; 4]
    }

    #[inline(always)]
    fn sum(self, a: [u32; 4], b: [u32; 4]) -> [u32; 4] {
        std::array::from_fn(|i| a[i].wrapping_add(b[i]))
    }

    #[inline(always)]
    fn turned<const LEFT: i32, const RIGHT: i32>(self, a: [u32; 4], b: [u32; 4]) -> [u32; 4] {
        std::array::from_fn(|i| (a[i] ^ b[i]).rotate_right(RIGHT as u32))
    }

    #[inline(always)]
    fn store(self, a: [u32; 4], to: &mut [u32; BLOCKS]) {
        to[..4].copy_from_slice(&a);
    }
}

#[cfg(target_arch = "x86_64")]
impl Lanes for pulp::x86::V4 {
    type Doubles = pulp::f64x8;
    type Words = pulp::i64x8;
    type Singles = pulp::f32x16;
    const FUSED: bool = true;
    const REGISTERS: usize = 32;

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
    fn mul_add(self, a: pulp::f64x8, b: pulp::f64x8, c: pulp::f64x8) -> pulp::f64x8 {
        self.mul_add_f64x8(a, b, c)
    }

    #[inline(always)]
    fn to_doubles(self, a: pulp::f64x8) -> [f64; LANES] {
        pulp::cast(a)
    }

    #[inline(always)]
    fn words(self, from: &[i64; LANES]) -> pulp::i64x8 {
        pulp::cast(*from)
    }

    #[inline(always)]
    fn bits(self, a: pulp::f64x8) -> pulp::i64x8 {
        pulp::cast(a)
    }

    #[inline(always)]
    fn add(self, a: pulp::i64x8, b: pulp::i64x8) -> pulp::i64x8 {
        pulp::cast(self.avx512f._mm512_add_epi64(pulp::cast(a), pulp::cast(b)))
    }

    #[inline(always)]
    fn to_words(self, words: pulp::i64x8) -> [i64; LANES] {
        pulp::cast(words)
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
    fn sums<const R: usize>(self, doubles: [pulp::f64x8; R]) -> [f64; R] {
        let mut halves = [[pulp::f64x4(0.0, 0.0, 0.0, 0.0); 2]; R];
        for r in 0..R {
            halves[r] = pulp::cast(doubles[r]);
        }
        sums_of_halves(*self, &halves)
    }
}

#[cfg(target_arch = "x86_64")]
impl Lanes for pulp::x86::V3 {
    type Doubles = [pulp::f64x4; 2];
    type Words = [pulp::i64x4; 2];
    type Singles = [pulp::f32x8; 2];
    const FUSED: bool = true;
    const REGISTERS: usize = 8;

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
        halves.map(|half| self.convert_f32x4_to_f64x4(half))
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
    fn words(self, from: &[i64; LANES]) -> [pulp::i64x4; 2] {
        pulp::cast(*from)
    }

    #[inline(always)]
    fn bits(self, a: [pulp::f64x4; 2]) -> [pulp::i64x4; 2] {
        a.map(pulp::cast)
    }

    #[inline(always)]
    fn add(self, [a0, a1]: [pulp::i64x4; 2], [b0, b1]: [pulp::i64x4; 2]) -> [pulp::i64x4; 2] {
        let sum = |a, b| pulp::cast(self.avx2._mm256_add_epi64(pulp::cast(a), pulp::cast(b)));
        [sum(a0, b0), sum(a1, b1)]
    }

    #[inline(always)]
    fn to_words(self, words: [pulp::i64x4; 2]) -> [i64; LANES] {
        pulp::cast(words)
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
    fn sums<const R: usize>(self, doubles: [[pulp::f64x4; 2]; R]) -> [f64; R] {
        sums_of_halves(self, &doubles)
    }
}

/// A set of instructions, for tests that compare their bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Width {
    /// Plain code that rounds products first.
    Plain,
    /// Plain code that does not.
    Fused,
    /// AVX2 with FMA.
    V3,
    /// AVX-512.
    V4,
}

impl Width {
    /// All of them.
    pub const ALL: [Width; 4] = [Width::Plain, Width::Fused, Width::V3, Width::V4];

    /// Runs a kernel with these instructions; none where the processor has not got them.
    pub fn run<K: Kernel>(self, kernel: K) -> Option<K::Output> {
        match self {
            Width::Plain => Some(kernel.run(Arrays::<false>)),
            Width::Fused => Some(kernel.run(Arrays::<true>)),
            #[cfg(target_arch = "x86_64")]
            Width::V3 => {
                pulp::x86::V3::try_new().map(|simd| Simd::vectorize(simd, With(kernel, simd)))
            }
            #[cfg(target_arch = "x86_64")]
            Width::V4 => {
                pulp::x86::V4::try_new().map(|simd| Simd::vectorize(simd, With(kernel, simd)))
            }
            #[cfg(not(target_arch = "x86_64"))]
            Width::V3 | Width::V4 => None,
        }
    }
}

/// What a kernel gives with each set that this processor has.
pub fn each_width<K: Kernel>(kernel: impl Fn() -> K) -> Vec<(Width, K::Output)> {
    let run = |width: Width| Some((width, width.run(kernel())?));
    Width::ALL.into_iter().filter_map(run).collect()
}

/// The type of the entries of a dense row.
pub trait Entry: Copy + Into<f64> + Send + Sync + 'static + sealed::Sealed {
    /// How entries enter the lanes, exactly.
    fn load<L: Lanes>(lanes: L, from: &[Self; LANES]) -> L::Doubles;
}

mod sealed {
    /// So that bits never depend on a type of somebody else.
    pub trait Sealed {}
    impl Sealed for f64 {}
    impl Sealed for f32 {}
    impl Sealed for u8 {}
}

impl Entry for f64 {
    #[inline(always)]
    fn load<L: Lanes>(lanes: L, from: &[f64; LANES]) -> L::Doubles {
        lanes.doubles(from)
    }
}

impl Entry for f32 {
    #[inline(always)]
    fn load<L: Lanes>(lanes: L, from: &[f32; LANES]) -> L::Doubles {
        lanes.singles(from)
    }
}

impl Entry for u8 {
    #[inline(always)]
    fn load<L: Lanes>(lanes: L, from: &[u8; LANES]) -> L::Doubles {
        lanes.singles(&from.map(f32::from))
    }
}

/// A row shorter than the lanes, with zeros before it: at their end, like the end of a longer one.
#[inline(always)]
pub fn zeros_before<T: Entry>(row: &[T]) -> [f64; LANES] {
    let mut all = [0.0; LANES];
    for (to, &from) in all.iter_mut().rev().zip(row.iter().rev()) {
        *to = from.into();
    }
    all
}

/// The first eight numbers, or all and zeros after them.
#[inline(always)]
pub fn zeros_after(from: &[f64]) -> [f64; LANES] {
    if let Some(whole) = from.first_chunk::<LANES>() {
        return *whole;
    }
    let mut all = [0.0; LANES];
    all[..from.len()].copy_from_slice(from);
    all
}
