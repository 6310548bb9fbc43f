//! Certified bounds on epsilon and delta from the privacy-loss distribution.
//!
//! For a mechanism with dominating pair `(P, Q)` and privacy loss `L = log dP/dQ`,
//!
//! ```text
//! delta(eps) = E_P[(1 - e^{eps - L})_+],
//! ```
//!
//! and the loss of a composition is the sum of independent losses. This module cuts each
//! loss to a lattice twice, once so that delta can only grow (connect the dots; Doroshenko,
//! Ghazi, Kamath, Kumar, Manurangsi, 2022) and once so that it can only shrink, tilts it by
//! `e^{theta L}` so that the tail of interest is where the mass is, composes it by a fast
//! Fourier transform, and adds bounds for truncation, wrap-around and rounding. Both results
//! are therefore bounds and not estimates, for delta down to about 1e-270. The argument
//! stands in `docs/privacy/accounting.md`. Taken are Gaussians and Laplace noise, plain and
//! Poisson-sampled, and pure, approximate, discrete and concentrated releases, in any composition.
//!
//! ```
//! use dpopt_accounting::accounting::pld;
//! use dpopt_accounting::{Adjacency, Delta, Event, NoiseMultiplier, SamplingRate};
//!
//! let step = Event::gaussian(NoiseMultiplier::new(1.0)?).poisson_sampled(SamplingRate::new(0.01)?);
//! let bounds = pld::epsilon(&step.repeated(1000), Delta::new(1e-5)?, Adjacency::AddRemove)?;
//! assert!(bounds.lower <= 1.8282366 && 1.8282367 <= bounds.upper);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod allocation;
mod any;
mod compose;
mod error;
mod fixed;
mod laplace;
mod lattice;
mod law;
mod mixture;
mod pair;
mod plan;
mod points;
mod replaced;
mod steps;
mod sums;
mod tilted;

use crate::{Adjacency, Delta, Epsilon, Event};
use compose::{Composed, Grid, Side};
pub use error::PldError;
use lattice::Cells;
use law::Kind;
use plan::{Cumulants, LN_FLOOR, Saddle, Step, Window};
use realfft::RealFftPlanner;
pub(in crate::accounting) use steps::chain;
use steps::{Direction, releases, steps};

/// A lower and an upper bound on one number. The truth lies between them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PldBounds {
    /// The truth is at least this (optimistic).
    pub lower: f64,
    /// The truth is at most this (pessimistic): the one to promise.
    pub upper: f64,
}

impl PldBounds {
    const ZERO: Self = Self {
        lower: 0.0,
        upper: 0.0,
    };

    /// `upper - lower`.
    #[must_use]
    pub fn width(&self) -> f64 {
        self.upper - self.lower
    }
}

/// How close the bounds are to be, and what may be spent on it.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct PldOptions {
    /// Target for `(upper - lower) / lower`. The bounds hold whether or not it is reached.
    /// Default 0.001.
    pub relative_width: f64,
    /// Largest length of a transform; memory is about 60 bytes per entry and kind of step.
    /// Default 4,194,304.
    pub max_size: usize,
    /// Fixed lattice step in units of the privacy loss. Default none: chosen and refined.
    pub step: Option<f64>,
}

impl Default for PldOptions {
    fn default() -> Self {
        Self {
            relative_width: 1e-3,
            max_size: 1 << 22,
            step: None,
        }
    }
}

impl PldOptions {
    /// The same options with another target width.
    #[must_use]
    pub fn with_relative_width(mut self, relative_width: f64) -> Self {
        self.relative_width = relative_width;
        self
    }

    /// The same options with a fixed lattice step.
    #[must_use]
    pub fn with_step(mut self, step: f64) -> Self {
        self.step = Some(step);
        self
    }
}

const ROUNDS: usize = 7;

/// Bounds on the epsilon of `event` at `delta` under `adjacency`.
///
/// Under add-remove and zero-out the larger of the two directions counts. Under replace-one a
/// noise multiplier of `z` means a standard deviation of `2 z` clip norms, and a sampled step
/// has the pair `(1-q) N(0, 4z^2) + q N(1, 4z^2)` against `(1-q) N(0, 4z^2) + q N(-1, 4z^2)`.
/// A Gaussian on a sample of fixed size has bounds that need not meet under replace-one: what is known from below is what
/// records attain (`docs/privacy/accounting.md`). Of an allocation to several of its steps nothing is known from below: the lower bound
/// is 0.
/// A Poisson sample of Laplace noise is refused under replace-one.
///
/// # Errors
/// [`PldError`] for an event without a known dominating pair or one beyond the numeric range.
pub fn epsilon(event: &Event, delta: Delta, adjacency: Adjacency) -> Result<PldBounds, PldError> {
    epsilon_with(event, delta, adjacency, &PldOptions::default())
}

/// [`epsilon`] with options.
///
/// # Errors
/// As [`epsilon`], and for options out of range.
pub fn epsilon_with(
    event: &Event,
    delta: Delta,
    adjacency: Adjacency,
    options: &PldOptions,
) -> Result<PldBounds, PldError> {
    let query = Query::Epsilon(delta.get());
    solve(event, query, adjacency, options, Ends::Both, 1)
}

/// Bounds on the epsilon of `event` for a group of so many records: between data sets that are as many steps of `adjacency`
/// apart. Tight for Gaussians, plain and Poisson-sampled, for plain Laplace noise and for pure releases.
pub(super) fn group_epsilon(
    event: &Event,
    records: u64,
    delta: Delta,
    adjacency: Adjacency,
    options: &PldOptions,
) -> Result<PldBounds, PldError> {
    let query = Query::Epsilon(delta.get());
    solve(event, query, adjacency, options, Ends::Both, records)
}

/// As [`group_epsilon`], of delta.
pub(super) fn group_delta(
    event: &Event,
    records: u64,
    epsilon: f64,
    adjacency: Adjacency,
    options: &PldOptions,
) -> Result<PldBounds, PldError> {
    if !epsilon.is_finite() || epsilon < 0.0 {
        return Err(PldError::BadEpsilon { value: epsilon });
    }
    let query = Query::Delta(epsilon);
    solve(event, query, adjacency, options, Ends::Both, records)
}

/// The upper bound of [`epsilon`](fn@epsilon), without what only its lower bound needs.
pub(super) fn upper_epsilon(
    event: &Event,
    delta: Delta,
    adjacency: Adjacency,
) -> Result<f64, PldError> {
    let query = Query::Epsilon(delta.get());
    let options = PldOptions::default();
    solve(event, query, adjacency, &options, Ends::Upper, 1).map(|bounds| bounds.upper)
}

/// Bounds on the delta of `event` at `epsilon` under `adjacency`.
///
/// # Errors
/// [`PldError`] as [`epsilon`](fn@epsilon), and for a negative epsilon.
pub fn delta(event: &Event, epsilon: f64, adjacency: Adjacency) -> Result<PldBounds, PldError> {
    if !epsilon.is_finite() || epsilon < 0.0 {
        return Err(PldError::BadEpsilon { value: epsilon });
    }
    let query = Query::Delta(epsilon);
    solve(
        event,
        query,
        adjacency,
        &PldOptions::default(),
        Ends::Both,
        1,
    )
}

/// The bounds of [`delta`](fn@delta) at each of several epsilons.
pub(super) fn deltas(
    event: &Event,
    epsilons: &[Epsilon],
    adjacency: Adjacency,
) -> Result<Vec<PldBounds>, PldError> {
    let options = PldOptions::default();
    let composition = Composition::of(event, None, adjacency, Ends::Both, 1)?;
    let each = |epsilon: &Epsilon| composition.bounds(Query::Delta(epsilon.get()), &options);
    epsilons.iter().map(each).collect()
}

/// Which ends of the interval are asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Ends {
    Both,
    Upper,
}

#[derive(Debug, Clone, Copy)]
enum Query {
    /// Epsilon at this delta.
    Epsilon(f64),
    /// Delta at this epsilon.
    Delta(f64),
}

fn solve(
    event: &Event,
    query: Query,
    adjacency: Adjacency,
    options: &PldOptions,
    ends: Ends,
    records: u64,
) -> Result<PldBounds, PldError> {
    for (name, value, ok) in [
        (
            "relative_width",
            options.relative_width,
            options.relative_width > 0.0 && options.relative_width.is_finite(),
        ),
        (
            "max_size",
            options.max_size as f64,
            (1 << 10..=1 << 28).contains(&options.max_size),
        ),
        (
            "step",
            options.step.unwrap_or(1.0),
            options.step.is_none_or(|h| h > 0.0 && h.is_finite()),
        ),
    ] {
        if !ok {
            return Err(PldError::BadOption { name, value });
        }
    }
    let delta = match query {
        Query::Epsilon(delta) => Some(delta),
        Query::Delta(_) => None,
    };
    Composition::of(event, delta, adjacency, ends, records)?.bounds(query, options)
}

/// An event, ready to be asked.
struct Composition {
    ways: Vec<Way>,
    /// Whether no records are known to attain what is computed.
    by_parts: bool,
}

/// The steps of one direction, and which of its bounds count.
struct Way {
    steps: Vec<Step>,
    lower: bool,
    upper: bool,
}

impl Composition {
    /// For questions about epsilon at this delta, or about delta at any epsilon.
    fn of(
        event: &Event,
        delta: Option<f64>,
        adjacency: Adjacency,
        ends: Ends,
        records: u64,
    ) -> Result<Self, PldError> {
        let releases = releases(event, adjacency, records)?;
        let both = |poisson, fixed| Direction {
            poisson,
            fixed,
            group: None,
            keeps_places: adjacency == Adjacency::ZeroOut,
        };
        let same = |kind| both(kind, kind);
        let fixed = releases.iter().any(steps::Release::is_fixed);
        let directions: &[Direction] = match adjacency {
            _ if releases.is_empty() => &[],
            _ if records > 1 => &groups(&releases, adjacency, records),
            // Both pairs are then the same, or the pair is symmetric.
            _ if releases.iter().all(steps::Release::is_symmetric) => &[same(Kind::Plain)],
            Adjacency::AddRemove | Adjacency::ZeroOut => &[same(Kind::Remove), same(Kind::Add)],
            // Attained by records, and the curve above all records.
            Adjacency::ReplaceOne if fixed && ends == Ends::Both => &[
                both(Kind::Replace, Kind::Remove),
                both(Kind::Replace, Kind::Add),
                same(Kind::Replace),
            ],
            Adjacency::ReplaceOne => &[same(Kind::Replace)],
        };
        let ln_above = steps::ln_above(&releases, delta);
        let mut laws = Vec::new();
        let mut way = |&way: &Direction| {
            let split = fixed && adjacency == Adjacency::ReplaceOne;
            // No records attain it.
            let above = split && matches!(way.fixed, Kind::Replace);
            Ok(Way {
                steps: steps(&releases, way, ln_above, &mut laws)?,
                lower: !above,
                upper: !split || above,
            })
        };
        Ok(Self {
            ways: directions.iter().map(&mut way).collect::<Result<_, _>>()?,
            by_parts: bounded_by_parts(event),
        })
    }

    fn bounds(&self, query: Query, options: &PldOptions) -> Result<PldBounds, PldError> {
        let mut worst = PldBounds::ZERO;
        for way in &self.ways {
            // A direction that stays below what another one certainly reaches need not be tight.
            let bounds = direction(&way.steps, query, worst.lower, options)?;
            if way.lower {
                worst.lower = worst.lower.max(bounds.lower);
            }
            if way.upper {
                worst.upper = worst.upper.max(bounds.upper);
            }
        }
        if self.by_parts {
            worst.lower = 0.0;
        }
        Ok(worst)
    }
}

/// Whether there is an allocation to some of its steps, more than one and not all, in whose place so many of one step are accounted for.
fn bounded_by_parts(event: &Event) -> bool {
    let mut left = vec![event];
    while let Some(event) = left.pop() {
        if let Event::RandomAllocation {
            num_steps,
            num_participations,
            ..
        } = event
            && *num_participations > 1
            && num_participations != num_steps
        {
            return true;
        }
        left.extend(event.children());
    }
    false
}

/// The ways in which so many records may differ: all on one side, or some on either.
fn groups(releases: &[steps::Release], adjacency: Adjacency, records: u64) -> Vec<Direction> {
    let way = |kind, group| Direction {
        poisson: kind,
        fixed: kind,
        group: Some(group),
        keeps_places: false,
    };
    if releases.iter().all(steps::Release::is_symmetric) {
        return vec![way(Kind::Plain, (records, 0))];
    }
    match adjacency {
        Adjacency::ReplaceOne => vec![way(Kind::Replace, (records, records))],
        // The first is the worst as a rule, and the others then need not be tight.
        _ => (0..=records)
            .rev()
            .map(|plus| way(Kind::Remove, (plus, records - plus)))
            .collect(),
    }
}

fn direction(
    steps: &[Step],
    query: Query,
    floor: f64,
    options: &PldOptions,
) -> Result<PldBounds, PldError> {
    // Where the losses are bounded, delta is exactly 0 from their sum on.
    let sup = steps
        .iter()
        .map(|s| s.count as f64 * s.pair.loss_sup())
        .sum::<f64>()
        * (1.0 + 1e-9);
    if let Query::Delta(eps) = query
        && eps >= sup
    {
        return Ok(PldBounds::ZERO);
    }
    // No loss is larger than this, and another direction certainly reaches it: nothing to compute.
    if matches!(query, Query::Epsilon(_)) && sup <= floor {
        return Ok(PldBounds {
            lower: 0.0,
            upper: sup,
        });
    }
    let count: f64 = steps.iter().map(|s| s.count as f64).sum();
    // What is left of delta when some losses are infinite.
    let infinite: f64 = steps
        .iter()
        .map(|s| s.count as f64 * s.pair.infinite())
        .sum();
    let left = |delta: f64| {
        let left = delta - infinite;
        if left > 0.0 { left.ln() } else { delta.ln() }
    };
    // Mass that may go to infinity: small beside delta over all steps.
    let cut = |ln_delta: f64| (ln_delta - count.ln() - 20.0).max(LN_FLOOR);
    let ln_above = match query {
        Query::Epsilon(delta) => cut(left(delta)),
        Query::Delta(eps) => {
            let rough = Cumulants::new(steps, LN_FLOOR).for_epsilon(eps).ln_delta;
            let closer = Cumulants::new(steps, cut(rough)).for_epsilon(eps).ln_delta;
            cut(closer.max(rough))
        }
    };
    // Plan and lattice must leave out the same.
    let cumulants = Cumulants::new(steps, ln_above);
    let saddle = match query {
        Query::Epsilon(delta) => cumulants.for_ln_delta(left(delta)),
        Query::Delta(eps) => cumulants.for_epsilon(eps),
    };
    let theta = saddle.theta;
    let window = cumulants.window(&saddle, 34.0);

    // Cutting a loss to cells of width h adds about h^2/2 between the two sides to the
    // variance of a step, hence theta (theta + 1) count h^2 / 4 to log delta and a
    // theta-th of that to epsilon.
    let aim = match query {
        Query::Epsilon(_) => (options.relative_width * saddle.epsilon.max(0.01 / theta))
            .max(0.3 * (floor - saddle.epsilon)),
        Query::Delta(_) => {
            let room = if floor > 0.0 {
                0.3 * (floor.ln() - saddle.ln_delta)
            } else {
                0.0
            };
            options.relative_width.max(room) / theta
        }
    };
    let mut h = options.step.unwrap_or_else(|| {
        (2.0 * aim / ((theta + 1.0) * count))
            .sqrt()
            .min(0.2 / (theta + 1.0))
            .min((window.high - window.low) / 512.0)
            .max(widest(steps).map_or(0.0, |span| span / MAX_ATOM_CELLS))
    });

    let cap = match query {
        Query::Epsilon(_) => sup,
        Query::Delta(_) => 1.0,
    };
    let mut best: Option<PldBounds> = None;
    for round in 0..ROUNDS {
        let length = ((window.high - window.low) / h).ceil() + 2.0;
        let too_long = !length.is_finite() || length > options.max_size as f64;
        if too_long && (best.is_some() || options.step.is_some()) {
            break;
        }
        if too_long {
            h = (window.high - window.low) / (0.9 * options.max_size as f64 - 2.0);
        }
        if options.step.is_none() {
            h = aligned(steps, h);
        }
        let bounds = match at_step(
            steps,
            query,
            &cumulants,
            &saddle,
            (&window, ln_above),
            h,
            options.max_size,
        ) {
            Ok(bounds) => bounds,
            // A coarser lattice may still give an answer, or already has.
            Err(_) if best.is_some() => break,
            Err(PldError::TooFine { .. }) if options.step.is_none() && round + 1 < ROUNDS => {
                h *= 4.0;
                continue;
            }
            Err(error) => return Err(error),
        };
        let before = best.map_or(f64::INFINITY, |b| b.width());
        let (lower, upper) = best.map_or((0.0, f64::INFINITY), |b| (b.lower, b.upper));
        let bounds = PldBounds {
            lower: bounds.lower.max(lower),
            upper: bounds.upper.min(upper).min(cap),
        };
        best = Some(bounds);
        let target = match query {
            Query::Epsilon(_) => options.relative_width * bounds.lower.max(0.01 / theta),
            Query::Delta(_) => options.relative_width * bounds.lower,
        };
        let negligible = matches!(query, Query::Delta(_)) && bounds.upper < 1e-250;
        // What is left is not due to the lattice.
        let stuck = before.is_finite() && bounds.width() > 0.8 * before;
        if options.step.is_some()
            || stuck
            || too_long
            || negligible
            || bounds.upper <= floor
            || bounds.width() <= target
        {
            break;
        }
        // The width falls like the square of the step.
        let wish = (target / bounds.width()).sqrt() * 0.9;
        h *= if wish.is_finite() {
            wish.clamp(0.1, 0.6)
        } else {
            0.25
        };
    }
    best.ok_or(PldError::TooFine {
        cells: (window.high - window.low) / h,
        limit: options.max_size as f64,
    })
}

/// Cells between two atoms of one step to begin with, however steep the tilt.
const MAX_ATOM_CELLS: f64 = 262_144.0;

/// The distance between the two atoms of the kind of step for which it matters most.
fn widest(steps: &[Step]) -> Option<f64> {
    steps
        .iter()
        .filter_map(|step| {
            let span = step.pair.grain()?;
            Some((step.count as f64 * span, span))
        })
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, span)| span)
}

/// The last bits of a step, which are not used.
const STEP_BITS: u64 = (1 << 29) - 1;

/// The next smaller step that puts both atoms on lattice points. Any step is valid; this one
/// makes the bounds close.
fn aligned(steps: &[Step], h: f64) -> f64 {
    match widest(steps) {
        // Rounded up to the bits that it will have: an atom just above a point is one that stays there.
        Some(span) if span >= h => {
            let h = span / (span / h).ceil();
            f64::from_bits((h.to_bits() + STEP_BITS) & !STEP_BITS)
        }
        _ => h,
    }
}

/// Both bounds at one lattice step.
fn at_step(
    steps: &[Step],
    query: Query,
    cumulants: &Cumulants,
    saddle: &Saddle,
    (window, ln_above): (&Window, f64),
    h: f64,
    max_size: usize,
) -> Result<PldBounds, PldError> {
    // Few significant bits: the lattice points i h are then exact.
    let h = f64::from_bits(h.to_bits() & !STEP_BITS);
    let ln_count = steps.iter().map(|s| s.count as f64).sum::<f64>().ln();
    let cells = steps
        .iter()
        .map(|step| Cells::new(&step.pair, h, -40.0 - ln_count, ln_above, max_size))
        .collect::<Result<Vec<_>, _>>()?;
    let length = ((window.high - window.low) / h).ceil() + 2.0;
    let grid = Grid {
        h,
        theta: saddle.theta,
        window: *window,
        size: (length as usize).max(1 << 10).next_power_of_two(),
    };
    // Both sides use the same transforms.
    let mut planner = RealFftPlanner::new();
    let mut answer = |side| {
        let composed = Composed::new(side, steps, &cells, cumulants, &grid, &mut planner)?;
        Ok(match query {
            Query::Epsilon(delta) => composed.epsilon(delta, saddle.epsilon, window.high),
            Query::Delta(eps) => composed.delta(eps),
        })
    };
    Ok(PldBounds {
        lower: answer(Side::Lower)?,
        upper: answer(Side::Upper)?,
    })
}
