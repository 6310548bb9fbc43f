//! Complex numbers, as far as the contour integral needs them.

use std::ops::{Add, Mul, Neg, Sub};

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Complex {
    pub(super) re: f64,
    pub(super) im: f64,
}

impl Complex {
    pub(super) const fn new(re: f64, im: f64) -> Self {
        Self { re, im }
    }

    /// `e^{ln_size + i angle}`.
    pub(super) fn polar(ln_size: f64, angle: f64) -> Self {
        let size = ln_size.exp();
        let (sin, cos) = angle.sin_cos();
        Self::new(size * cos, size * sin)
    }

    pub(super) fn exp(self) -> Self {
        Self::polar(self.re, self.im)
    }

    pub(super) fn conj(self) -> Self {
        Self::new(self.re, -self.im)
    }

    pub(super) fn abs(self) -> f64 {
        self.re.hypot(self.im)
    }

    pub(super) fn ln(self) -> Self {
        Self::new(self.abs().ln(), self.im.atan2(self.re))
    }

    /// `log(1 + self)`, relatively accurate near zero.
    pub(super) fn ln_1p(self) -> Self {
        if self.re.abs() > 0.5 || self.im.abs() > 0.5 {
            return (self + Self::new(1.0, 0.0)).ln();
        }
        let excess = 2.0 * self.re + self.re * self.re + self.im * self.im;
        Self::new(0.5 * excess.ln_1p(), self.im.atan2(1.0 + self.re))
    }

    pub(super) fn scale(self, by: f64) -> Self {
        Self::new(self.re * by, self.im * by)
    }

    pub(super) fn inverse(self) -> Self {
        let size = self.re * self.re + self.im * self.im;
        Self::new(self.re / size, -self.im / size)
    }
}

impl Add for Complex {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self::new(self.re + other.re, self.im + other.im)
    }
}

impl Sub for Complex {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self::new(self.re - other.re, self.im - other.im)
    }
}

impl Mul for Complex {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        Self::new(
            self.re * other.re - self.im * other.im,
            self.re * other.im + self.im * other.re,
        )
    }
}

impl Neg for Complex {
    type Output = Self;
    fn neg(self) -> Self {
        Self::new(-self.re, -self.im)
    }
}
