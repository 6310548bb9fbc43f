//! A public point, and the ways from it along some directions, ahead and back.

/// The points w + a y_j and w - a y_j for directions y_1, ..., y_m: what slopes of values are taken between.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Rays<'a> {
    /// w.
    pub point: &'a [f64],
    /// y_1, then y_2, ...: m d numbers.
    pub directions: &'a [f64],
    /// a.
    pub reach: f64,
}

impl<'a> Rays<'a> {
    /// From `point`; none unless the directions have as many coordinates.
    #[must_use]
    pub fn new(point: &'a [f64], directions: &'a [f64], reach: f64) -> Option<Self> {
        directions
            .len()
            .is_multiple_of(point.len().max(1))
            .then_some(Self {
                point,
                directions,
                reach,
            })
    }

    /// m.
    #[must_use]
    pub fn count(&self) -> usize {
        self.directions.len() / self.point.len().max(1)
    }

    /// w + a y_1, w - a y_1, w + a y_2, ...: 2m points.
    #[must_use]
    pub fn ends(&self) -> Vec<f64> {
        let mut ends = Vec::with_capacity(2 * self.directions.len());
        for direction in self.directions.chunks_exact(self.point.len().max(1)) {
            for step in [self.reach, -self.reach] {
                ends.extend(self.point.iter().zip(direction).map(|(w, y)| w + step * y));
            }
        }
        ends
    }

    /// Writes the slopes (f(w + a y_j) - f(w - a y_j))/(2 a) of a function whose value at a point is `value`, which is asked at
    /// `ends`: those of [`Rays::ends`].
    ///
    /// # Shapes
    /// `out`: m.
    pub fn write_slopes(
        &self,
        ends: &[f64],
        mut value: impl FnMut(&[f64]) -> f64,
        out: &mut [f64],
    ) {
        let dim = self.point.len();
        for (pair, slope) in ends.chunks_exact(2 * dim.max(1)).zip(out) {
            let (ahead, behind) = pair.split_at(dim);
            *slope = (value(ahead) - value(behind)) / (2.0 * self.reach);
        }
    }
}
