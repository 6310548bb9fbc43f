//! Certificates of a trained model on private records, for a price of their own.

use std::mem::discriminant;
use std::num::NonZeroUsize;

use dpopt::certify::{Interval, SecondOrderCertificate, SecondOrderPlan, SecondOrderTargets};
use dpopt::nonconvex::PublicFacts;
use dpopt::oracle::{Examples, Glm, PrivateData, PrivateMean, TwiceDifferentiable, Weighted};
use dpopt::privacy::accounting::gdp;
use dpopt::privacy::{ClipNorm, Curator, Event, Refused};
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;

use crate::accounting::{PyEvent, adjacency_of, delta_of, epsilon_of};
use crate::errors::{self, user};
use crate::table::Table;
use crate::train::{Ledger, class_weights, paid_by};

/// What is certified, and on which public facts.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Wanted {
    loss: String,
    row_norm: f64,
    /// Labels are cut there.
    label_bound: Option<f64>,
    #[pyo3(default)]
    /// Factors of the losses of a negative and of a positive, if the model was trained with some.
    class_weights: Option<Vec<f64>>,
    /// Public number of records: required under add-remove.
    records: Option<u64>,
    epsilon: f64,
    delta: f64,
    adjacency: String,
    /// Gradient norm and curvature that are to be certified; none: what they are is told.
    targets: Option<(f64, f64)>,
    failure: f64,
}

/// What was found.
#[derive(IntoPyObject)]
pub(crate) struct Certified {
    certified: bool,
    gradient_norm: (f64, f64),
    least_eigenvalue: Option<(f64, f64)>,
    epsilon: f64,
    accountant: String,
    event: PyEvent,
    /// Why the ledger does not say that it is done.
    unsettled: Option<String>,
}

/// Pays, and releases a gradient norm and, where that meets its target, a Hessian, at the weights of a linear model.
#[pyfunction]
pub(crate) fn certify(
    py: Python<'_>,
    table: &mut Table,
    wanted: Wanted,
    weights: PyReadonlyArray1<'_, f64>,
    threads: Option<NonZeroUsize>,
    ledger: Option<&Ledger>,
) -> PyResult<Certified> {
    let adjacency = adjacency_of(&wanted.adjacency)?;
    let loss: Glm = wanted
        .loss
        .parse()
        .map_err(|_| user("a model of several classes has no certificate of second order"))?;
    if !Glm::SMOOTH
        .iter()
        .any(|smooth| discriminant(smooth) == discriminant(&loss))
    {
        return Err(user(format!(
            "{loss} has no second derivative everywhere, and a certificate is of two"
        )));
    }
    let point = weights.as_array().to_vec();
    if point.len() != table.columns() {
        return Err(user("a certificate is of a linear model with one score"));
    }
    let (epsilon, delta) = (epsilon_of(wanted.epsilon)?, delta_of(wanted.delta)?);
    let row_norm = ClipNorm::new(wanted.row_norm).map_err(errors::unit)?;
    let mut data = table.protect(row_norm, adjacency, wanted.records)?;
    if let Some(bound) = wanted.label_bound {
        data = data.with_label_bound(ClipNorm::new(bound).map_err(errors::unit)?);
    }
    let weights = class_weights(wanted.class_weights.as_deref())?;
    let constants = loss.constants_within(data.row_norm(), wanted.label_bound);
    let constants = weights
        .as_ref()
        .map_or(constants, |of| of.constants(constants));
    let (records, dim) = (data.public_records(), point.len());
    let facts = PublicFacts::glm(records, dim, adjacency, data.row_norm(), constants);
    let facts = facts.map_err(errors::no_plan)?;
    let frobenius = ClipNorm::new(constants.hessian_frobenius).map_err(errors::unit)?;
    let mu = gdp::mu_for(epsilon, delta).map_err(errors::accounting)?;
    let failure = wanted.failure;
    let plan = match wanted.targets {
        Some((gradient, curvature)) => {
            let targets = SecondOrderTargets {
                gradient,
                curvature,
            };
            SecondOrderPlan::new(&facts, frobenius, mu, failure, targets)
        }
        None => {
            let widest = SecondOrderTargets::widest(facts.lipschitz, facts.smoothness);
            SecondOrderPlan::with_hessian(&facts, frobenius, mu, failure, widest)
        }
    };
    let plan = plan.map_err(errors::certificate)?;
    let mut curator = paid_by(py, adjacency, (ledger, records))?;
    curator.reserve(&plan.spend()).map_err(errors::refused)?;
    let guarantee = curator.guarantee(delta).map_err(errors::refused)?;
    let threads = crate::train::threads(threads);
    let on = (&plan, &data, curator, threads, &point[..]);
    let (found, settled) = py.detach(|| match weights {
        Some(weights) => release(Weighted::new(loss, weights), on),
        None => release(loss, on),
    })?;
    let ends = |of: Interval| (of.low, of.high);
    Ok(Certified {
        certified: wanted.targets.is_some() && found.certified,
        gradient_norm: ends(found.gradient),
        least_eigenvalue: found.curvature.map(ends),
        epsilon: guarantee.epsilon(),
        accountant: guarantee.accountant().to_string(),
        event: PyEvent(guarantee.event().clone()),
        // It is paid: what was found is not lost with it.
        unsettled: settled.err().map(|error| errors::chain(&error)),
    })
}

/// A plan, the records, who pays, how many threads there are, and the point.
type On<'a> = (
    &'a SecondOrderPlan,
    &'a PrivateData,
    Curator,
    NonZeroUsize,
    &'a [f64],
);

/// What is released, and whether the ledger knows that it is done.
fn release<L: TwiceDifferentiable<Records = Examples>>(
    loss: L,
    (plan, data, curator, threads, point): On<'_>,
) -> PyResult<(SecondOrderCertificate, Result<Event, Refused>)> {
    let mean = PrivateMean::new(data, loss, curator).map_err(errors::data)?;
    let mut mean = mean.with_threads(threads);
    let found = plan.release(&mut mean, point);
    let settled = mean.curator_mut().settle();
    Ok((found.map_err(errors::certificate)?, settled))
}
