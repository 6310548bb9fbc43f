//! Mean Hessians and products with chains of them, in a simulation.

use dpopt_oracle::query::{ChainProduct, HessianMatrix, HessianVector};
use dpopt_oracle::{AskError, Mean};
use dpopt_privacy::{Bound, ClipNorm, NoiseMultiplier, Which};

use super::super::population::Population;
use super::super::weighted::add_clipped;
use super::{Drawn, SimulatedOracle, positive};

impl<P: Population> SimulatedOracle<P> {
    /// The mean of Hessians, laid out and clipped as [`HessianMatrix`] says, without noise.
    fn hessian_mean(&self, of: HessianMatrix<'_>, copies: &[u64], size: f64) -> Vec<f64> {
        let mut sum = vec![0.0; of.coordinates()];
        let mut packed = sum.clone();
        for (i, &copies) in copies.iter().enumerate() {
            if copies > 0 {
                packed.fill(0.0);
                let product = |unit: &[f64], column: &mut [f64]| {
                    self.population.hessian_vector(i, of.point, unit, column);
                };
                of.add_products(product, &mut packed);
                add_clipped(&packed, of.radius.get(), copies as f64 / size, &mut sum);
            }
        }
        sum
    }

    pub(super) fn release_hessian(
        &mut self,
        of: HessianMatrix<'_>,
        over: Which<'_>,
        noise: NoiseMultiplier,
    ) -> Result<Mean, AskError> {
        self.facts.check_point(of.point)?;
        self.admit_relation()?;
        // A protected run has no sum of more coordinates either.
        let bound = Bound::new(of.radius, of.coordinates())?;
        let Drawn { copies, size, std } = self.read(over, bound.radius(), noise)?;
        let mut mean = self.hessian_mean(of, &copies, size);
        for x in &mut mean {
            *x += std * self.normal();
        }
        self.books.count(size, 2.0 * of.point.len() as f64, 0.0);
        Ok(Mean::new(mean, std))
    }

    /// The sum of the links' means, each record's part clipped to the link's radius and to the share, with noise.
    pub(super) fn release_chain(
        &mut self,
        of: ChainProduct<'_>,
        noise: NoiseMultiplier,
    ) -> Result<Mean, AskError> {
        let dim = self.facts.dim;
        if !of.fits(dim) {
            return Err(AskError::Shape { dim });
        }
        self.admit_relation()?;
        let share = of.share.get();
        let sensitivity = self.facts.adjacency.sum_sensitivity();
        let std = positive(noise.get() * sensitivity * share)?;
        let records = self.facts.records;
        let curator = self.books.curator_mut();
        curator.charge_simulated_chain(&of.slices(), records, noise)?;
        let mut mean = vec![0.0; dim];
        let (mut product, mut before) = (mean.clone(), mean.clone());
        for (k, link) in of.links.iter().enumerate() {
            let size = link.slice().len() as f64;
            let copies = self.draw(Which::Slice(link.slice()))?;
            // As in a protected run: the weight comes before the clip.
            let radius = link.radius(of.direction).map_or(0.0, ClipNorm::get);
            let radius = radius.min(share * size);
            for (i, &copies) in copies.iter().enumerate() {
                if copies == 0 || radius == 0.0 {
                    continue;
                }
                product.fill(0.0);
                self.population
                    .hessian_vector(i, link.at(), of.direction, &mut product);
                if let Some(from) = link.from() {
                    before.fill(0.0);
                    self.population
                        .hessian_vector(i, from, of.direction, &mut before);
                    dpopt_linalg::add_scaled(&mut product, -1.0, &before);
                }
                add_clipped(&product, radius, copies as f64 / size, &mut mean);
            }
            match k {
                0 => self.books.count(size, link.gradients(), 0.0),
                _ => self.books.count_reads(size, link.gradients(), 0.0),
            }
        }
        for x in &mut mean {
            *x += std * self.normal();
        }
        Ok(Mean::new(mean, std))
    }

    pub(super) fn release_product(
        &mut self,
        of: HessianVector<'_>,
        over: Which<'_>,
        noise: NoiseMultiplier,
    ) -> Result<Mean, AskError> {
        self.facts.check_point(of.point)?;
        self.facts.check_point(of.direction)?;
        self.admit_relation()?;
        // Nothing is released where all products are zero.
        let Some(radius) = of.radius else {
            return Ok(Mean::new(vec![0.0; of.point.len()], 0.0));
        };
        let Drawn { copies, size, std } = self.read(over, radius.get(), noise)?;
        let mut mean = vec![0.0; of.point.len()];
        let mut product = mean.clone();
        for (i, &copies) in copies.iter().enumerate() {
            if copies > 0 {
                product.fill(0.0);
                self.population
                    .hessian_vector(i, of.point, of.direction, &mut product);
                add_clipped(&product, radius.get(), copies as f64 / size, &mut mean);
            }
        }
        for x in &mut mean {
            *x += std * self.normal();
        }
        self.books.count(size, 2.0, 0.0);
        Ok(Mean::new(mean, std))
    }
}
