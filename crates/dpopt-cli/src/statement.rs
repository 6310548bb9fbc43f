//! The privacy statement of a run, in numbers and in words.

use dpopt::nonconvex::Stop;
use dpopt::privacy::{Accountant, Adjacency, Delta, Epsilon, Event, Guarantee, Mode};
use serde::{Deserialize, Serialize};

/// The private table that a statement is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protected {
    /// A model was trained on it.
    Trained,
    /// A model was trained on a part of it and evaluated on the other, which the statement is about.
    HeldOut,
    /// A finished model was evaluated on it.
    Evaluated,
    /// The point of a finished model was certified on it.
    Certified,
}

impl Protected {
    /// Its name, after an article.
    fn table(self) -> &'static str {
        match self {
            Self::Trained => "training table",
            Self::HeldOut => "held-out part of the table",
            Self::Evaluated => "table that the model was evaluated on",
            Self::Certified => "table that the model was certified on",
        }
    }

    /// What is public beside the schema, the header and the flags, as the end of a list.
    fn public(self, size: &str) -> String {
        match self {
            Self::Trained => format!("{size}; so is the test set, where there is one"),
            Self::HeldOut => format!("{size}, and the seed of the draw"),
            Self::Evaluated | Self::Certified => format!(
                "{size}, and the model, whose own statement covers what it says of the records that it was trained on"
            ),
        }
    }
}

/// What a run guarantees, and what that rests on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Statement {
    /// Of the whole plan, whether or not the run was stopped before its end.
    pub(crate) epsilon: f64,
    pub(crate) delta: Delta,
    pub(crate) adjacency: Adjacency,
    pub(crate) accountant: Accountant,
    pub(crate) mode: Mode,
    /// Public number of records: declared under add-remove.
    pub(crate) records: u64,
    /// Properties of the loss that it rests on beside all else: claimed, and not enforced. None for most solvers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) rests_on: Vec<String>,
    /// The schema was read from the records, and the guarantee does not cover what it tells of them.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) draft_schema: bool,
    /// For a run that started at a point of earlier ones: what all runs on the ledger have together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) all_runs: Option<AllRuns>,
    /// For a run that was stopped: what its releases cost by themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) odometer: Option<Odometer>,
    /// The statement in sentences.
    pub(crate) words: Vec<String>,
}

/// What all runs on a ledger have together, in whose earlier ones another started.
pub(crate) struct Earlier {
    pub(crate) epsilon: Epsilon,
    pub(crate) delta: Delta,
    /// What the guarantees of some of them rest on.
    pub(crate) rests_on: Vec<String>,
}

/// What all runs on a ledger have together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct AllRuns {
    pub(crate) epsilon: f64,
    pub(crate) delta: Delta,
}

/// A reading of what was spent up to the stop, which holds whatever the rule that stopped the
/// run; beside the guarantee, not in its place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Odometer {
    pub(crate) epsilon: f64,
    pub(crate) delta: Delta,
    pub(crate) accountant: Accountant,
    /// The theorem that the reading rests on.
    pub(crate) theorem: String,
}

impl Statement {
    /// The statement of a run that read the table `protected`, of `records` (public) records. `spent` is all that was released on them, none where other
    /// releases stand beside it, of which no odometer here tells. `earlier`: where it started in earlier runs on its ledger.
    pub(crate) fn new(
        guarantee: &Guarantee,
        (protected, records): (Protected, u64),
        stop: Stop,
        spent: Option<&Event>,
        earlier: Option<&Earlier>,
        draft_schema: bool,
    ) -> Self {
        let odometer = spent
            .filter(|_| stop != Stop::Completed)
            .and_then(|spent| Odometer::read(spent, guarantee));
        let mut rests_on: Vec<String> = guarantee
            .rests_on()
            .iter()
            .map(ToString::to_string)
            .collect();
        for claim in earlier.iter().flat_map(|earlier| &earlier.rests_on) {
            if !rests_on.contains(claim) {
                rests_on.push(claim.clone());
            }
        }
        let whole = earlier.map(|earlier| (earlier.epsilon, earlier.delta));
        let mut words = words(guarantee, (protected, records), whole, stop, draft_schema);
        words.extend(rests_on.iter().map(|claim| {
            format!(
                "Assumed besides, and not enforced: {claim}. If that fails there is no guarantee."
            )
        }));
        words.extend(odometer.as_ref().map(|reading| {
            format!(
                "The run ended before its plan was used up. Odometer: with probability at \
                 least 1 - {delta} the privacy loss of what was released, the logarithm of the factor \
                 above, is at most {epsilon}, also if the stop was decided by looking at what had \
                 been released ({theorem}). The guarantee stays that of the plan.",
                delta = scientific(reading.delta),
                epsilon = rounded_up(reading.epsilon),
                theorem = reading.theorem
            )
        }));
        Self {
            epsilon: guarantee.epsilon(),
            delta: guarantee.delta(),
            adjacency: guarantee.adjacency(),
            accountant: guarantee.accountant(),
            mode: Mode::Protected,
            records,
            rests_on,
            draft_schema,
            all_runs: whole.map(|(epsilon, delta)| AllRuns {
                epsilon: epsilon.get(),
                delta,
            }),
            odometer,
            words,
        }
    }
}

impl Statement {
    /// What is wrong with a statement that was read from a file: it promises nothing, or its sentences are not those of its numbers.
    pub(crate) fn problem(&self) -> Option<String> {
        if self.mode != Mode::Protected {
            return Some(format!(
                "it is of a {} run and states no guarantee",
                self.mode
            ));
        }
        let others = [
            self.all_runs.map(|all| all.epsilon),
            self.odometer.as_ref().map(|reading| reading.epsilon),
        ];
        let all = [Some(self.epsilon)].into_iter().chain(others);
        let is_none = |epsilon: &f64| !(epsilon.is_finite() && *epsilon >= 0.0);
        if let Some(epsilon) = all.flatten().find(is_none) {
            return Some(format!(
                "its epsilon of {epsilon} is no privacy parameter: a finite number from 0 on is needed"
            ));
        }
        let pair = format!(
            "({}, {})-differentially private under {} adjacency",
            rounded_up(self.epsilon),
            scientific(self.delta),
            self.adjacency
        );
        let said = self
            .words
            .first()
            .is_some_and(|words| words.contains(&pair));
        (!said).then(|| {
            format!(
                "its words do not say {pair:?}, which its numbers say: it was edited, or written by another version"
            )
        })
    }
}

/// What releases cost that no run followed, in words.
pub(crate) fn spent_in_words(spent: &Event, adjacency: Adjacency, delta: Delta) -> String {
    let mut odometer = dpopt::privacy::Odometer::new(adjacency);
    match odometer.spend(spent, adjacency) {
        Ok(()) => format!(
            "with probability at least 1 - {} its privacy loss is at most {}",
            scientific(delta),
            rounded_up(odometer.epsilon(delta))
        ),
        Err(error) => format!("no reading ({error})"),
    }
}

impl Odometer {
    /// The time-uniform reading; none where it says no more than the plan's guarantee.
    ///
    /// The epsilon of the realised releases as if their number had been fixed would be smaller,
    /// but no theorem states it for a stop that depends on releases.
    fn read(spent: &Event, guarantee: &Guarantee) -> Option<Self> {
        let mut odometer = dpopt::privacy::Odometer::new(guarantee.adjacency());
        odometer.spend(spent, guarantee.adjacency()).ok()?;
        let epsilon = odometer.epsilon(guarantee.delta());
        (epsilon < guarantee.epsilon()).then(|| Self {
            epsilon,
            delta: guarantee.delta(),
            accountant: Accountant::Rdp,
            theorem: "Ville's inequality for Renyi supermartingales, as in Whitehouse, Ramdas, \
                      Rogers and Wu 2023"
                .to_owned(),
        })
    }
}

fn words(
    guarantee: &Guarantee,
    (protected, records): (Protected, u64),
    whole: Option<(Epsilon, Delta)>,
    stop: Stop,
    draft_schema: bool,
) -> Vec<String> {
    let (adjacency, accountant) = (guarantee.adjacency(), guarantee.accountant());
    let table = protected.table();
    let counted = format!("the number of records, {records}");
    let (change, size) = match adjacency {
        Adjacency::AddRemove => (
            format!("one record is added to the {table} or removed from it"),
            format!("the declared size of {records} (the true number of records is protected)"),
        ),
        Adjacency::ZeroOut => (
            format!("one record of the {table} is exchanged for one that contributes nothing"),
            counted,
        ),
        Adjacency::ReplaceOne => (
            format!("one record of the {table} is exchanged for any other"),
            counted,
        ),
    };
    let size = protected.public(&size);
    let exceptions = exceptions(adjacency, stop, draft_schema);
    let (what, given) = match whole {
        None => (
            format!("Everything that was written and shown{exceptions} is together"),
            String::new(),
        ),
        Some((epsilon, delta)) => (
            format!(
                "Everything that this run wrote and showed{exceptions} is together, given the point that it started from,"
            ),
            format!(
                " That point came from earlier runs on the same ledger. All runs on the ledger \
                 together, these included, are ({}, {})-differentially private.",
                rounded_up(epsilon.get()),
                scientific(delta)
            ),
        ),
    };
    let mut words = vec![
        format!(
            "{what} ({}, {})-differentially \
             private under {adjacency} adjacency, by the {accountant} accountant: when {change}, \
             the probability of any outcome changes by at most a factor e^epsilon, plus delta.{given}",
            rounded_up(guarantee.epsilon()),
            scientific(guarantee.delta())
        ),
        format!(
            "Protected: each line of the {table}, its label included. Somebody with several \
             lines is protected less, and running times are not protected."
        ),
    ];
    if draft_schema {
        words.push(format!(
            "Public: the header, the flags, {size}. NOT public, and not \
             protected: the schema is an unedited draft whose ranges, categories and label values were read from \
             the records. The guarantee does not cover what they tell; it holds for all that was computed once they \
             were fixed."
        ));
        words.push(
            "Assumed: the flags were chosen without looking at the records, and the random numbers of the operating \
             system can't be predicted."
                .to_owned(),
        );
    } else {
        words.push(format!(
            "Public: the schema, the header, the flags, {size}."
        ));
        words.push(
            "Assumed: the schema and the flags were chosen without looking at the records, and the \
             random numbers of the operating system can't be predicted."
                .to_owned(),
        );
    }
    words
}

/// What was written or shown and is not covered: nothing, or a list between commas.
fn exceptions(adjacency: Adjacency, stop: Stop, draft_schema: bool) -> String {
    let mut all = Vec::new();
    if draft_schema {
        all.push("the schema and what follows from it alone");
    }
    if adjacency.record_count_is_public() {
        all.push("the running times");
    }
    if stop == Stop::ByObserver {
        all.push("the step at which a signal stopped the run");
    }
    match all.as_slice() {
        [] => String::new(),
        [one] => format!(", but for {one},"),
        [most @ .., last] => format!(", but for {} and {last},", most.join(", ")),
    }
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// Four digits, never below the value.
pub(crate) fn rounded_up(epsilon: f64) -> String {
    let digits = (epsilon * 1e4).ceil() / 1e4;
    format!("{digits}")
}

/// As people write a delta: 1e-6.
pub(crate) fn scientific(delta: Delta) -> String {
    format!("{:e}", delta.get())
}

#[cfg(test)]
mod tests {
    use super::rounded_up;

    #[test]
    fn epsilon_is_never_shown_too_small() {
        assert_eq!(rounded_up(0.999_999_99), "1");
        assert_eq!(rounded_up(1.000_001), "1.0001");
        assert_eq!(rounded_up(0.123_4), "0.1234");
    }
}
