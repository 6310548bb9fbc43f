//! Products with chained Hessians: one release over several slices.

use dpopt_privacy::{Bound, LatticeSum, NoiseMultiplier, Sample, Which};

use super::PrivateMean;
use crate::error::AskError;
use crate::loss::TwiceDifferentiable;
use crate::oracle::Mean;
use crate::query::{ChainProduct, HessianLink, HessianVector, HessianVectorDifference};

impl<L: TwiceDifferentiable> PrivateMean<'_, L> {
    /// Releases the product of a chain with its direction. A zero direction is released, and charged, like any other: what is
    /// spent must not hang on where a walk stands still.
    pub(super) fn release_chain(
        &mut self,
        of: &ChainProduct<'_>,
        noise: NoiseMultiplier,
    ) -> Result<Mean, AskError> {
        let dim = self.facts.dim;
        self.data.check_curator(self.books.curator())?;
        if !of.fits(dim) {
            return Err(AskError::Shape { dim });
        }
        // Second derivatives vanish on rows of zeros where gradients do, at all points.
        self.check_adjacency((true, true))?;
        let bound = Bound::new(of.share, dim)?;
        let body = self.body(Which::All)?;
        let curator = self.books.curator_mut();
        let ticket = curator.grant_chain(&of.slices(), body, bound, noise)?;
        let mut parts = Vec::with_capacity(of.links.len());
        for (link, sample) in of.links.iter().zip(ticket.samples()) {
            parts.push(self.part(link, of.direction, sample, bound)?);
        }
        let mean = self.books.curator_mut().redeem_chain(ticket, parts)?;
        for (k, link) in of.links.iter().enumerate() {
            let (read, gradients) = (link.slice().len() as f64, link.gradients());
            match k {
                0 => self.books.count(read, gradients, 0.0),
                _ => self.books.count_reads(read, gradients, 0.0),
            }
        }
        let sensitivity = bound.radius() * self.data.adjacency().sum_sensitivity();
        Ok(Mean::new(mean, noise.get() * sensitivity))
    }

    /// The mean of one link's products, in the lattice of the chain.
    fn part(
        &self,
        link: &HessianLink,
        direction: &[f64],
        sample: &Sample,
        bound: Bound,
    ) -> Result<LatticeSum, AskError> {
        let Some(radius) = link.radius(direction) else {
            return Ok(LatticeSum::new(bound));
        };
        let weight = 1.0 / sample.denominator();
        let empty = &|_| LatticeSum::weighted(bound, weight, radius.get() * weight);
        let radius = Some(radius);
        match link.from() {
            None => {
                let point = link.at();
                let query = HessianVector {
                    point,
                    direction,
                    radius,
                };
                self.sum(&query, sample, empty)
            }
            Some(from) => {
                let to = link.at();
                let query = HessianVectorDifference {
                    from,
                    to,
                    direction,
                    radius,
                };
                self.sum(&query, sample, empty)
            }
        }
    }
}
