//! Private means of the gradients of a loss.

use dpopt_privacy::{
    Adjacency, Bound, ClipNorm, Epsilon, Event, LatticeError, LatticeSum, NoiseMultiplier, Prefix,
    Refused, Slice, Spend,
};

use super::{Ask, Counts, Mean, Means, Number, Over, PeriodTerms, PrivateMean};
use crate::loss::{Differentiable, RecordOf, Segment};
use crate::pass::Positions;
use crate::query::Query;

/// The field is the gradient of the loss.
impl<L: Differentiable> Means for PrivateMean<'_, L> {
    type Slice = Slice;
    type Period = Prefix;

    fn dim(&self) -> usize {
        PrivateMean::dim(self)
    }

    fn records(&self) -> u64 {
        self.data().public_records()
    }

    fn adjacency(&self) -> Adjacency {
        self.data().adjacency()
    }

    fn lipschitz(&self) -> f64 {
        self.loss().constants_on(self.data().records()).lipschitz
    }

    fn smoothness(&self) -> f64 {
        self.loss().constants_on(self.data().records()).smoothness
    }

    fn reserve(&mut self, spend: &Spend) -> Result<(), Refused> {
        self.curator_mut().reserve(spend)
    }

    fn settle(&mut self) -> Result<Event, Refused> {
        self.curator_mut().settle()
    }

    fn records_left(&self) -> u64 {
        PrivateMean::records_left(self)
    }

    fn take_slice(&mut self, len: u64) -> Result<Slice, Refused> {
        PrivateMean::take_slice(self, len)
    }

    fn slice_len(&self, slice: &Slice) -> u64 {
        slice.len()
    }

    fn mean(
        &mut self,
        ask: &Ask<'_>,
        over: Over<'_>,
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Mean, Refused> {
        let mean = self.release(ask, &over, noise_multiplier)?;
        // An ask always has a bound; without one all contributions would be zero.
        Ok(mean.unwrap_or_else(|| Mean::new(vec![0.0; PrivateMean::dim(self)], 0.0)))
    }

    fn mean_norm(
        &mut self,
        ask: &Ask<'_>,
        shift: &[f64],
        over: Over<'_>,
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Number, Refused> {
        let norm = self.release_norm_from(ask, shift, &over, noise_multiplier)?;
        Ok(norm.unwrap_or_else(|| Number::new(0.0, 0.0)))
    }

    fn least_norm(
        &mut self,
        among: &[(Ask<'_>, &[f64])],
        epsilon: Epsilon,
    ) -> Result<usize, Refused> {
        self.select_least_norm(among, epsilon)
    }

    fn mean_value(
        &mut self,
        point: &[f64],
        centre: f64,
        radius: ClipNorm,
        over: Over<'_>,
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Number, Refused> {
        self.release_value(point, centre, radius, &over, noise_multiplier)
    }

    fn open_period(&mut self, terms: &PeriodTerms) -> Result<Prefix, Refused> {
        let bound = Bound::new(terms.share, PrivateMean::dim(self))?;
        let PeriodTerms {
            kind,
            len,
            participation,
            noise_multiplier,
            ..
        } = *terms;
        self.curator_mut()
            .prefix(kind, bound, len, noise_multiplier, participation)
    }

    fn push(
        &mut self,
        period: &mut Prefix,
        ask: &Ask<'_>,
        over: Over<'_>,
    ) -> Result<Mean, Refused> {
        self.push_step(period, ask, ask.radius(), over)
    }

    fn draw_index(&mut self, bound: u64) -> u64 {
        self.curator_mut().draw_index(bound)
    }

    fn draw_normals(&mut self, out: &mut [f64]) -> Result<(), Refused> {
        self.curator_mut().draw_normals(out)
    }

    fn counts(&self) -> Counts {
        PrivateMean::counts(self)
    }
}

/// The gradient at a point, its change, or both.
impl<L: Differentiable> Query<L> for Ask<'_> {
    fn bound(&self, _: &L) -> Result<Option<Bound>, LatticeError> {
        let (Ask::Field { point, .. }
        | Ask::Change {
            segment: Segment { to: point, .. },
            ..
        }
        | Ask::Momentum {
            segment: Segment { to: point, .. },
            ..
        }) = self;
        Bound::new(self.radius(), point.len()).map(Some)
    }

    fn fits(&self, dim: usize) -> bool {
        Ask::fits(self, dim)
    }

    fn gradients_per_record(&self) -> f64 {
        match self {
            Ask::Field { .. } => 1.0,
            Ask::Change { .. } | Ask::Momentum { .. } => 2.0,
        }
    }

    fn sums_in_blocks(&self) -> bool {
        matches!(self, Ask::Field { .. }) && L::SUMS_IN_BLOCKS
    }

    fn contribution(&self, loss: &L, record: RecordOf<'_, L>, out: &mut [f64]) {
        match self {
            Ask::Field { point, .. } => loss.gradient(record, point, out),
            Ask::Change { segment, .. } => loss.gradient_change(record, segment, out),
            Ask::Momentum {
                segment, momentum, ..
            } => {
                loss.gradient(record, segment.to, out);
                let mut change = vec![0.0; out.len()];
                loss.gradient_change(record, segment, &mut change);
                momentum.combine(out, &change);
            }
        }
    }

    fn add(&self, loss: &L, records: &L::Records, positions: Positions<'_>, sum: &mut LatticeSum) {
        match self {
            Ask::Field { point, .. } => loss.add_gradients(records, positions, point, sum),
            Ask::Change { segment, clip, .. } => {
                loss.add_changes(records, positions, segment, clip.get(), sum);
            }
            Ask::Momentum {
                segment,
                clip,
                momentum,
                ..
            } => loss.add_momenta(records, positions, segment, clip.get(), *momentum, sum),
        }
    }
}
