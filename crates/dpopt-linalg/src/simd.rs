//! Eight doubles at a time, with the instructions that the processor has.
//!
//! The widest of AVX-512, AVX2 with FMA, and plain code is chosen when a kernel is called. All of
//! them keep eight lanes and add them up in one fixed tree, so AVX-512, AVX2 and other fused
//! processors give the same bits; a processor without fused multiply-add rounds products first.
//! Within one process the choice never changes.

use pulp::{Simd, WithSimd};

/// Lanes of every kernel.
pub(crate) const LANES: usize = 8;

/// A kernel written once for all widths.
pub(crate) trait Kernel {
    /// What it computes.
    type Output;
    /// Runs it; implementations are `#[inline(always)]`, so that it is compiled for each width.
    fn run<L: Lanes>(self, lanes: L) -> Self::Output;
}

/// Runs a kernel with the best instructions of this processor.
#[inline]
pub(crate) fn dispatch<K: Kernel>(kernel: K) -> K::Output {
    #[cfg(target_arch = "x86_64")]
    {
        if let Some(simd) = pulp::x86::V4::try_new() {
            return Simd::vectorize(simd, With(kernel, simd));
        }
        if let Some(simd) = pulp::x86::V3::try_new() {
            return Simd::vectorize(simd, With(kernel, simd));
        }
    }
    pulp::Arch::new().dispatch(Portable(kernel))
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

/// Eight doubles and what the kernels do with them.
pub(crate) trait Lanes: Copy {
    /// The eight doubles.
    type Vector: Copy;
    /// Whether `a * b + c` is rounded once.
    const FUSED: bool;

    fn doubles(self, from: &[f64; LANES]) -> Self::Vector;
    /// Exact.
    fn singles(self, from: &[f32; LANES]) -> Self::Vector;
    /// `a * b + c`.
    fn mul_add(self, a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector;
    fn to_array(self, a: Self::Vector) -> [f64; LANES];

    /// The sum of the lanes, in a fixed tree.
    #[inline(always)]
    fn sum(self, a: Self::Vector) -> f64 {
        let a = self.to_array(a);
        let [b0, b1, b2, b3] = [a[0] + a[4], a[1] + a[5], a[2] + a[6], a[3] + a[7]];
        (b0 + b2) + (b1 + b3)
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

/// Lanes as an array.
#[derive(Clone, Copy)]
pub(crate) struct Arrays<const FUSED: bool>;

impl<const FUSED: bool> Lanes for Arrays<FUSED> {
    type Vector = [f64; LANES];
    const FUSED: bool = FUSED;

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
    fn to_array(self, a: [f64; LANES]) -> [f64; LANES] {
        a
    }
}

#[cfg(target_arch = "x86_64")]
impl Lanes for pulp::x86::V4 {
    type Vector = pulp::f64x8;
    const FUSED: bool = true;

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
    fn to_array(self, a: pulp::f64x8) -> [f64; LANES] {
        pulp::cast(a)
    }
}

#[cfg(target_arch = "x86_64")]
impl Lanes for pulp::x86::V3 {
    type Vector = [pulp::f64x4; 2];
    const FUSED: bool = true;

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
    fn to_array(self, a: [pulp::f64x4; 2]) -> [f64; LANES] {
        pulp::cast(a)
    }
}

/// Every width that this processor can run, for tests that compare their bits.
#[cfg(test)]
pub(crate) fn each_width<K: Kernel>(kernel: impl Fn() -> K) -> Vec<(&'static str, K::Output)> {
    let mut all = vec![("plain", kernel().run(Arrays::<false>))];
    all.push(("fused", kernel().run(Arrays::<true>)));
    #[cfg(target_arch = "x86_64")]
    {
        if let Some(simd) = pulp::x86::V3::try_new() {
            all.push(("v3", Simd::vectorize(simd, With(kernel(), simd))));
        }
        if let Some(simd) = pulp::x86::V4::try_new() {
            all.push(("v4", Simd::vectorize(simd, With(kernel(), simd))));
        }
    }
    all
}
