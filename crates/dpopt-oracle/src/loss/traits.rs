//! The traits of a loss: values, gradients and second derivatives, record by record.

use dpopt_linalg::{Domain, Row};
use dpopt_privacy::LatticeSum;
use serde::{Deserialize, Serialize};

use super::along_rows::AlongRows;
use super::blocks::Blocks;
use super::guard;
use super::rays::Rays;
use super::segment::{Momentum, Segment};
use crate::positions::Positions;
use crate::records::Records;

/// Public constants of a loss on bounded records.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Constants {
    /// Every record's gradient has norm at most this (L0).
    pub lipschitz: f64,
    /// Every record's gradient is Lipschitz with this constant (L1); infinite for a loss with
    /// kinks.
    pub smoothness: f64,
    /// Upper bound on F(0) - min F, for any data; infinite where none is known.
    pub initial_gap: f64,
    /// Every record's Hessian is Lipschitz with this constant (rho); infinite where none is known.
    pub hessian_lipschitz: f64,
    /// Every record's Hessian has Frobenius norm at most this (C_F); infinite where none is known. At least L1, and at most
    /// sqrt(d) L1.
    pub hessian_frobenius: f64,
    /// Whether every record's loss is convex.
    pub convexity: Convexity,
    /// C_x and C_y: bounds on the two blocks of every record's field, of a saddle problem; absent for a problem of minimisation.
    pub block_lipschitz: Option<[f64; 2]>,
    /// Whether the field of a record is the gradient of its loss and these constants hold wherever it is asked for. A loss that
    /// shortens what it adds has a field that is the gradient of nothing; no bound and no certificate is about that.
    pub whole: bool,
    /// The unit of the score.
    pub score: ScoreUnit,
}

impl Constants {
    /// Constants of a loss of one's own; see the fields.
    #[must_use]
    pub fn new(lipschitz: f64, smoothness: f64, initial_gap: f64, convexity: Convexity) -> Self {
        Self {
            lipschitz,
            smoothness,
            initial_gap,
            hessian_lipschitz: f64::INFINITY,
            hessian_frobenius: f64::INFINITY,
            convexity,
            block_lipschitz: None,
            whole: true,
            score: ScoreUnit::Logit,
        }
    }

    /// With bounds on the two blocks of a saddle problem.
    #[must_use]
    pub fn with_block_lipschitz(mut self, blocks: [f64; 2]) -> Self {
        self.block_lipschitz = Some(blocks);
        self
    }

    /// Of a field that is the gradient of the loss, or (`false`) of one that the loss shortens.
    #[must_use]
    pub fn of_whole_field(mut self, whole: bool) -> Self {
        self.whole = whole;
        self
    }

    /// With rho as well.
    #[must_use]
    pub fn with_hessian_lipschitz(mut self, rho: f64) -> Self {
        self.hessian_lipschitz = rho;
        self
    }

    /// With C_F as well.
    #[must_use]
    pub fn with_hessian_frobenius(mut self, frobenius: f64) -> Self {
        self.hessian_frobenius = frobenius;
        self
    }

    /// With this unit of the score.
    #[must_use]
    pub fn with_score(mut self, score: ScoreUnit) -> Self {
        self.score = score;
        self
    }
}

/// The unit in which a change of a record's score is large or small. Public: it belongs to the loss
/// and to the enforced bound on the labels. Plans without a bound take their noise and their clip
/// radius from it; nothing is proven by it.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScoreUnit {
    /// A logit, or another number that is of order one by the form of the loss.
    #[default]
    Logit,
    /// A prediction of a label in `[-h, h]`: h, half the range of the label.
    HalfRange(f64),
    /// The logarithm of a mean count.
    LogCount,
}

/// Whether a loss is convex in the parameters, for every record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Convexity {
    /// Convex for every record.
    Convex,
    /// Not convex.
    Nonconvex,
}

/// One record of the body that a loss is for.
pub type RecordOf<'a, L> = <<L as Loss>::Records as Records>::Record<'a>;

/// A loss f(w; x) of one record x at the point w.
///
/// # Privacy
/// What a method returns must be a function of its arguments alone: no state, no counters, no
/// other record. The author of a loss is trusted in this, and in nothing else: values that are not
/// finite, wrong constants and panics cost accuracy, not privacy.
pub trait Loss: Sync {
    /// The records that it is a loss of.
    type Records: Records;

    /// Whether methods may panic. Then each record is evaluated inside a guard, and one on which
    /// it panics contributes zero, silently.
    const MAY_PANIC: bool = true;

    /// Whether the value of an erased record (a row of zeros: see [`Records::HAS_ERASED`]) is the same at all
    /// points, so that its gradient and all that follows from it are zero. A loss of rows that does not say so, as
    /// one with a bias may not, is refused under zero-out adjacency.
    const VANISHES_ON_ERASED: bool = false;

    /// Number of coordinates of a point, d.
    fn dim(&self, records: &Self::Records) -> usize;

    /// Public constants for these records, from the bounds that were enforced on them. Must not
    /// read a record.
    fn constants_on(&self, records: &Self::Records) -> Constants;

    /// Constants at one public point, which may be far sharper than those on a ball: a factored loss has gradient 0 at 0. They say
    /// nothing of other points: a bound that a plan states from them, and a certificate of a window of its points, are **not** proven once
    /// a run leaves the point. The gap is F(point) - min F. The default are those of [`Loss::constants_on`]. Must not read a record.
    ///
    /// # Shapes
    /// `point`: d. A point of another length gets the constants of [`Loss::constants_on`].
    fn constants_at(&self, records: &Self::Records, point: &[f64]) -> Constants {
        let _ = point;
        self.constants_on(records)
    }

    /// About how many multiply-adds one value or gradient of one record takes. Decides on how many threads a
    /// pass is worth, and nothing else. Must not read a record.
    fn work(&self, records: &Self::Records) -> f64 {
        self.dim(records) as f64
    }

    /// How the coordinates of a point are split, of the loss of a saddle problem.
    fn blocks(&self, records: &Self::Records) -> Option<Blocks> {
        let _ = records;
        None
    }

    /// Where y is, of the loss of a saddle problem.
    fn domain(&self) -> Option<Domain> {
        None
    }

    /// f(w; x).
    fn value(&self, record: RecordOf<'_, Self>, point: &[f64]) -> f64;

    /// Adds the values, or their changes, of these records, each clipped by the sum, to `sum`, which has one coordinate. The default goes
    /// record by record; a loss with structure overrides it.
    ///
    /// # Privacy
    /// As for [`Loss::add_slopes`].
    fn add_values(
        &self,
        records: &Self::Records,
        positions: Positions<'_>,
        of: &ValuesOf<'_>,
        sum: &mut LatticeSum,
    ) {
        add_numbers::<Self>(records, &positions, sum, |record| match of.less {
            Less::Number(centre) => self.value(record, of.point) - centre,
            Less::At(from) => self.value(record, of.point) - self.value(record, from),
        });
    }

    /// Adds the slopes (f(w + a y_j; x) - f(w - a y_j; x))/(2 a) of each of these records along `rays`, clipped by the sum as one
    /// vector of m numbers, to `sum`. The default asks for 2m values of each record; a loss with structure overrides it.
    ///
    /// # Privacy
    /// An override is outside the guard, and its author is trusted as that of [`Differentiable::add_gradients`] is: each position
    /// makes **one** call of the sum, with a vector that is a function of that record and of `rays` alone, and nothing here panics.
    /// The clip is enforced by the sum.
    fn add_slopes(
        &self,
        records: &Self::Records,
        positions: Positions<'_>,
        rays: &Rays<'_>,
        sum: &mut LatticeSum,
    ) {
        let ends = rays.ends();
        let mut slopes = vec![0.0; rays.count()];
        for i in positions.iter() {
            slopes.fill(0.0);
            let finished = guarded::<Self, _>(|| {
                let record = records.record(i);
                rays.write_slopes(&ends, |point| self.value(record, point), &mut slopes);
            });
            add_contribution(sum, finished, &slopes);
        }
    }
}

/// The values of a pass: f(`point`; x), less something.
#[derive(Debug, Clone, Copy)]
pub struct ValuesOf<'a> {
    /// w.
    pub point: &'a [f64],
    /// Subtracted from each of them.
    pub less: Less<'a>,
}

/// The subtrahend of a value.
#[derive(Debug, Clone, Copy)]
pub enum Less<'a> {
    /// The same number from all of them.
    Number(f64),
    /// The record's own value at this point.
    At(&'a [f64]),
}

/// A loss with a gradient (at kinks: some fixed Clarke subgradient).
pub trait Differentiable: Loss {
    /// Whether [`Differentiable::add_gradients`] makes use of a sum in blocks of fixed positions
    /// ([`dpopt_privacy::FixedBlocks`]) where it gets one.
    const SUMS_IN_BLOCKS: bool = false;

    /// Whether what [`Differentiable::add_gradients`] adds differs from the clipped gradients by the rounding to the lattice alone. A loss
    /// around another has that of the other.
    const EXACT_SUMS: bool = !Self::SUMS_IN_BLOCKS;

    /// Whether records have rows along which their losses are averaged. Without it nothing of the kind is asked. **Whoever sets it
    /// overrides [`Differentiable::row_average`]**: the default of that is no number, so each record would count as zero.
    const HAS_ROW_AVERAGES: bool = false;

    /// Adds the gradient at `point` to `out`, which holds zeros.
    ///
    /// # Shapes
    /// `point` and `out`: d.
    fn gradient(&self, record: RecordOf<'_, Self>, point: &[f64], out: &mut [f64]);

    /// Adds the change of the gradient along `segment` to `out`, which holds zeros. The default
    /// subtracts two gradients, which cancels where the points are close: override it where the
    /// change has a form of its own.
    ///
    /// # Shapes
    /// `out`: d.
    fn gradient_change(&self, record: RecordOf<'_, Self>, segment: &Segment<'_>, out: &mut [f64]) {
        let mut before = vec![0.0; out.len()];
        self.gradient(record, segment.from, &mut before);
        self.gradient(record, segment.to, out);
        for (out, before) in out.iter_mut().zip(&before) {
            *out -= before;
        }
    }

    /// Adds the gradients of these records, clipped by the sum, to `sum`.
    fn add_gradients(
        &self,
        records: &Self::Records,
        positions: Positions<'_>,
        point: &[f64],
        sum: &mut LatticeSum,
    ) {
        let mut gradient = vec![0.0; point.len()];
        for i in positions.iter() {
            gradient.fill(0.0);
            let finished = guarded::<Self, _>(|| {
                self.gradient(records.record(i), point, &mut gradient);
            });
            add_contribution(sum, finished, &gradient);
        }
    }

    /// Adds the gradient of this record's loss averaged along its own row, or what of it is asked, to `out`, which holds zeros. For a
    /// loss with [`Differentiable::HAS_ROW_AVERAGES`]; the default is NaN, which contributes zero.
    ///
    /// # Shapes
    /// `out`: d.
    fn row_average(&self, record: RecordOf<'_, Self>, of: &AlongRows<'_>, out: &mut [f64]) {
        let _ = (record, of);
        out.fill(f64::NAN);
    }

    /// Adds the row averages of these records, clipped by the sum, to `sum`.
    fn add_row_averages(
        &self,
        records: &Self::Records,
        positions: Positions<'_>,
        of: &AlongRows<'_>,
        sum: &mut LatticeSum,
    ) {
        let mut average = vec![0.0; of.point.len()];
        for i in positions.iter() {
            average.fill(0.0);
            let finished = guarded::<Self, _>(|| {
                self.row_average(records.record(i), of, &mut average);
            });
            add_contribution(sum, finished, &average);
        }
    }

    /// Adds, for each of these records, its gradient at the end of `segment` less (1 - a) times that at its start, each
    /// clipped to norm `clip` (as the gradients of [`Differentiable::add_gradients`] are), to `sum`, which clips what is
    /// added once more to its own radius. Where neither is shortened it is a times the gradient plus (1 - a) times
    /// [`Differentiable::gradient_change`]. The weight a is that of `momentum`: 0 for a plain change.
    fn add_changes(
        &self,
        records: &Self::Records,
        positions: Positions<'_>,
        segment: &Segment<'_>,
        clip: f64,
        momentum: Momentum,
        sum: &mut LatticeSum,
    ) {
        add_each_change(self, records, &positions, (segment, clip, momentum), sum);
    }
}

/// [`Differentiable::add_changes`] one record after another.
pub(crate) fn add_each_change<L: Differentiable + ?Sized>(
    loss: &L,
    records: &L::Records,
    positions: &Positions<'_>,
    (segment, clip, momentum): (&Segment<'_>, f64, Momentum),
    sum: &mut LatticeSum,
) {
    let dim = segment.from.len();
    let (mut before, mut after) = (vec![0.0; dim], vec![0.0; dim]);
    for i in positions.iter() {
        before.fill(0.0);
        after.fill(0.0);
        let finished = guarded::<L, _>(|| {
            let record = records.record(i);
            add_change(
                loss,
                record,
                segment,
                clip,
                momentum,
                &mut before,
                &mut after,
            );
        });
        add_contribution(sum, finished, &after);
    }
}

/// The clipped gradient at the end of a segment less (1 - a) times that at its start. `before` and `after` hold zeros;
/// the result is in `after`.
pub(crate) fn add_change<L: Differentiable + ?Sized>(
    loss: &L,
    record: RecordOf<'_, L>,
    segment: &Segment<'_>,
    clip: f64,
    momentum: Momentum,
    before: &mut [f64],
    after: &mut [f64],
) {
    loss.gradient(record, segment.from, before);
    loss.gradient(record, segment.to, after);
    if momentum.subtract(after, before, clip) {
        return;
    }
    before.fill(0.0);
    loss.gradient_change(record, segment, before);
    momentum.combine(after, before);
}

/// A loss with second derivatives.
pub trait TwiceDifferentiable: Differentiable {
    /// Whether [`TwiceDifferentiable::add_hessian_vectors`] and [`TwiceDifferentiable::add_hessian_changes`] make use of a sum in blocks of
    /// fixed positions ([`dpopt_privacy::FixedBlocks`]) where they get one.
    const PRODUCTS_IN_BLOCKS: bool = false;

    /// Adds the product of the Hessian at `point` with `direction` to `out`, which holds zeros.
    ///
    /// # Shapes
    /// `point`, `direction` and `out`: d.
    fn hessian_vector(
        &self,
        record: RecordOf<'_, Self>,
        point: &[f64],
        direction: &[f64],
        out: &mut [f64],
    );

    /// Adds the products of these records' Hessians with `direction` to `sum`, each clipped. The default goes record by record; a loss with
    /// structure overrides it.
    fn add_hessian_vectors(
        &self,
        records: &Self::Records,
        positions: Positions<'_>,
        point: &[f64],
        direction: &[f64],
        sum: &mut LatticeSum,
    ) {
        let mut product = vec![0.0; point.len()];
        for i in positions.iter() {
            product.fill(0.0);
            let finished = guarded::<Self, _>(|| {
                self.hessian_vector(records.record(i), point, direction, &mut product);
            });
            add_contribution(sum, finished, &product);
        }
    }

    /// Adds the products of the changes of these records' Hessians, from `from` to `to`, with `direction` to `sum`, each clipped.
    fn add_hessian_changes(
        &self,
        records: &Self::Records,
        positions: Positions<'_>,
        (from, to): (&[f64], &[f64]),
        direction: &[f64],
        sum: &mut LatticeSum,
    ) {
        let (mut before, mut product) = (vec![0.0; to.len()], vec![0.0; to.len()]);
        for i in positions.iter() {
            before.fill(0.0);
            product.fill(0.0);
            let finished = guarded::<Self, _>(|| {
                let record = records.record(i);
                self.hessian_vector(record, from, direction, &mut before);
                self.hessian_vector(record, to, direction, &mut product);
            });
            for (product, before) in product.iter_mut().zip(&before) {
                *product -= before;
            }
            add_contribution(sum, finished, &product);
        }
    }

    /// c and x of a Hessian c x x^T, where it has that form at every point: it is then added from the entries of x that are
    /// not zero, in place of d products.
    fn rank_one<'r>(&self, record: RecordOf<'r, Self>, point: &[f64]) -> Option<(f64, Row<'r>)> {
        let _ = (record, point);
        None
    }

    /// The Hessian in [`Bordered`] form, where it has that at every point: it is then added from entries that are not zero, too.
    fn bordered<'r>(&self, record: RecordOf<'r, Self>, point: &[f64]) -> Option<Bordered<'r>> {
        let _ = (record, point);
        None
    }
}

/// The Hessian [[c x x^T, x b^T], [b x^T, D]] of a loss of <w, x> and a few numbers t behind the weights w.
#[derive(Clone)]
pub struct Bordered<'r> {
    /// c: the second derivative in the score.
    pub factor: f64,
    /// x.
    pub row: Row<'r>,
    /// b: those in the score and each of the numbers behind.
    pub border: Vec<f64>,
    /// D: those in two of the numbers, row by row of the lower triangle.
    pub corner: Vec<f64>,
}

/// Adds one number of each record.
pub(crate) fn add_numbers<L: Loss + ?Sized>(
    records: &L::Records,
    positions: &Positions<'_>,
    sum: &mut LatticeSum,
    number: impl Fn(RecordOf<'_, L>) -> f64,
) {
    for i in positions.iter() {
        let mut found = 0.0;
        let finished = guarded::<L, _>(|| found = number(records.record(i)));
        add_contribution(sum, finished, &[found]);
    }
}

/// Adds what one record contributes; zero, but counted, when it did not finish.
pub(crate) fn add_contribution(sum: &mut LatticeSum, finished: bool, contribution: &[f64]) {
    sum.add_scaled(if finished { 1.0 } else { 0.0 }, contribution);
}

/// Runs `evaluate` for a record of this loss; false when it panicked.
pub(crate) fn guarded<L: Loss + ?Sized, F: FnOnce()>(evaluate: F) -> bool {
    if L::MAY_PANIC {
        guard::finishes(evaluate)
    } else {
        evaluate();
        true
    }
}
