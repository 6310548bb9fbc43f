//! Events, and what accountants say of them.

use std::hash::{DefaultHasher, Hash, Hasher};

use dpopt::privacy::accounting::curves::PrivacyCurve;
use dpopt::privacy::accounting::{AccountingError, calibrate};
use dpopt::privacy::{
    Accountant, Adjacency, Delta, Epsilon, Event, NoiseMultiplier, SamplingRate, Weak,
};
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::errors::{self, user};

/// A tree of releases, in the vocabulary of `dp_accounting`. Noise multipliers are over the sensitivity.
#[pyclass(frozen, eq, name = "Event", module = "dpopt")]
#[derive(Clone, PartialEq)]
pub(crate) struct PyEvent(pub(crate) Event);

impl PyEvent {
    /// Refuses what can be made and not be written and read again.
    fn checked(event: Event) -> PyResult<Self> {
        let text = serde_json::to_string(&event).ok();
        match text.map(|text| Event::from_json(&text)) {
            Some(Ok(_)) => Ok(Self(event)),
            _ => Err(user(
                "events are nested too deep, or too many; compose one list of them, and no lists of lists",
            )),
        }
    }
}

#[pymethods]
impl PyEvent {
    /// One Gaussian release: the standard deviation of its noise over the sensitivity.
    #[staticmethod]
    fn gaussian(noise_multiplier: f64) -> PyResult<Self> {
        Ok(Self(Event::gaussian(noise(noise_multiplier)?)))
    }

    /// The same on a Poisson sample: every record is in it with this probability, independently.
    fn poisson_sampled(&self, rate: f64) -> PyResult<Self> {
        let rate = SamplingRate::new(rate).map_err(errors::unit)?;
        Self::checked(self.0.clone().poisson_sampled(rate))
    }

    /// The same so many times.
    fn repeated(&self, count: u64) -> PyResult<Self> {
        Self::checked(self.0.clone().repeated(count))
    }

    /// All of these, each of which may depend on what came of the others.
    #[staticmethod]
    fn composed(events: Vec<PyRef<'_, Self>>) -> PyResult<Self> {
        let events = events.iter().map(|event| event.0.clone());
        Self::checked(Event::composed(events.collect()))
    }

    /// From JSON in the shape of `dp_accounting.DpEvent.to_named_tuple`.
    #[classmethod]
    fn from_json(_: &Bound<'_, PyType>, text: &str) -> PyResult<Self> {
        Event::from_json(text).map(Self).map_err(user)
    }

    /// As JSON in the shape of `dp_accounting.DpEvent.to_named_tuple`.
    fn to_json(&self) -> PyResult<String> {
        serde_json::to_string(&self.0).map_err(user)
    }

    /// How many releases it has.
    #[getter]
    fn releases(&self) -> u64 {
        self.0.release_count()
    }

    fn __hash__(&self) -> PyResult<u64> {
        let mut hasher = DefaultHasher::new();
        self.to_json()?.hash(&mut hasher);
        Ok(hasher.finish())
    }

    fn __repr__(&self) -> String {
        format!("<dpopt.Event: {}>", self.0)
    }

    fn __reduce__(slf: &Bound<'_, Self>) -> PyResult<(Py<PyAny>, (String,))> {
        let make = slf.get_type().getattr("from_json")?.unbind();
        Ok((make, (slf.get().to_json()?,)))
    }
}

/// Why a budget for so many records promises next to nothing; none of it, where it does not.
#[pyfunction]
pub(crate) fn weak(
    epsilon: Option<f64>,
    delta: Option<f64>,
    records: u64,
) -> PyResult<Vec<String>> {
    let epsilon = epsilon.map(epsilon_of).transpose()?;
    let delta = delta.map(delta_of).transpose()?;
    let found = Weak::of(epsilon, delta, records);
    Ok(found.map(|weak| weak.to_string()).collect())
}

pub(crate) fn noise(multiplier: f64) -> PyResult<NoiseMultiplier> {
    NoiseMultiplier::new(multiplier).map_err(errors::unit)
}

pub(crate) fn delta_of(delta: f64) -> PyResult<Delta> {
    Delta::new(delta).map_err(errors::unit)
}

pub(crate) fn epsilon_of(epsilon: f64) -> PyResult<Epsilon> {
    Epsilon::new(epsilon).map_err(errors::unit)
}

pub(crate) fn adjacency_of(name: &str) -> PyResult<Adjacency> {
    named(name)
}

/// A word of a list that the library keeps; the message has the list.
pub(crate) fn named<T: serde::de::DeserializeOwned>(name: &str) -> PyResult<T> {
    serde_json::from_value(name.into()).map_err(user)
}

/// None: the one that states the least.
fn accountant_of(name: &str) -> PyResult<Option<Accountant>> {
    match name {
        "auto" => Ok(None),
        name => name.parse().map(Some).map_err(user),
    }
}

/// epsilon at delta, and the name of the accountant that states it.
#[pyfunction]
pub(crate) fn epsilon(
    py: Python<'_>,
    event: &PyEvent,
    delta: f64,
    adjacency: &str,
    accountant: &str,
) -> PyResult<(f64, String)> {
    let (delta, adjacency) = (delta_of(delta)?, adjacency_of(adjacency)?);
    let accountant = accountant_of(accountant)?;
    let found = py.detach(|| match accountant {
        None => Accountant::least(&event.0, delta, adjacency),
        Some(who) => who
            .epsilon(&event.0, delta, adjacency)
            .map(|epsilon| (who, epsilon)),
    });
    let (who, epsilon) = found.map_err(errors::accounting)?;
    Ok((epsilon, who.to_string()))
}

/// delta at each epsilon; `accountant` as for [`epsilon`], and for `auto` the tightest for the event.
#[pyfunction]
pub(crate) fn delta<'py>(
    py: Python<'py>,
    event: &PyEvent,
    epsilons: PyReadonlyArray1<'py, f64>,
    adjacency: &str,
    accountant: &str,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let adjacency = adjacency_of(adjacency)?;
    let who = tightest(&event.0, adjacency, accountant)?;
    let at = epsilons.as_array().to_vec();
    let found: Result<Vec<f64>, AccountingError> = py.detach(|| {
        let delta = |epsilon: &f64| {
            let curve = PrivacyCurve::on_grid(who, &event.0, adjacency, &[*epsilon])?;
            Ok(curve.points().iter().map(|point| point.delta).sum())
        };
        at.iter().map(delta).collect()
    });
    Ok(PyArray1::from_vec(py, found.map_err(errors::accounting)?))
}

fn tightest(event: &Event, adjacency: Adjacency, accountant: &str) -> PyResult<Accountant> {
    match accountant_of(accountant)? {
        Some(who) => Ok(who),
        None => Accountant::tightest_for(event, adjacency).map_err(errors::accounting),
    }
}

/// The largest true positive rate of an attacker at each false positive rate.
#[pyfunction]
pub(crate) fn trade_off<'py>(
    py: Python<'py>,
    event: &PyEvent,
    rates: PyReadonlyArray1<'py, f64>,
    adjacency: &str,
    accountant: &str,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let adjacency = adjacency_of(adjacency)?;
    let who = tightest(&event.0, adjacency, accountant)?;
    let rates: Vec<f64> = rates.as_array().to_vec();
    let curve = py.detach(|| PrivacyCurve::of(who, &event.0, adjacency));
    let curve = curve.map_err(errors::accounting)?;
    let power = rates.iter().map(|rate| curve.true_positive_rate(*rate));
    Ok(PyArray1::from_vec(py, power.collect()))
}

/// The budget, and who counts it.
struct Goal {
    epsilon: Epsilon,
    delta: Delta,
    adjacency: Adjacency,
}

impl Goal {
    fn new(epsilon: f64, delta: f64, adjacency: &str) -> PyResult<Self> {
        Ok(Self {
            epsilon: epsilon_of(epsilon)?,
            delta: delta_of(delta)?,
            adjacency: adjacency_of(adjacency)?,
        })
    }
}

/// Equal Gaussian releases, each on a Poisson sample of its own unless the rate is 1.
fn steps(noise: NoiseMultiplier, rate: SamplingRate, count: u64) -> Event {
    let one = Event::gaussian(noise);
    if rate.get() < 1.0 {
        one.poisson_sampled(rate).repeated(count)
    } else {
        one.repeated(count)
    }
}

/// The least noise multiplier with which so many steps cost no more than the budget.
#[pyfunction]
#[pyo3(signature = (epsilon, delta, adjacency, sampling_rate, count, accountant))]
pub(crate) fn calibrate_noise(
    py: Python<'_>,
    epsilon: f64,
    delta: f64,
    adjacency: &str,
    sampling_rate: f64,
    count: u64,
    accountant: &str,
) -> PyResult<f64> {
    let goal = Goal::new(epsilon, delta, adjacency)?;
    let rate = SamplingRate::new(sampling_rate).map_err(errors::unit)?;
    let who = tightest(&steps(noise(1.0)?, rate, count), goal.adjacency, accountant)?;
    let found = py.detach(|| {
        let event = |z| steps(z, rate, count);
        calibrate::noise_multiplier(who, goal.epsilon, goal.delta, goal.adjacency, event)
    });
    Ok(found.map_err(errors::accounting)?.get())
}

/// The most steps that cost no more than the budget.
#[pyfunction]
pub(crate) fn calibrate_steps(
    py: Python<'_>,
    epsilon: f64,
    delta: f64,
    adjacency: &str,
    sampling_rate: f64,
    noise_multiplier: f64,
    accountant: &str,
) -> PyResult<u64> {
    let goal = Goal::new(epsilon, delta, adjacency)?;
    let rate = SamplingRate::new(sampling_rate).map_err(errors::unit)?;
    let z = noise(noise_multiplier)?;
    let who = tightest(&steps(z, rate, 1), goal.adjacency, accountant)?;
    let found = py.detach(|| {
        let event = |count| steps(z, rate, count);
        calibrate::steps(who, goal.epsilon, goal.delta, goal.adjacency, event)
    });
    found.map_err(errors::accounting)
}
