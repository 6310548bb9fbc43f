//! Units of the numbers of a plan.

/// A unit, as powers of those of the loss and of the length of a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unit {
    /// Power of the unit of the loss.
    pub loss: i8,
    /// Power of the unit of a point's length.
    pub length: i8,
}

impl Unit {
    /// A number without a unit.
    pub const NONE: Self = Self::of(0, 0);
    /// That of a loss.
    pub const LOSS: Self = Self::of(1, 0);
    /// That of a point's length.
    pub const LENGTH: Self = Self::of(0, 1);
    /// That of a row, whose product with a point is a number.
    pub const ROW: Self = Self::of(0, -1);
    /// That of a gradient.
    pub const GRADIENT: Self = Self::of(1, -1);
    /// That of a step over a gradient.
    pub const STEP_SIZE: Self = Self::of(-1, 2);
    /// That of L1, or of the weight of a squared distance.
    pub const CURVATURE: Self = Self::of(1, -2);

    /// That of rho.
    pub const THIRD: Self = Self::of(1, -3);

    const fn of(loss: i8, length: i8) -> Self {
        Self { loss, length }
    }
}

/// As a product of powers, such as "loss length^-1".
impl std::fmt::Display for Unit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let powers = [("loss", self.loss), ("length", self.length)];
        let mut before = "";
        for (name, power) in powers.into_iter().filter(|(_, power)| *power != 0) {
            f.write_str(before)?;
            match power {
                1 => f.write_str(name)?,
                _ => write!(f, "{name}^{power}")?,
            }
            before = " ";
        }
        Ok(())
    }
}
