//! The pair of a Gaussian on a Poisson sample of which at most so many records are kept.
//!
//! As long as the other records leave room it is the pair of the Poisson sample. Where they don't, the record pushes another one out, as
//! in a sample of fixed size, and the shift is of two clip norms. Whether they do is the same on both sides, so the curve is at most
//! `(1 - overflow)` times one and `overflow` times the other: `docs/privacy/truncated-batches.md`.

use libm::log;

use super::any::AnyPair;
use super::error::PldError;
use super::lattice::Cells;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Truncated {
    pub(super) within: AnyPair,
    pub(super) beyond: AnyPair,
    /// Attained by some records: for the lower bound.
    pub(super) least: AnyPair,
    /// Upper bound on the probability that there is no room.
    pub(super) overflow: f64,
}

/// The two laws together, and the lower one by itself.
pub(super) fn cells(
    pair: &Truncated,
    h: f64,
    (ln_below, ln_above): (f64, f64),
    max_cells: usize,
) -> Result<Cells, PldError> {
    let cut = |pair: &AnyPair, gain: f64| {
        let (below, above) = ((ln_below - gain).min(-1.0), (ln_above - gain).min(-1.0));
        Cells::new(pair, h, below, above, max_cells)
    };
    let within = cut(&pair.within, 0.0)?;
    let ln = log(pair.overflow);
    let beyond = if ln > ln_above {
        Some(cut(&pair.beyond, ln)?)
    } else {
        None
    };
    let least = cut(&pair.least, 0.0)?;
    let ends = |cells: &Cells| (cells.first, cells.first + cells.up.len() as i64);
    let all = [Some(&within), beyond.as_ref(), Some(&least)];
    let (mut first, mut end) = ends(&within);
    for (a, b) in all.into_iter().flatten().map(ends) {
        first = first.min(a);
        end = end.max(b);
    }
    let n = (end - first) as usize;
    let mut out = Cells {
        first,
        up: vec![0.0; n],
        down: vec![0.0; n],
        lower: Some(vec![0.0; n + 1]),
        ..within.clone()
    };
    let keep = 1.0 - pair.overflow;
    (out.below, out.above) = (0.0, 0.0);
    for (cells, share) in [(Some(&within), keep), (beyond.as_ref(), pair.overflow)] {
        let Some(cells) = cells else {
            // So rare that it may count as a failure.
            out.above += share;
            continue;
        };
        let at = (cells.first - first) as usize;
        for (i, (up, down)) in cells.up.iter().zip(&cells.down).enumerate() {
            out.up[at + i] += share * up;
            out.down[at + i] += share * down;
        }
        // Lifted to the second point of its own cells, which is not below that of all.
        let left = share * cells.below;
        out.up[at] += left;
        out.above += share * cells.above;
        out.loss_error = out.loss_error.max(cells.loss_error);
        out.relative_error = out.relative_error.max(cells.relative_error) + f64::EPSILON;
    }
    out.loss_error = out.loss_error.max(least.loss_error);
    out.relative_error = out.relative_error.max(least.relative_error);
    let at = (least.first - first) as usize;
    if let Some(lower) = &mut out.lower {
        for (i, mass) in least.averaged().into_iter().enumerate() {
            lower[at + i] = mass;
        }
    }
    Ok(out)
}
