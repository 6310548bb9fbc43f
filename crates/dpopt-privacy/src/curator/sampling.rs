//! What a curator draws that is no noise of a release: samples, indices, directions.

use std::collections::BTreeSet;
use std::ops::Range;

use rand::Rng;
use zeroize::Zeroizing;

use crate::noise::digits::BitSource;
use crate::noise::{Purpose, real};
use crate::refused::Refused;
use crate::units::SamplingRate;

use super::Curator;
use super::allocated::AllocationTerms;

impl Curator {
    /// A number below `bound` (0 for a bound of 0), independent of the data; the bias is below
    /// bound / 2^64.
    pub fn draw_index(&mut self, bound: u64) -> u64 {
        // Perturbations are outside the privacy analysis, so a used-up stream may repeat.
        let Ok(mut stream) = self.stream(Purpose::Perturbation) else {
            return 0;
        };
        ((u128::from(stream.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Fills `out` with independent standard normals that have nothing to do with the data, for
    /// directions and perturbations; rounded to `f64`. They are **not** noise of a release: treat
    /// them as public.
    ///
    /// # Errors
    /// [`Refused::Noise`] for an empty vector, and when this purpose has no streams left.
    pub fn draw_normals(&mut self, out: &mut [f64]) -> Result<(), Refused> {
        let id = self.stream_id(Purpose::Perturbation)?;
        let mut digits = vec![0; out.len()];
        real::fill_long(&self.key, id, &self.threads, &mut digits)?;
        let unit = (-f64::from(real::LONG_BITS)).exp2();
        for (out, digits) in out.iter_mut().zip(digits) {
            *out = digits as f64 * unit;
        }
        Ok(())
    }

    /// Each of these positions enters with probability `rate` (rounded down to a multiple
    /// of 2^-64), independently. The word of a position is at its place in the stream, so that what is drawn of those that are
    /// here does not depend on which these are.
    pub(super) fn draw_poisson(
        &mut self,
        rate: SamplingRate,
        positions: Range<u64>,
        here: Option<(u64, u64)>,
    ) -> Result<Zeroizing<Vec<u32>>, Refused> {
        let mut stream = self.stream(Purpose::Sampling)?;
        let threshold = threshold(rate);
        let all = rate.get() >= 1.0;
        let (first, end) = here.unwrap_or((positions.start, positions.end));
        let from = first.clamp(positions.start, positions.end.max(positions.start));
        if from > positions.start {
            stream.seek(u128::from(from - positions.start));
        }
        let positions = from..end.min(positions.end);
        // Room for nearly every sample, so that no smaller buffer is left behind.
        let mean = rate.get() * positions.clone().count() as f64;
        let mut drawn = secret((mean + 8.0 * mean.sqrt()) as usize + 16);
        drawn.extend(
            positions
                .clone()
                .filter(|_| all || stream.next_u64() < threshold)
                .map(|i| i as u32),
        );
        Ok(self.replayed_sample(positions, drawn, false))
    }

    /// `size` of `records` positions, all subsets of that size being equally likely (Floyd's
    /// algorithm, with exactly uniform integers).
    pub(super) fn draw_fixed_size(
        &mut self,
        size: u64,
        records: u64,
    ) -> Result<Zeroizing<Vec<u32>>, Refused> {
        let mut stream = self.stream(Purpose::Sampling)?;
        let mut drawn = BTreeSet::new();
        for last in records - size..records {
            let position = stream.below(last + 1);
            if !drawn.insert(position as u32) {
                drawn.insert(last as u32);
            }
        }
        let mut sorted = secret(drawn.len());
        sorted.extend(drawn);
        Ok(self.replayed_sample(0..records, sorted, true))
    }

    /// As [`Curator::draw_poisson`] from all records, of which at most `most` are kept, all sets of them being equally likely (reservoir
    /// sampling). Never more than `most` positions are in memory.
    pub(super) fn draw_truncated(
        &mut self,
        rate: SamplingRate,
        most: u32,
        records: u64,
    ) -> Result<Zeroizing<Vec<u32>>, Refused> {
        let mut stream = self.stream(Purpose::Sampling)?;
        let threshold = threshold(rate);
        let all = rate.get() >= 1.0;
        let (mut kept, mut sampled) = (secret(u64::from(most).min(records) as usize), 0_u64);
        for position in 0..records {
            if !all && stream.next_u64() >= threshold {
                continue;
            }
            sampled += 1;
            if sampled <= u64::from(most) {
                kept.push(position as u32);
                continue;
            }
            let place = stream.below(sampled);
            if let Some(old) = kept.get_mut(place as usize) {
                *old = position as u32;
            }
        }
        kept.sort_unstable();
        let full = sampled >= u64::from(most);
        Ok(self.replayed_sample(0..records, kept, full))
    }

    /// The records of the next step of an allocation, which its first step draws.
    pub(super) fn draw_allocated(
        &mut self,
        terms: AllocationTerms,
        positions: Range<u64>,
    ) -> Result<Zeroizing<Vec<u32>>, Refused> {
        let stream = match self.allocated.begins(terms.slice) {
            true => Some(self.stream(Purpose::Sampling)?),
            false => None,
        };
        let (allocation, place) = (terms.allocation, self.allocated.place(terms.slice));
        let drawn = self.allocated.step(terms, positions.clone(), stream)?;
        if let Some(seat) = &self.replay {
            seat.allocated(allocation, place, &drawn, positions.clone());
        }
        Ok(self.replayed_sample(positions, drawn, false))
    }

    /// The sample of an audited run, where there is one.
    fn replayed_sample(
        &self,
        from: Range<u64>,
        mut drawn: Zeroizing<Vec<u32>>,
        fixed: bool,
    ) -> Zeroizing<Vec<u32>> {
        match &self.replay {
            Some(seat) => Zeroizing::new(seat.sample(from, std::mem::take(&mut *drawn), fixed)),
            None => drawn,
        }
    }
}

/// What 64 uniform bits are below with probability `rate`, rounded down. Rate 1 takes every record; below it the product is an exact
/// integer below 2^64, or loses only bits under one, downwards.
fn threshold(rate: SamplingRate) -> u64 {
    (rate.get() * 18_446_744_073_709_551_616.0) as u64
}

/// Positions that are overwritten when they are dropped; beyond this many they move, and what is left behind is not.
fn secret(room: usize) -> Zeroizing<Vec<u32>> {
    Zeroizing::new(Vec::with_capacity(room))
}
