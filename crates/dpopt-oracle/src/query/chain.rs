//! A Hessian in links: an anchor and changes of it, each a mean over a slice of its own.

use std::sync::Arc;

use dpopt_linalg::{distance, norm};
use dpopt_privacy::{ClipNorm, Slice};

/// One link of a chained Hessian: a mean over a slice of hess f(w; x), or of its change from w' to w. Public, apart from
/// the records of the slice.
#[derive(Debug, Clone, PartialEq)]
pub struct HessianLink {
    slice: Slice,
    from: Option<Vec<f64>>,
    at: Vec<f64>,
    per_length: f64,
}

impl HessianLink {
    /// The Hessian at `at`. Products are clipped to L1 ||v||.
    #[must_use]
    pub fn anchor(slice: Slice, at: &[f64], smoothness: f64) -> Self {
        Self {
            slice,
            from: None,
            at: at.to_vec(),
            per_length: smoothness,
        }
    }

    /// The change of the Hessian from `from` to `to`. Products are clipped to rho ||to - from|| ||v||.
    #[must_use]
    pub fn change(slice: Slice, from: &[f64], to: &[f64], hessian_lipschitz: f64) -> Self {
        Self {
            slice,
            per_length: hessian_lipschitz * distance(from, to),
            from: Some(from.to_vec()),
            at: to.to_vec(),
        }
    }

    /// The records.
    #[must_use]
    pub fn slice(&self) -> &Slice {
        &self.slice
    }

    /// w', of a change.
    #[must_use]
    pub fn from(&self) -> Option<&[f64]> {
        self.from.as_deref()
    }

    /// w.
    #[must_use]
    pub fn at(&self) -> &[f64] {
        &self.at
    }

    /// Clip radius of a product with `direction`; none where it is zero for all records.
    #[must_use]
    pub fn radius(&self, direction: &[f64]) -> Option<ClipNorm> {
        ClipNorm::new(self.per_length * norm(direction)).ok()
    }

    /// Per-record gradients that a product counts as.
    #[must_use]
    pub fn gradients(&self) -> f64 {
        if self.from.is_some() { 4.0 } else { 2.0 }
    }
}

/// The product of a chained Hessian with a public vector v: the sum over links of the means of their products.
///
/// # Formula
/// sum over links k of (1/m_k) sum over the slice k of clip(q_k(x)), with q_k the product of v with the Hessian or the change
/// of the link, clipped to the link's radius; each record's part of its mean, q/m_k, is clipped to the share as well. The
/// weight comes before the clip.
///
/// # Privacy
/// A record is in one slice, so it adds at most `share`, whatever it holds and whatever the constants of the loss are worth.
/// One Gaussian of the noise multiplier, scaled to the share, charged to **every** slice of the chain. See
/// `docs/privacy/curator.md`.
#[derive(Debug, Clone, Copy)]
pub struct ChainProduct<'a> {
    /// The links: an anchor first, then changes from where the one before ends.
    pub links: &'a [Arc<HessianLink>],
    /// v.
    pub direction: &'a [f64],
    /// The longest part of one record in the sum: the largest over the links.
    pub share: ClipNorm,
}

impl ChainProduct<'_> {
    /// Whether all points and the direction have `dim` coordinates.
    #[must_use]
    pub fn fits(&self, dim: usize) -> bool {
        let points = self.links.iter().flat_map(|link| {
            let from = link.from().into_iter();
            from.chain(std::iter::once(link.at()))
        });
        let mut all = points.chain(std::iter::once(self.direction));
        all.all(|x| x.len() == dim)
    }

    /// Where the chain ends: it estimates the Hessian there.
    #[must_use]
    pub fn end(&self) -> Option<&[f64]> {
        self.links.last().map(|link| link.at())
    }

    /// The slices, link by link.
    #[must_use]
    pub fn slices(&self) -> Vec<&Slice> {
        self.links.iter().map(|link| link.slice()).collect()
    }
}
