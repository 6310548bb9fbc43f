//! Walks over event trees that do not recurse: cloning, comparing, dropping, counting, checking.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::error::{EventError, EventProblem, MAX_DEPTH, MAX_NODES};
use super::tree::{Event, Field};

/// Events that [`std::fmt::Display`] writes before it cuts the rest short.
const SHOWN: usize = 32;

impl Event {
    /// The inner events.
    pub(crate) fn children(&self) -> &[Event] {
        match self {
            Event::PoissonSampled { event, .. }
            | Event::SampledWithReplacement { event, .. }
            | Event::SampledWithoutReplacement { event, .. }
            | Event::RandomAllocation { event, .. }
            | Event::SelfComposed { event, .. }
            | Event::RepeatAndSelect { event, .. } => std::slice::from_ref(&**event),
            Event::Composed { events } | Event::ParallelComposed { events } => events,
            _ => &[],
        }
    }

    /// The name of the field that holds the inner events, and whether it is a list.
    pub(super) fn child_key(&self) -> Option<(&'static str, bool)> {
        match self {
            Event::Composed { .. } | Event::ParallelComposed { .. } => Some(("events", true)),
            other if !other.children().is_empty() => Some(("event", false)),
            _ => None,
        }
    }

    /// Moves the inner events out, leaving nothing that is nested.
    fn take_children(&mut self) -> Vec<Event> {
        match self {
            Event::PoissonSampled { event, .. }
            | Event::SampledWithReplacement { event, .. }
            | Event::SampledWithoutReplacement { event, .. }
            | Event::RandomAllocation { event, .. }
            | Event::SelfComposed { event, .. }
            | Event::RepeatAndSelect { event, .. } => {
                // A leaf inside a box is dropped with the box.
                if event.children().is_empty() {
                    Vec::new()
                } else {
                    vec![std::mem::replace(&mut **event, Event::NoOp)]
                }
            }
            Event::Composed { events } | Event::ParallelComposed { events } => {
                std::mem::take(events)
            }
            _ => Vec::new(),
        }
    }

    /// This event with `inner` as its inner events.
    fn with_children(&self, mut inner: Vec<Event>) -> Event {
        let mut one = || Box::new(inner.pop().unwrap_or(Event::NoOp));
        match self {
            Event::PoissonSampled {
                sampling_probability,
                ..
            } => Event::PoissonSampled {
                sampling_probability: *sampling_probability,
                event: one(),
            },
            Event::SampledWithReplacement {
                source_dataset_size,
                sample_size,
                ..
            } => Event::SampledWithReplacement {
                source_dataset_size: *source_dataset_size,
                sample_size: *sample_size,
                event: one(),
            },
            Event::SampledWithoutReplacement {
                source_dataset_size,
                sample_size,
                ..
            } => Event::SampledWithoutReplacement {
                source_dataset_size: *source_dataset_size,
                sample_size: *sample_size,
                event: one(),
            },
            Event::RandomAllocation {
                num_steps,
                num_participations,
                ..
            } => Event::RandomAllocation {
                num_steps: *num_steps,
                num_participations: *num_participations,
                event: one(),
            },
            Event::TruncatedSubsampledGaussian {
                dataset_size,
                sampling_probability,
                truncated_batch_size,
                noise_multiplier,
            } => Event::TruncatedSubsampledGaussian {
                dataset_size: *dataset_size,
                sampling_probability: *sampling_probability,
                truncated_batch_size: *truncated_batch_size,
                noise_multiplier: *noise_multiplier,
            },
            Event::SelfComposed { count, .. } => Event::SelfComposed {
                event: one(),
                count: *count,
            },
            Event::RepeatAndSelect { mean, shape, .. } => Event::RepeatAndSelect {
                event: one(),
                mean: *mean,
                shape: *shape,
            },
            Event::Composed { .. } => Event::Composed { events: inner },
            Event::ParallelComposed { .. } => Event::ParallelComposed { events: inner },
            Event::NoOp => Event::NoOp,
            Event::NonPrivate => Event::NonPrivate,
            Event::Gaussian { noise_multiplier } => Event::Gaussian {
                noise_multiplier: *noise_multiplier,
            },
            Event::Laplace { noise_multiplier } => Event::Laplace {
                noise_multiplier: *noise_multiplier,
            },
            Event::DiscreteGaussian { noise_multiplier } => Event::DiscreteGaussian {
                noise_multiplier: *noise_multiplier,
            },
            Event::DiscreteLaplace {
                noise_parameter,
                sensitivity,
            } => Event::DiscreteLaplace {
                noise_parameter: *noise_parameter,
                sensitivity: *sensitivity,
            },
            Event::RandomizedResponse {
                noise_parameter,
                num_buckets,
            } => Event::RandomizedResponse {
                noise_parameter: *noise_parameter,
                num_buckets: *num_buckets,
            },
            Event::SingleEpochTreeAggregation {
                noise_multiplier,
                step_counts,
            } => Event::SingleEpochTreeAggregation {
                noise_multiplier: *noise_multiplier,
                step_counts: step_counts.clone(),
            },
            Event::PrefixSums {
                noise_multiplier,
                step_counts,
            } => Event::PrefixSums {
                noise_multiplier: *noise_multiplier,
                step_counts: step_counts.clone(),
            },
            Event::ZCdp { rho, xi } => Event::ZCdp { rho: *rho, xi: *xi },
            Event::EpsilonDelta { epsilon, delta } => Event::EpsilonDelta {
                epsilon: *epsilon,
                delta: *delta,
            },
            Event::ExponentialMechanism { epsilon } => {
                Event::ExponentialMechanism { epsilon: *epsilon }
            }
            Event::PermuteAndFlip { epsilon } => Event::PermuteAndFlip { epsilon: *epsilon },
            Event::AboveThreshold { epsilon } => Event::AboveThreshold { epsilon: *epsilon },
            Event::ReportNoisyMax { epsilon } => Event::ReportNoisyMax { epsilon: *epsilon },
            Event::Unsupported { class_name } => Event::Unsupported {
                class_name: class_name.clone(),
            },
        }
    }

    /// Whether the two are equal apart from what is inside them.
    fn same_node(&self, other: &Event) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
            && self.fields() == other.fields()
            && self.children().len() == other.children().len()
            && self.class() == other.class()
    }

    /// A number that equal events share.
    fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let mut stack = vec![self];
        while let Some(event) = stack.pop() {
            std::mem::discriminant(event).hash(&mut hasher);
            if let Event::Unsupported { class_name } = event {
                class_name.hash(&mut hasher);
            }
            for (_, field) in event.fields().into_iter().flatten() {
                match field {
                    // Plus zero makes one of the two zeros.
                    Field::Real(value) => (value + 0.0).to_bits().hash(&mut hasher),
                    Field::Whole(value) => value.hash(&mut hasher),
                    Field::Steps(steps) => steps.as_slice().hash(&mut hasher),
                }
            }
            stack.extend(event.children());
        }
        hasher.finish()
    }

    /// The elementary releases in this event with their multiplicities: compositions are
    /// flattened, equal leaves are counted together, in order of first appearance.
    /// A sampled event is a leaf, and so is a parallel composition. Counts saturate at `u64::MAX`.
    #[must_use]
    pub fn leaves(&self) -> Vec<(Event, u64)> {
        let mut out: Vec<(Event, u64)> = Vec::new();
        let mut known: HashMap<u64, Vec<usize>> = HashMap::new();
        let mut last = 0;
        let mut stack = vec![(std::slice::from_ref(self).iter(), 1_u64)];
        while let Some((events, times)) = stack.last_mut() {
            let times = *times;
            let Some(event) = events.next() else {
                stack.pop();
                continue;
            };
            match event {
                Event::NoOp => {}
                Event::SelfComposed { count: 0, .. } => {}
                Event::SelfComposed { count, .. } => {
                    stack.push((event.children().iter(), times.saturating_mul(*count)));
                }
                Event::Composed { events } => stack.push((events.iter(), times)),
                leaf => {
                    if let Some((same, count)) = out.get_mut(last)
                        && same == leaf
                    {
                        *count = count.saturating_add(times);
                        continue;
                    }
                    let bucket = known.entry(leaf.fingerprint()).or_default();
                    if let Some(&at) = bucket.iter().find(|&&at| out[at].0 == *leaf) {
                        out[at].1 = out[at].1.saturating_add(times);
                        last = at;
                    } else {
                        last = out.len();
                        bucket.push(last);
                        out.push((leaf.clone(), times));
                    }
                }
            }
        }
        out
    }

    /// Number of elementary releases, [`Event::NoOp`] excluded.
    #[must_use]
    pub fn release_count(&self) -> u64 {
        self.leaves()
            .iter()
            .fold(0, |total, (_, count)| total.saturating_add(*count))
    }

    /// Whether each release is charged to slices of the records, so that none reads all of them or a sample.
    #[must_use]
    pub fn is_on_slices(&self) -> bool {
        let on_slices = |leaf: &Event| matches!(leaf, Event::ParallelComposed { .. });
        self.leaves().iter().all(|(leaf, _)| on_slices(leaf))
    }

    /// Checks every number in the tree, that no composition is empty, and the tree's size.
    ///
    /// # Errors
    /// [`EventError`] with the path of the first offence.
    pub fn check(&self) -> Result<(), EventError> {
        match self.search(MAX_NODES, |event| event.check_fields().err()) {
            Found::Nothing => Ok(()),
            Found::At(path, (field, problem)) => Err(EventError {
                path: join(path, field),
                problem,
            }),
            Found::TooLarge(path, problem) => Err(EventError { path, problem }),
        }
    }

    /// The path of the first event in the tree that equals `other`; empty when it is this one.
    pub(crate) fn path_to(&self, other: &Event) -> String {
        match self.search(MAX_NODES, |event| (event == other).then_some(())) {
            Found::At(path, ()) | Found::TooLarge(path, _) => path,
            Found::Nothing => String::new(),
        }
    }

    /// Whether every level can be written.
    pub(super) fn check_depth(&self) -> Result<(), EventError> {
        match self.search(u64::MAX, |_| None::<()>) {
            Found::TooLarge(path, problem) => Err(EventError { path, problem }),
            _ => Ok(()),
        }
    }

    /// Depth-first search within the limits of size.
    fn search<T>(&self, most: u64, mut wanted: impl FnMut(&Event) -> Option<T>) -> Found<T> {
        // One entry for each level: the event and the next of its inner events.
        let mut stack: Vec<(&Event, usize)> = vec![(self, 0)];
        let mut nodes = 1;
        if let Some(found) = wanted(self) {
            return Found::At(String::new(), found);
        }
        while let Some((event, next)) = stack.last_mut() {
            let Some(child) = event.children().get(*next) else {
                stack.pop();
                continue;
            };
            *next += 1;
            nodes += 1;
            stack.push((child, 0));
            if stack.len() > MAX_DEPTH + 1 {
                return Found::TooLarge(path(&stack), EventProblem::TooDeep);
            }
            if nodes > most {
                return Found::TooLarge(path(&stack), EventProblem::TooMany);
            }
            if let Some(found) = wanted(child) {
                return Found::At(path(&stack), found);
            }
            if child.children().is_empty() {
                stack.pop();
            }
        }
        Found::Nothing
    }

    fn write(&self, f: &mut std::fmt::Formatter<'_>, left: &mut usize) -> std::fmt::Result {
        if *left == 0 {
            return f.write_str("...");
        }
        *left -= 1;
        match self {
            Event::NoOp => f.write_str("nothing"),
            Event::NonPrivate => f.write_str("an unprotected release"),
            Event::Gaussian { noise_multiplier } => {
                write!(f, "Gaussian(noise multiplier {noise_multiplier})")
            }
            Event::PoissonSampled {
                sampling_probability,
                event,
            } => {
                event.write(f, left)?;
                write!(f, " on a Poisson sample at rate {sampling_probability}")
            }
            Event::SelfComposed { event, count } => {
                write!(f, "{count} x (")?;
                event.write(f, left)?;
                f.write_str(")")
            }
            Event::Composed { events } => write_all(f, events, left),
            Event::Unsupported { class_name } => write!(f, "unsupported event {class_name}"),
            other => {
                let name = other.class();
                f.write_str(name.strip_suffix("DpEvent").unwrap_or(name))?;
                f.write_str("(")?;
                let mut comma = "";
                for (name, field) in other.fields().into_iter().flatten() {
                    write!(f, "{comma}{} ", name.replace('_', " "))?;
                    comma = ", ";
                    match field {
                        Field::Real(value) => write!(f, "{value}")?,
                        Field::Whole(value) => write!(f, "{value}")?,
                        Field::Steps(steps) => match steps.as_slice() {
                            few if few.len() <= SHOWN => write!(f, "{few:?}")?,
                            many => write!(f, "of {} trees", many.len())?,
                        },
                    }
                }
                if !other.children().is_empty() {
                    write!(f, "{}", if comma.is_empty() { "" } else { "; " })?;
                    write_all(f, other.children(), left)?;
                }
                f.write_str(")")
            }
        }
    }
}

fn write_all(
    f: &mut std::fmt::Formatter<'_>,
    events: &[Event],
    left: &mut usize,
) -> std::fmt::Result {
    for (i, event) in events.iter().enumerate() {
        if i > 0 {
            f.write_str(" + ")?;
        }
        if *left == 0 {
            return f.write_str("...");
        }
        event.write(f, left)?;
    }
    Ok(())
}

enum Found<T> {
    Nothing,
    At(String, T),
    TooLarge(String, EventProblem),
}

/// `events[3].event` for a stack whose entries point past the inner event that was entered.
fn path(stack: &[(&Event, usize)]) -> String {
    let mut out = String::new();
    for (event, next) in stack.iter().take(stack.len().saturating_sub(1)) {
        match event.child_key() {
            Some((key, true)) => {
                out = join(out, key);
                out.push_str(&format!("[{}]", next - 1));
            }
            Some((key, false)) => out = join(out, key),
            None => {}
        }
    }
    out
}

/// A field, or a place in the list, at `path`.
pub(super) fn join(mut path: String, field: &str) -> String {
    if !path.is_empty() && !field.is_empty() && !field.starts_with('[') {
        path.push('.');
    }
    path.push_str(field);
    path
}

impl Drop for Event {
    fn drop(&mut self) {
        let mut stack = self.take_children();
        while let Some(mut event) = stack.pop() {
            stack.append(&mut event.take_children());
        }
    }
}

impl Clone for Event {
    fn clone(&self) -> Self {
        let capacity = |event: &Event| Vec::with_capacity(event.children().len());
        let mut stack = vec![(self, capacity(self))];
        loop {
            let Some((event, done)) = stack.last_mut() else {
                return Event::NoOp;
            };
            if let Some(child) = event.children().get(done.len()) {
                if child.children().is_empty() {
                    done.push(child.with_children(Vec::new()));
                } else {
                    stack.push((child, capacity(child)));
                }
            } else {
                let built = event.with_children(std::mem::take(done));
                stack.pop();
                match stack.last_mut() {
                    Some((_, parent)) => parent.push(built),
                    None => return built,
                }
            }
        }
    }
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        if !self.same_node(other) {
            return false;
        }
        let mut stack = vec![(self.children(), other.children())];
        while let Some((ours, theirs)) = stack.pop() {
            for (a, b) in ours.iter().zip(theirs) {
                if !a.same_node(b) {
                    return false;
                }
                if !a.children().is_empty() {
                    stack.push((a.children(), b.children()));
                }
            }
        }
        true
    }
}

impl std::fmt::Display for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.write(f, &mut SHOWN.clone())
    }
}

/// As [`std::fmt::Display`], which is cut short.
impl std::fmt::Debug for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Event({self})")
    }
}
