//! Records that try to break a solver, in every position of neighbouring data sets.

use dpopt_oracle::{
    AlongRows, Constants, Convexity, Differentiable, Linear, Loss, PrivateData, PrivateMean,
    Query as _, RecordOf, TwiceDifferentiable,
};
use dpopt_privacy::{Adjacency, ChangedRecord, Curator};

use super::common::{DIM, declared};
use super::{CheckError, CuratorReplay, Pair, Ran, World};
use crate::checks::mixed;

/// What a record answers when it is asked for its gradient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
    /// Zero: the record that is not there.
    Nothing,
    /// A unit vector along one axis, everywhere.
    Constant,
    /// A unit vector that points elsewhere at every point, so that all differences are as long as their
    /// clip radius allows.
    Hashed,
    /// In one axis: 1 or -1, elsewhere at every point, independently of the other axes.
    Flip,
    /// NaN in one axis, huge in the others.
    Nan,
    /// NaN at about half of all points, so along some directions only; a unit vector along one axis elsewhere.
    NanSomewhere,
    /// Infinite in one axis.
    Infinite,
    /// 1e300 along one axis: its square overflows.
    Huge,
    /// 1e-320 along one axis: subnormal.
    Tiny,
    /// A panic.
    Panics,
}

/// A record of [`HostileLoss`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hostile {
    /// What it does.
    pub behaviour: Behaviour,
    /// The axis that it prefers (modulo the dimension).
    pub axis: usize,
    /// Factor of what it answers.
    pub sign: f64,
}

impl Hostile {
    /// A record that prefers the first axis.
    #[must_use]
    pub fn new(behaviour: Behaviour, sign: f64) -> Self {
        Self {
            behaviour,
            axis: 0,
            sign,
        }
    }

    /// The record that contributes nothing.
    #[must_use]
    pub fn nothing() -> Self {
        Self::new(Behaviour::Nothing, 1.0)
    }

    /// Adds its gradient at `point` to `out`.
    ///
    /// # Panics
    /// Where its behaviour is to panic.
    pub fn add_gradient(&self, point: &[f64], out: &mut [f64]) {
        let dim = out.len();
        let axis = self.axis % dim;
        match self.behaviour {
            Behaviour::Nothing => {}
            Behaviour::Constant => out[axis] += self.sign,
            Behaviour::Hashed => {
                let hash = hash_of(point);
                let size = self.sign / (dim as f64).sqrt();
                for (i, out) in out.iter_mut().enumerate() {
                    *out += size * sign_of(hash, i);
                }
            }
            Behaviour::Flip => out[axis] += self.sign * sign_of(hash_of(point), axis),
            Behaviour::Nan => {
                out.fill(self.sign * 1e300);
                out[axis] = f64::NAN;
            }
            Behaviour::NanSomewhere if sign_of(hash_of(point), axis) < 0.0 => out[axis] = f64::NAN,
            Behaviour::NanSomewhere => out[axis] += self.sign,
            Behaviour::Infinite => out[axis] += self.sign * f64::INFINITY,
            Behaviour::Huge => out[axis] += self.sign * 1e300,
            Behaviour::Tiny => out[axis] += self.sign * 1e-320,
            Behaviour::Panics => std::panic::panic_any("a record panics"),
        }
    }
}

impl Hostile {
    /// What a flipping record answers in axis `i` at `point`.
    pub(super) fn flip(&self, point: &[f64], i: usize) -> f64 {
        self.sign * sign_of(hash_of(point), i)
    }
}

fn hash_of(point: &[f64]) -> u64 {
    point
        .iter()
        .fold(0, |hash, x| mixed(hash, (x + 0.0).to_bits()))
}

fn sign_of(hash: u64, axis: usize) -> f64 {
    if mixed(hash, axis as u64) & 1 == 1 {
        1.0
    } else {
        -1.0
    }
}

/// A loss whose records answer what they like. Its stated constants are lies, which must cost accuracy
/// only.
#[derive(Debug, Clone, Copy)]
pub struct HostileLoss {
    /// Number of parameters.
    pub dim: usize,
}

impl Loss for HostileLoss {
    type Records = Vec<Hostile>;

    fn dim(&self, _: &Vec<Hostile>) -> usize {
        self.dim
    }

    fn constants_on(&self, _: &Vec<Hostile>) -> Constants {
        Constants::new(1.0, 1.0, 1.0, Convexity::Nonconvex)
    }

    fn value(&self, record: &Hostile, point: &[f64]) -> f64 {
        let jumps = record.sign * sign_of(hash_of(point), record.axis);
        match record.behaviour {
            Behaviour::Nothing => 0.0,
            Behaviour::Constant => {
                let axis = record.axis % self.dim.max(1);
                record.sign * point.get(axis).copied().unwrap_or(0.0)
            }
            Behaviour::Hashed | Behaviour::Flip => jumps,
            Behaviour::Nan => f64::NAN,
            Behaviour::NanSomewhere if jumps * record.sign < 0.0 => f64::NAN,
            Behaviour::NanSomewhere => record.sign,
            Behaviour::Infinite => jumps * f64::INFINITY,
            Behaviour::Huge => jumps * 1e300,
            Behaviour::Tiny => jumps * 1e-320,
            Behaviour::Panics => std::panic::panic_any("a record panics"),
        }
    }
}

impl Differentiable for HostileLoss {
    fn gradient(&self, record: &Hostile, point: &[f64], out: &mut [f64]) {
        record.add_gradient(point, out);
    }

    const HAS_ROW_AVERAGES: bool = true;

    /// What it answers for gradients: it has no row.
    fn row_average(&self, record: &Hostile, of: &AlongRows<'_>, out: &mut [f64]) {
        add_as_it_is(self, record, of, out);
    }
}

/// What is asked of an average along rows, of the loss as it is: for losses of records without one.
pub(super) fn add_as_it_is<L: Differentiable>(
    loss: &L,
    record: RecordOf<'_, L>,
    of: &AlongRows<'_>,
    out: &mut [f64],
) {
    let asked = match of.before {
        None => Linear::field(of.point, of.clip),
        Some((segment, momentum)) => Linear::momentum(segment, momentum, of.clip, of.clip),
    };
    asked.contribution(loss, record, out);
}

/// Products that no symmetric matrix has: a record that points elsewhere, or is no number at half of all points, does so for each
/// direction too.
impl TwiceDifferentiable for HostileLoss {
    fn hessian_vector(&self, record: &Hostile, point: &[f64], direction: &[f64], out: &mut [f64]) {
        use Behaviour::{Flip, Hashed, NanSomewhere};
        if matches!(record.behaviour, Hashed | Flip | NanSomewhere) {
            record.add_gradient(&[point, direction].concat(), out);
            return;
        }
        let mut answer = vec![0.0; out.len()];
        record.add_gradient(point, &mut answer);
        let along = direction[record.axis % direction.len().max(1)];
        for (out, x) in out.iter_mut().zip(answer) {
            // A record that answers nothing in an axis has nothing to scale there: 0 times infinity is not 0.
            *out += if x == 0.0 { 0.0 } else { along * x };
        }
    }
}

/// All pairs of neighbours that come from these data sets by changing one record, in every position:
/// to one content of each pair under replace-one, to either and nothing under zero-out and add-remove.
pub(super) fn neighbours<R: Clone>(
    adjacency: Adjacency,
    bases: &[Vec<R>],
    contents: &[(&str, R, R)],
    nothing: &R,
) -> Vec<Pair<Vec<R>>> {
    let mut pairs = Vec::new();
    for (number, base) in bases.iter().enumerate() {
        for (name, one, other) in contents {
            let last = base.len() + usize::from(adjacency == Adjacency::AddRemove);
            for at in 0..last {
                let with = |record: &R| {
                    let mut records = base.clone();
                    if adjacency == Adjacency::AddRemove {
                        records.insert(at, record.clone());
                    } else {
                        records[at] = record.clone();
                    }
                    records
                };
                let name = format!("{name} at {at} of data set {number}");
                let place = at as u64;
                let mut pair = |recorded: Vec<R>, replayed: Vec<R>, changed| {
                    pairs.push(Pair {
                        name: name.clone(),
                        recorded,
                        replayed,
                        changed,
                    });
                };
                match adjacency {
                    Adjacency::ReplaceOne => {
                        pair(with(one), with(other), ChangedRecord::InPlace(place));
                    }
                    Adjacency::AddRemove => {
                        pair(base.clone(), with(one), ChangedRecord::Added(place));
                        pair(with(other), base.clone(), ChangedRecord::Removed(place));
                    }
                    _ => {
                        pair(with(one), with(nothing), ChangedRecord::InPlace(place));
                        pair(with(nothing), with(other), ChangedRecord::InPlace(place));
                    }
                }
            }
        }
    }
    pairs
}

/// Pairs of neighbouring data sets of [`HostileLoss`], of about `records` records: every behaviour against
/// its opposite or another, in every position, among mixed records, copies of itself, and nobody.
#[must_use]
pub fn hostile_pairs(adjacency: Adjacency, records: usize) -> Vec<Pair<Vec<Hostile>>> {
    use Behaviour::{Constant, Hashed, Huge, Infinite, Nan, NanSomewhere, Nothing, Panics, Tiny};
    let record = Hostile::new;
    let mixed_base: Vec<Hostile> = [Constant, Hashed, Nan, Nothing, Huge, Infinite, Panics, Tiny]
        .into_iter()
        .cycle()
        .take(records)
        .enumerate()
        .map(|(i, behaviour)| Hostile {
            behaviour,
            axis: i,
            sign: if i % 3 == 0 { -1.0 } else { 1.0 },
        })
        .collect();
    let bases = [
        mixed_base,
        vec![record(Hashed, 1.0); records],
        vec![Hostile::nothing(); records],
    ];
    let contents = [
        ("opposite", record(Constant, 1.0), record(Constant, -1.0)),
        ("hashed", record(Hashed, 1.0), record(Hashed, -1.0)),
        ("too long", record(Hashed, 7.0), record(Hashed, -7.0)),
        ("huge", record(Huge, 1.0), record(Huge, -1.0)),
        ("not a number", record(Nan, 1.0), record(Huge, 1.0)),
        (
            "not a number somewhere",
            record(NanSomewhere, 1.0),
            record(Hashed, 100.0),
        ),
        ("infinite", record(Infinite, 1.0), record(Huge, -1.0)),
        ("panic", record(Panics, 1.0), record(Constant, 1.0)),
        ("tiny", record(Tiny, 1.0), record(Hashed, 1.0)),
    ];
    neighbours(adjacency, &bases, &contents, &Hostile::nothing())
}

/// `others`, and the canary: in the other world its opposite, where the number of records is public, or nobody.
pub(super) fn with_canary(
    world: World,
    adjacency: Adjacency,
    mut others: Vec<Hostile>,
    canary: Hostile,
) -> Vec<Hostile> {
    let sign = -canary.sign;
    match world {
        World::In => others.push(canary),
        World::Out if adjacency.record_count_is_public() => others.push(Hostile { sign, ..canary }),
        World::Out => {}
    }
    others
}

/// These records, of which `public` are declared where their number is not public.
pub(super) fn private(
    records: &[Hostile],
    adjacency: Adjacency,
    public: usize,
) -> Result<PrivateData<Vec<Hostile>>, CheckError> {
    let public = declared(adjacency, public);
    Ok(PrivateData::made_up_of(
        records.to_vec(),
        adjacency,
        public,
    )?)
}

pub(super) type HostileMeans<'a> = PrivateMean<'a, HostileLoss>;

/// Means of hostile records in [`DIM`] dimensions.
pub(super) fn means(
    data: &PrivateData<Vec<Hostile>>,
    curator: Curator,
) -> Result<HostileMeans<'_>, CheckError> {
    Ok(PrivateMean::new(data, HostileLoss { dim: DIM }, curator)?.with_hessians())
}

/// A replay, under this adjacency, on the hostile pairs of so many records, of what `run` makes of their means.
pub(super) fn on_hostile(
    name: &str,
    group: &str,
    (adjacency, records): (Adjacency, usize),
    run: impl Fn(HostileMeans<'_>) -> Result<Ran, CheckError> + Send + Sync + 'static,
) -> CuratorReplay<Vec<Hostile>> {
    CuratorReplay::new(
        &format!("{name}/{adjacency}"),
        group,
        adjacency,
        move |_| hostile_pairs(adjacency, records),
        move |curator, hostile| {
            let data = private(hostile, adjacency, records)?;
            run(means(&data, curator)?)
        },
    )
}
