//! Two public points, and how much of the field at the first is taken from that at the second.

use dpopt_linalg::norm;
use dpopt_privacy::UnitError;
use serde::Serialize;

/// The straight way between two public points.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Segment<'a> {
    /// Where it starts.
    pub from: &'a [f64],
    /// Where it ends.
    pub to: &'a [f64],
    /// `to - from`, from the coordinates once; may be far more accurate than what is added to
    /// `from` to get `to`.
    pub displacement: &'a [f64],
}

impl<'a> Segment<'a> {
    /// From `from` to `to`, which differ by `displacement`; none unless all have the same length.
    #[must_use]
    pub fn new(from: &'a [f64], to: &'a [f64], displacement: &'a [f64]) -> Option<Self> {
        (from.len() == to.len() && from.len() == displacement.len()).then_some(Self {
            from,
            to,
            displacement,
        })
    }

    /// Whether all three have `dim` coordinates: a field may have been set after it was made.
    pub(crate) fn fits(&self, dim: usize) -> bool {
        [self.from, self.to, self.displacement]
            .iter()
            .all(|x| x.len() == dim)
    }
}

/// The weight a of a fresh gradient in a step of recursive momentum: above 0, at most 1. At 1 nothing is left of the
/// estimate before.
///
/// Cutkosky and Orabona, "Momentum-Based Variance Reduction in Non-Convex SGD" (arXiv 1905.10018), whose
/// estimator this is, without noise.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Momentum(f64);

impl Momentum {
    /// Weight 0, that of a plain change: an estimate with it never forgets.
    pub(crate) const NONE: Self = Self(0.0);

    /// With weight `fresh`.
    ///
    /// # Errors
    /// [`UnitError::NotAProbability`].
    pub fn new(fresh: f64) -> Result<Self, UnitError> {
        if fresh > 0.0 && fresh <= 1.0 {
            Ok(Self(fresh))
        } else {
            Err(UnitError::NotAProbability {
                name: "the weight of a fresh gradient",
                value: fresh,
            })
        }
    }

    /// a.
    #[must_use]
    pub fn fresh(self) -> f64 {
        self.0
    }

    /// 1 - a: what is left of the estimate before.
    #[must_use]
    pub fn kept(self) -> f64 {
        1.0 - self.0
    }

    /// a `field` + (1 - a) `change`, in the place of `field`.
    ///
    /// The difference of the two long fields would leave their rounding in a short whole.
    pub fn combine(self, field: &mut [f64], change: &[f64]) {
        for (field, change) in field.iter_mut().zip(change) {
            *field = self.combined(*field, *change);
        }
    }

    pub(crate) fn combined(self, field: f64, change: f64) -> f64 {
        self.0 * field + self.kept() * change
    }

    /// Where one of the two fields is longer than `clip` (or no number): `after` less (1 - a) `before`, each clipped, in
    /// the place of `after`. Else nothing, and false: [`Momentum::combine`] is more accurate then.
    pub(crate) fn subtract(self, after: &mut [f64], before: &[f64], clip: f64) -> bool {
        let (long, longer) = (norm(before), norm(after));
        if long <= clip && longer <= clip {
            return false;
        }
        let share = |norm: f64| if norm <= clip { 1.0 } else { clip / norm };
        let (old, new) = (share(long), share(longer));
        for (after, before) in after.iter_mut().zip(before) {
            *after = *after * new - self.kept() * (*before * old);
        }
        true
    }
}
