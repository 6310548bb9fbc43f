//! Steps on gradients that Python computes: who is drawn, the clipped sum, the noise and the payment are the curator's.

use std::num::NonZeroUsize;
use std::sync::{Mutex, TryLockError};

use dpopt::nonconvex::DpMfSchedule;
use dpopt::privacy::{
    Adjacency, Body, Bound as ClipBound, ClipNorm, Curator, Event, Factors, LatticeSum,
    MAX_RECORDS, NoiseMultiplier, OuterWork, PoolError, Refused, RowBound, SamplingRate, Spend,
    Which,
};
use numpy::ndarray::Axis;
use numpy::{Element, PyArray1, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::IntoPyObjectExt as _;
use pyo3::prelude::*;

use crate::accounting::{PyEvent, adjacency_of, delta_of, noise};
use crate::epochs::{self, Epochs, Wanted};
use crate::errors::{self, user};
use crate::granted::{Granted, Read};
use crate::table::Dense;
use crate::train::{Ledger, paid_by};

/// Equal releases of clipped sums, reserved as a whole before the first.
#[pyclass(frozen, name = "Steps", module = "dpopt._dpopt")]
pub(crate) struct Steps {
    public: Public,
    state: Mutex<State>,
}

/// What every step is.
struct Public {
    records: u64,
    public_records: u64,
    adjacency: Adjacency,
    bound: ClipBound,
    releases: Releases,
    steps: u64,
}

/// How they are made private.
enum Releases {
    /// Each with noise of its own, on all records or on Poisson samples.
    Independent(NoiseMultiplier, Option<SamplingRate>),
    /// On slices in turn, with noise that is correlated.
    Correlated(DpMfSchedule),
}

struct State {
    curator: Curator,
    /// Of correlated noise.
    epochs: Option<Epochs>,
    step: Option<Step>,
}

/// A step whose records were drawn, and not all of whose contributions are there.
struct Step {
    granted: Granted<Option<Epochs>>,
    sum: LatticeSum,
    work: OuterWork,
    drawn: usize,
    added: usize,
}

impl Public {
    fn event(&self) -> PyResult<Event> {
        let steps = self.steps;
        Ok(match &self.releases {
            Releases::Independent(noise, Some(rate)) => Event::gaussian(*noise)
                .poisson_sampled(*rate)
                .repeated(steps),
            Releases::Independent(noise, None) => Event::gaussian(*noise).repeated(steps),
            Releases::Correlated(schedule) => epochs::event(schedule)?,
        })
    }

    fn grant(
        &self,
        state: &mut State,
        bound: ClipBound,
    ) -> Result<Granted<Option<Epochs>>, Refused> {
        let (body, curator) = (self.body(), &mut state.curator);
        if let Some(epochs) = &state.epochs {
            return epochs.grant(body, curator);
        }
        let Releases::Independent(noise, rate) = self.releases else {
            return Err(PoolError::NotOpen.into());
        };
        let which = rate.map_or(Which::All, Which::Poisson);
        let ticket = curator.grant(which, body, bound, noise)?;
        Ok(Granted::new(ticket, |ticket, sum, curator, _| {
            curator.redeem(ticket, sum)
        }))
    }

    fn body(&self) -> Body {
        Body::declared(self.public_records, self.records)
    }
}

/// Values of sparse rows.
#[derive(FromPyObject)]
enum Values<'py> {
    Double(PyReadonlyArray1<'py, f64>),
    Single(PyReadonlyArray1<'py, f32>),
}

/// Rows that are copied at a time.
const BLOCK: usize = 64;
/// The same of factors: as many as one product of matrices adds up.
const PRODUCTS: usize = 128;

impl Step {
    /// Each block is copied before it is measured and added, of factors too: another thread may write to the array meanwhile, and a row
    /// whose bound was measured before that would come in longer.
    fn add<T: Element + Copy + Send + Sync>(
        &mut self,
        py: Python<'_>,
        rows: &PyReadonlyArray2<'_, T>,
        dim: usize,
    ) -> PyResult<()>
    where
        LatticeSum: AddRows<T>,
    {
        let rows = rows.as_array();
        let (count, columns) = rows.dim();
        if columns != dim {
            return Err(user(format!(
                "gradients of {columns} numbers, and the point has {dim}"
            )));
        }
        self.take_places(count)?;
        let mut block: Vec<T> = Vec::with_capacity(BLOCK.min(count) * dim);
        for part in rows.axis_chunks_iter(Axis(0), BLOCK) {
            block.clear();
            block.extend(part.iter().copied());
            let (sum, block) = (&mut self.sum, &block);
            py.detach(|| {
                let rows: Vec<&[T]> = block.chunks_exact(dim).collect();
                sum.add(&rows);
            });
        }
        Ok(())
    }

    /// The same for gradients that are outer products, layer by layer.
    fn add_products(
        &mut self,
        py: Python<'_>,
        factors: &[[Dense<'_>; 2]],
        dim: usize,
    ) -> PyResult<()> {
        let shapes: Vec<_> = factors.as_flattened().iter().map(Dense::dim).collect();
        let count = shapes.first().map_or(0, |(rows, _)| *rows);
        if shapes.iter().any(|(rows, _)| *rows != count) {
            return Err(user("factors have one row for each record, all of them"));
        }
        if shapes.iter().any(|(_, columns)| *columns == 0) {
            return Err(user("a factor has no columns"));
        }
        let pairs = shapes.as_chunks::<2>().0;
        let entries = pairs.iter().try_fold(0_usize, |sum, [left, right]| {
            sum.checked_add(left.1.checked_mul(right.1)?)
        });
        if entries != Some(dim) {
            return Err(user(format!(
                "products are not of {dim} numbers together, as the point is"
            )));
        }
        self.take_places(count)?;
        let mut copies = vec![Vec::new(); shapes.len()];
        for start in (0..count).step_by(PRODUCTS) {
            let rows = start..count.min(start + PRODUCTS);
            for (copy, side) in copies.iter_mut().zip(factors.as_flattened()) {
                side.copy(rows.clone(), copy);
            }
            let layers: Vec<Factors<'_>> = copies
                .as_chunks::<2>()
                .0
                .iter()
                .zip(pairs)
                .map(|([left, right], shape)| Factors {
                    left,
                    left_len: shape[0].1,
                    right,
                    right_len: shape[1].1,
                })
                .collect();
            let (sum, work) = (&mut self.sum, &mut self.work);
            py.detach(|| sum.add_outer_products(rows.len(), &layers, work));
        }
        Ok(())
    }

    /// The same for rows that are mostly zero: where each starts, its columns and values.
    fn add_sparse<T: Element + Copy + Into<f64>>(
        &mut self,
        starts: &[i64],
        columns: &[i64],
        values: &[T],
    ) -> PyResult<()> {
        let ends: Vec<usize> = starts
            .iter()
            .map_while(|&at| usize::try_from(at).ok())
            .collect();
        let last = ends.last().copied();
        if ends.len() != starts.len()
            || !ends.is_sorted()
            || ends.first() != Some(&0)
            || last != Some(columns.len())
            || columns.len() != values.len()
        {
            return Err(user("these are no compressed sparse rows"));
        }
        self.take_places(ends.len() - 1)?;
        let mut row: Vec<u32> = Vec::new();
        for ends in ends.windows(2) {
            let of = ends[0]..ends[1];
            row.clear();
            // One that is not there is beyond the last, and its row counts as zero.
            let columns = columns[of.clone()].iter();
            row.extend(columns.map(|&at| u32::try_from(at).unwrap_or(u32::MAX)));
            self.sum.add_scaled_sparse(1.0, &row, &values[of]);
        }
        Ok(())
    }

    /// Before anything is added: what breaks off half-way has taken the places of its records, and they contribute no second time.
    fn take_places(&mut self, count: usize) -> PyResult<()> {
        // How many were drawn is secret.
        if count > self.drawn - self.added {
            return Err(user(
                "more gradients than records that were drawn: a record contributes once",
            ));
        }
        self.added += count;
        Ok(())
    }
}

/// Each row as one contribution.
trait AddRows<T> {
    fn add(&mut self, rows: &[&[T]]);
}

macro_rules! add_rows {
    ($entry:ty) => {
        impl AddRows<$entry> for LatticeSum {
            fn add(&mut self, rows: &[&[$entry]]) {
                let bounds: Vec<RowBound> = rows.iter().map(|row| RowBound::dense(row)).collect();
                self.add_rows(rows, &vec![1.0; rows.len()], &bounds, || ());
            }
        }
    };
}

add_rows!(f32);
add_rows!(f64);

impl Steps {
    fn with<T>(&self, act: impl FnOnce(&mut State) -> PyResult<T>) -> PyResult<T> {
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            // What failed there has left books that are true.
            Err(TryLockError::Poisoned(state)) => state.into_inner(),
            Err(TryLockError::WouldBlock) => {
                return Err(user("another thread is in a step of these"));
            }
        };
        act(&mut state)
    }
}

#[pymethods]
impl Steps {
    /// Reserves so many steps: from here on a ledger has them charged. With `correlated`, as many as its epochs have.
    #[new]
    #[allow(
        clippy::too_many_arguments,
        reason = "named ones, of the package's own wrapper"
    )]
    #[pyo3(signature = (*, records, public_records, dim, clip, noise_multiplier, sampling_rate, steps, correlated, adjacency, ledger, threads))]
    fn new(
        py: Python<'_>,
        records: u64,
        public_records: Option<u64>,
        dim: usize,
        clip: f64,
        noise_multiplier: f64,
        sampling_rate: f64,
        steps: u64,
        correlated: Option<Wanted>,
        adjacency: &str,
        ledger: Option<&Ledger>,
        threads: Option<NonZeroUsize>,
    ) -> PyResult<Self> {
        let adjacency = adjacency_of(adjacency)?;
        let public_records = match (public_records, adjacency.record_count_is_public()) {
            (None, false) => {
                return Err(user(
                    "under add-remove the number of records is secret: give a public one, public_records=",
                ));
            }
            (Some(said), true) if said != records => {
                return Err(user(format!(
                    "under {adjacency} the number of records is public, and is {records}, not {said}"
                )));
            }
            (said, _) => said.unwrap_or(records),
        };
        if public_records == 0 || records.max(public_records) > MAX_RECORDS {
            return Err(user(format!(
                "{public_records} records; a mean is over one at least, and at most {MAX_RECORDS} are counted"
            )));
        }
        let clip = ClipNorm::new(clip).map_err(errors::unit)?;
        let (releases, steps) = match correlated {
            Some(wanted) => {
                let of = (records, dim, adjacency);
                let schedule = py.detach(|| epochs::schedule(wanted, of, noise_multiplier))?;
                (Releases::Correlated(schedule), schedule.steps())
            }
            None => {
                let rate = SamplingRate::new(sampling_rate).map_err(errors::unit)?;
                let sampled = (sampling_rate < 1.0).then_some(rate);
                let releases = Releases::Independent(noise(noise_multiplier)?, sampled);
                (releases, steps)
            }
        };
        if steps == 0 {
            return Err(user("at least one step"));
        }
        let public = Public {
            records,
            public_records,
            adjacency,
            bound: ClipBound::new(clip, dim).map_err(user)?,
            releases,
            steps,
        };
        let mut curator = paid_by(py, adjacency, (ledger, public_records))?
            .with_threads(crate::train::threads(threads));
        curator
            .reserve(&Spend::Fixed(public.event()?))
            .map_err(errors::refused)?;
        let epochs = match &public.releases {
            Releases::Independent(..) => None,
            Releases::Correlated(schedule) => {
                let epochs = Epochs::new(schedule, records, public.bound, &mut curator);
                Some(epochs.map_err(errors::refused)?)
            }
        };
        let state = Mutex::new(State {
            curator,
            epochs,
            step: None,
        });
        Ok(Self { public, state })
    }

    /// Draws the records of the next step: their positions, for their gradients and nothing else; or the first and the one after the last.
    /// `clip`: that of this step, where it is another than that of the others.
    #[pyo3(signature = (clip = None))]
    fn draw<'py>(&self, py: Python<'py>, clip: Option<f64>) -> PyResult<Bound<'py, PyAny>> {
        self.with(|state| {
            if state.step.is_some() {
                return Err(user("the step before is not released yet"));
            }
            let bound = match clip {
                None => self.public.bound,
                // A period has one.
                Some(_) if state.epochs.is_some() => {
                    return Err(user("with correlated noise all steps have one clip"));
                }
                Some(clip) => {
                    let clip = ClipNorm::new(clip).map_err(errors::unit)?;
                    ClipBound::new(clip, self.public.bound.dim()).map_err(user)?
                }
            };
            let mut granted = self.public.grant(state, bound).map_err(errors::refused)?;
            let (drawn, positions) = match &mut granted.read {
                Read::Range(range) => {
                    let ends = (range.start, range.end);
                    ((ends.1 - ends.0) as usize, ends.into_bound_py_any(py)?)
                }
                Read::Drawn(drawn) => {
                    let drawn = std::mem::take(drawn);
                    (drawn.len(), PyArray1::from_vec(py, drawn).into_any())
                }
            };
            state.step = Some(Step {
                granted,
                sum: LatticeSum::new(bound),
                work: OuterWork::new(),
                drawn,
                added: 0,
            });
            Ok(positions)
        })
    }

    /// Adds gradients, a row for each drawn record in turn: each is clipped.
    fn add(&self, py: Python<'_>, rows: Dense<'_>) -> PyResult<()> {
        self.with(|state| {
            let step = state.step.as_mut().ok_or_else(no_step)?;
            let dim = self.public.bound.dim();
            match &rows {
                Dense::Double(rows) => step.add(py, rows, dim),
                Dense::Single(rows) => step.add(py, rows, dim),
            }
        })
    }

    /// Adds gradients that are mostly zero, as compressed sparse rows.
    fn add_sparse(
        &self,
        py: Python<'_>,
        starts: PyReadonlyArray1<'_, i64>,
        columns: PyReadonlyArray1<'_, i64>,
        values: Values<'_>,
    ) -> PyResult<()> {
        // Copies: another thread may write to the arrays meanwhile.
        let [starts, columns] = [&starts, &columns].map(|part| part.as_array().to_vec());
        self.with(|state| {
            let step = state.step.as_mut().ok_or_else(no_step)?;
            match &values {
                Values::Double(values) => {
                    let values = values.as_array().to_vec();
                    py.detach(|| step.add_sparse(&starts, &columns, &values))
                }
                Values::Single(values) => {
                    let values = values.as_array().to_vec();
                    py.detach(|| step.add_sparse(&starts, &columns, &values))
                }
            }
        })
    }

    /// Adds gradients that are outer products: of each layer a factor on the left and one on the right, a row for each drawn record in turn.
    fn add_products(&self, py: Python<'_>, factors: Vec<[Dense<'_>; 2]>) -> PyResult<()> {
        self.with(|state| {
            let step = state.step.as_mut().ok_or_else(no_step)?;
            step.add_products(py, &factors, self.public.bound.dim())
        })
    }

    /// Charges the step, and releases the sum with its noise over the public number of records that a step is expected to read. Drawn
    /// records without a gradient count as zero.
    fn release<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<f64>>> {
        self.with(|state| {
            let Step { granted, sum, .. } = state.step.take().ok_or_else(no_step)?;
            let Granted {
                denominator,
                redeem,
                ..
            } = granted;
            let released = py.detach(|| redeem(sum, &mut state.curator, &mut state.epochs));
            let mut mean = released.map_err(errors::refused)?;
            mean.iter_mut().for_each(|x| *x /= denominator);
            Ok(PyArray1::from_vec(py, mean))
        })
    }

    /// How many there are.
    #[getter]
    fn steps(&self) -> u64 {
        self.public.steps
    }

    /// Whether a step was drawn and not released.
    fn pending(&self) -> PyResult<bool> {
        self.with(|state| Ok(state.step.is_some()))
    }

    /// Ends the steps: what was not used goes back to the ledger.
    fn settle(&self) -> PyResult<PyEvent> {
        self.with(|state| {
            // The slices that were read have paid for later epochs; nobody is to count on them.
            (state.step, state.epochs) = (None, None);
            state.curator.settle().map(PyEvent).map_err(errors::refused)
        })
    }

    /// epsilon at delta of what was reserved, its accountant, and the event.
    fn guarantee(&self, delta: f64) -> PyResult<(f64, String, PyEvent)> {
        let delta = delta_of(delta)?;
        self.with(|state| {
            let found = state.curator.guarantee(delta).map_err(errors::refused)?;
            let who = found.accountant().to_string();
            Ok((found.epsilon(), who, PyEvent(found.event().clone())))
        })
    }

    #[getter]
    fn adjacency(&self) -> String {
        self.public.adjacency.to_string()
    }
}

fn no_step() -> PyErr {
    user("no step was drawn")
}
