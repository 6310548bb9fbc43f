//! The cheapest episode.

use std::f64::consts::PI;

use super::{Episode, EpisodeTerms, rounding};

/// c and ln(lambda/l - 1) to begin with, from and by how much apart, and how many.
const FLAT: (f64, f64, i32) = (0.5, 0.06, 8);
const GAPS: (f64, f64, i32) = (-3.4, 0.5, 8);
/// So often the search goes on around the best, half as far apart.
const FINER: u32 = 3;
/// Over what is asked of the curvature of an exit, so that rounding fits between.
const ROOM: [f64; 5] = [1e-6, 1e-3, 0.03, 0.2, 0.6];
/// More than one where lattices could hide a saddle for the length of one.
const BLOCKS: [f64; 10] = [1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0];
/// Steps beyond which no episode is of use.
const MOST_STEPS: f64 = 1e7;

impl Episode {
    /// The cheapest episode for these terms with an exit's curvature h of at least `bend`; none where there is none: for `bend` close to
    /// lambda or above it, and where lattices alone may hide a saddle.
    #[must_use]
    pub fn cheapest(terms: &EpisodeTerms, bend: f64) -> Option<Self> {
        cheapest(terms, bend, rounding(terms.dim))
    }
}

/// For products that are off by at most `rounding` times M beside their noise.
pub(super) fn cheapest(terms: &EpisodeTerms, bend: f64, rounding: f64) -> Option<Episode> {
    let EpisodeTerms {
        dim,
        smoothness,
        curvature,
        missed,
        false_exit,
    } = *terms;
    let in_range = dim > 0
        && smoothness > 0.0
        && curvature > 0.0
        && curvature <= smoothness
        && (0.0..1.0).contains(&missed)
        && (0.0..1.0).contains(&false_exit)
        && bend > 0.0
        && bend < curvature;
    // Written so that NaN is out of range.
    if !in_range {
        return None;
    }
    let blocks = BLOCKS.map(|blocks| (blocks, missed.powf(1.0 / blocks)));
    let mut best: Option<Found> = None;
    let attempt = |flat: f64, gap: f64, best: &mut Option<Found>| {
        let shift = curvature / (1.0 + gap.exp());
        if !(flat < 1.0 && flat * shift > bend) {
            return;
        }
        let trial = Trial::new(terms, &blocks, (shift, flat), rounding);
        if let Some(episode) = ROOM.iter().find_map(|room| trial.episode(bend, *room)) {
            // That of one record, and half of replace-one's.
            let cost = episode.products() as f64 * episode.product_noise().powi(-2);
            if best.is_none_or(|old| cost < old.cost) {
                *best = Some(Found {
                    cost,
                    at: (flat, gap),
                    episode,
                });
            }
        }
    };
    for i in 0..FLAT.2 {
        for k in 0..GAPS.2 {
            let flat = FLAT.0 + FLAT.1 * f64::from(i);
            attempt(flat, GAPS.0 + GAPS.1 * f64::from(k), &mut best);
        }
    }
    let (mut by_flat, mut by_gap) = (FLAT.1, GAPS.1);
    for _ in 0..FINER {
        (by_flat, by_gap) = (0.5 * by_flat, 0.5 * by_gap);
        let (flat, gap) = best?.at;
        for (i, k) in AROUND {
            attempt(flat + i * by_flat, gap + k * by_gap, &mut best);
        }
    }
    best.map(|found| found.episode)
}

/// The best so far, with c and ln(lambda/l - 1).
#[derive(Clone, Copy)]
struct Found {
    cost: f64,
    at: (f64, f64),
    episode: Episode,
}

/// Neighbours in the search.
const AROUND: [(f64, f64); 8] = [
    (-1.0, -1.0),
    (-1.0, 0.0),
    (-1.0, 1.0),
    (0.0, -1.0),
    (0.0, 1.0),
    (1.0, -1.0),
    (1.0, 0.0),
    (1.0, 1.0),
];

/// One choice of l and c.
struct Trial<'a> {
    terms: &'a EpisodeTerms,
    /// Numbers of blocks, and what each may miss.
    blocks: &'a [(f64, f64)],
    shift: f64,
    flat: f64,
    /// eta l.
    part: f64,
    /// 1 - ((1 + eta c l)/(1 + eta l))^2.
    loss: f64,
    /// (1 + eta lambda)/(1 + eta l).
    ratio: f64,
    /// Twice its logarithm.
    per_step: f64,
    /// delta.
    rounding: f64,
    /// What it adds to what a block misses, for s = sqrt(2/pi).
    hides: f64,
}

impl<'a> Trial<'a> {
    fn new(
        terms: &'a EpisodeTerms,
        blocks: &'a [(f64, f64)],
        (shift, flat): (f64, f64),
        rounding: f64,
    ) -> Self {
        let part = shift / terms.smoothness;
        let kept = (1.0 + flat * part) / (1.0 + part);
        let ratio = (1.0 + terms.curvature / terms.smoothness) / (1.0 + part);
        Self {
            terms,
            blocks,
            shift,
            flat,
            part,
            loss: 1.0 - kept * kept,
            ratio,
            per_step: 2.0 * ratio.ln(),
            rounding,
            hides: rounding / (1.0 + part) * ((ratio + 1.0) / (ratio - 1.0)).sqrt(),
        }
    }

    /// The curvature of an exit: Theorem 1 (b), with s and beta.
    fn bend(&self, inside: f64, noise: f64, reach: f64) -> f64 {
        let inside = inside + self.rounding / (self.part * (1.0 - self.flat));
        let positive = reach * noise / self.part.sqrt() + self.rounding * self.part.powf(-1.5);
        self.shift * (self.flat * (1.0 - inside * inside) - positive * positive)
    }

    /// Steps after which a saddle was left, but with probability p: Theorem 1 (a), of the number of blocks that makes them fewest.
    fn steps(&self, noise: f64) -> Option<f64> {
        let over = (2.0 / PI).sqrt() / noise;
        let r = self.ratio;
        let rounded = over * self.hides;
        let of = |&(blocks, missed): &(f64, f64)| {
            let left = missed - rounded;
            // NaN leaves nothing.
            if !(left > 0.0) {
                return None;
            }
            let x = over / left;
            let block = (x * x * (r * r - 1.0)).ln_1p() / self.per_step;
            Some(blocks * block.ceil().max(2.0))
        };
        let steps = self
            .blocks
            .iter()
            .filter_map(of)
            .fold(f64::INFINITY, f64::min);
        (steps <= MOST_STEPS).then_some(steps)
    }

    /// With beta such that an exit has curvature `bend`, and a little more.
    fn episode(&self, bend: f64, room: f64) -> Option<Episode> {
        let asked = bend * (1.0 + room) / self.shift;
        // theta = c (1 - beta^2) - beta^2 loss/(eta l), for s^2 = beta^2 loss/gn^2.
        let inside = ((self.flat - asked) / (self.flat + self.loss / self.part)).sqrt();
        // NaN is no length.
        if !(inside > 0.0) {
            return None;
        }
        let mut steps = 10.0 / self.ratio.ln();
        for _ in 0..20 {
            let reach = (self.terms.dim as f64).sqrt()
                + (2.0 * (steps / self.terms.false_exit).ln()).sqrt();
            let noise = inside * self.loss.sqrt() / reach;
            let needed = self.steps(noise)?;
            if needed <= steps {
                // A hair for the rounding of noise multipliers.
                let found = self.bend(inside, noise * (1.0 + 1e-6), reach);
                return (found >= bend).then_some(Episode {
                    terms: *self.terms,
                    shift: self.shift,
                    flat: self.flat,
                    inside,
                    bend: found,
                    noise,
                    steps: needed as u64,
                });
            }
            steps = needed;
        }
        None
    }
}
