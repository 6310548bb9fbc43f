//! Broken losses and queries: the laws have to catch them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use dpopt_linalg::{Row, add_scaled};
use dpopt_oracle::{
    Constants, Convexity, Differentiable, Example, Examples, Linear, Loss, Positions, Query,
    RecordOf, Records,
};
use dpopt_privacy::{Adjacency::AddRemove, Bound, LatticeError, LatticeSum, RowBound};

use crate::engine::contributions;
use crate::records::{DIM, Store, examples, norm, points, private};

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    Nothing,
    /// Every record knows how many came before it.
    Counts,
    /// The last records of a block of four, where there are fewer, are summed in another order.
    Remainder,
    /// The buffer of the record before is not cleared.
    Remains,
    /// Rows are added with the bound of another.
    ForeignBound,
}

struct Twin<'a>(Fault, &'a AtomicU64);

impl Loss for Twin<'_> {
    type Records = Examples;

    fn dim(&self, records: &Examples) -> usize {
        records.columns()
    }

    fn constants_on(&self, _: &Examples) -> Constants {
        Constants::new(1.0, 1.0, 1.0, Convexity::Nonconvex)
    }

    fn value(&self, _: Example<'_>, _: &[f64]) -> f64 {
        0.0
    }
}

impl Differentiable for Twin<'_> {
    fn gradient(&self, record: Example<'_>, point: &[f64], out: &mut [f64]) {
        let slope = record.row.dot(point).sin();
        record.row.for_each(|j, x| out[j] += slope * x);
    }
}

struct TwinQuery<'a>(Linear<'a>);

impl<'l> Query<Twin<'l>> for TwinQuery<'_> {
    fn bound(&self, loss: &Twin<'l>) -> Result<Option<Bound>, LatticeError> {
        self.0.bound(loss)
    }

    fn fits(&self, dim: usize) -> bool {
        Query::<Twin<'l>>::fits(&self.0, dim)
    }

    fn gradients_per_record(&self) -> f64 {
        1.0
    }

    fn contribution(&self, loss: &Twin<'l>, record: RecordOf<'_, Twin<'l>>, out: &mut [f64]) {
        self.0.contribution(loss, record, out);
    }

    fn add(
        &self,
        loss: &Twin<'l>,
        records: &Examples,
        positions: Positions<'_>,
        sum: &mut LatticeSum,
    ) {
        let Twin(fault, calls) = *loss;
        let count = positions.len();
        let mut out = vec![0.0; DIM];
        let short = RowBound::dense(&[1e-3]);
        for (k, i) in positions.iter().enumerate() {
            if fault != Fault::Remains {
                out.fill(0.0);
            }
            let record = records.record(i);
            if fault == Fault::Remainder && k >= count / 4 * 4 {
                let mut product = 0.0;
                if let Row::Dense(x) = record.row {
                    x.iter()
                        .zip(self.0.point())
                        .rev()
                        .for_each(|(x, w)| product += x * w);
                    add_scaled(&mut out, product.sin(), x);
                }
            } else {
                self.contribution(loss, record, &mut out);
            }
            if fault == Fault::Counts {
                let earlier = calls.fetch_add(1, Ordering::Relaxed);
                out[0] += 1e-3 * earlier as f64;
            }
            if fault == Fault::ForeignBound {
                sum.add_rows(&[&out], &[1.0], &[short], || {});
            } else {
                sum.add_scaled(1.0, &out);
            }
        }
    }
}

fn passes(fault: Fault, clip: f64) -> bool {
    let calls = AtomicU64::new(0);
    let points = points(DIM);
    let point = &points[if fault == Fault::Remainder { 6 } else { 2 }];
    let query = TwinQuery(Linear::field(point, norm(clip)));
    let loss = || Twin(fault, &calls);
    let data = |r: &_| private(Store::Dense, r, AddRemove);
    let law = || contributions("a twin", loss, &query, data, &examples());
    catch_unwind(AssertUnwindSafe(law)).is_ok()
}

#[test]
fn a_broken_twin_is_caught() {
    assert!(passes(Fault::Nothing, 0.1));
    assert!(!passes(Fault::Counts, 0.1));
    assert!(!passes(Fault::Remains, 0.1));
    assert!(!passes(Fault::ForeignBound, 0.01));
    assert!(!passes(Fault::Remainder, 0.1));
}
