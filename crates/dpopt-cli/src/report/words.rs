//! The privacy statement in words.

use dpopt::certify::WindowSubject;
use dpopt::nonconvex::Stop;
use dpopt::privacy::Adjacency;
use dpopt_report::{at_least, percent_at_least, table};

use super::input::{PrivacyStatement, ReportInput};
use crate::attack::{AttackTable, GROUPS, Grounds};

/// Which pairs of data sets the guarantee is about.
pub(crate) fn adjacency(adjacency: Adjacency) -> &'static str {
    match adjacency {
        Adjacency::ReplaceOne => {
            "Two data sets are neighbours if they differ in one record, exchanged for any other \
             record. The number of records is the same in both, and public."
        }
        Adjacency::AddRemove => {
            "Two data sets are neighbours if one is the other with one record added or removed. \
             The number of records is itself private; where a size was needed, a declared public \
             one was used."
        }
        Adjacency::ZeroOut => {
            "Two data sets are neighbours if they differ in one record, exchanged for a record \
             that contributes nothing. The number of records, blank ones included, is public. \
             (This is weaker than exchanging a record for any other: do not compare its epsilon \
             with one for replace-one.)"
        }
    }
}

/// What became of the record in the other data set.
pub(crate) fn without(adjacency: Adjacency) -> &'static str {
    match adjacency {
        Adjacency::AddRemove => "left out",
        Adjacency::ZeroOut => "blanked",
        Adjacency::ReplaceOne => "exchanged for another",
    }
}

/// How a run ended, after so many releases.
pub(super) fn ended(stop: Stop, releases: &str) -> String {
    match stop {
        Stop::Completed => format!("ran its plan to the end, {releases}"),
        Stop::StepCap => format!("made as many steps as it was allowed, {releases}"),
        Stop::SmallEstimate => {
            format!("ended at an estimate as short as its plan asks for, after {releases}")
        }
        Stop::Certified => format!("ended with a certificate, after {releases}"),
        Stop::NormUnpaid | Stop::GradientUnpaid | Stop::BudgetUsed => {
            format!("went on until its budget paid for no more, {releases}")
        }
        Stop::RecordsExhausted => {
            format!("read its records until fewer were left than the next step reads, {releases}")
        }
        Stop::NoGain => {
            format!("ended where no length of a step was seen to gain anything, after {releases}")
        }
        Stop::CandidatesUsed => {
            format!(
                "looked at as many candidates as it was planned for, none certified, {releases}"
            )
        }
        Stop::Converged => {
            format!("ended where the gradient is not seen above the noise, after {releases}")
        }
        Stop::ByObserver => {
            format!("stopped by a signal before the end of its plan, after {releases}")
        }
        Stop::Diverged => {
            format!("stopped because a release or a length was not finite, after {releases}")
        }
    }
}

/// What the guarantee does not cover though it may depend on the records.
pub(super) fn exceptions(input: &ReportInput<'_>) -> String {
    let mut out = String::new();
    if input.privacy.draft_schema {
        out.push_str(
            " The schema, and what follows from it alone, is an exception: it is a draft that was read from the records.",
        );
    }
    if input.times.is_some() {
        out.push_str(" Times are an exception: they are measured, not protected.");
    }
    if input.privacy.stop == Stop::ByObserver {
        out.push_str(
            " The step at which the run stopped is an exception: a signal comes at a time, and how many steps were made by then tells how \
             long a step took.",
        );
    }
    out
}

/// On what the statement of a run that started at a point of earlier ones is conditional.
pub(super) fn given_start(privacy: &PrivacyStatement<'_>) -> &'static str {
    match privacy.all_runs {
        Some(_) => ", given the point that it started from",
        None => "",
    }
}

/// What goes with the pair in the heading.
pub(super) fn conditions(privacy: &PrivacyStatement<'_>) -> String {
    let mut out = String::new();
    if let Some(all) = privacy.all_runs {
        out.push_str(&format!(
            ", given the point that it started from, which earlier runs on the same ledger released; all of them together are \
             (ε = {}, δ = {})-differentially private",
            at_least(all.epsilon),
            at_least(all.delta.get())
        ));
    }
    if privacy.draft_schema {
        out.push_str(", for a fixed schema; this one was read from the records");
    }
    out
}

/// What is known about the number of records.
fn record_count(adjacency: Adjacency) -> &'static str {
    if adjacency.record_count_is_public() {
        "The number of records may be known to anyone."
    } else {
        "The declared size was chosen without looking at the records."
    }
}

/// What assumptions depend on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Assumed {
    pub(crate) adjacency: Adjacency,
    pub(crate) draft_schema: bool,
    /// Whether times stand beside the statement.
    pub(crate) times: bool,
    /// Whether what is left on a ledger stands beside the statement.
    pub(crate) on_ledger: bool,
}

/// The assumptions that the guarantee rests on: short name, explanation.
pub(crate) fn assumptions(of: Assumed) -> [(&'static str, String); 9] {
    let adjacency = of.adjacency;
    let schema = if of.draft_schema {
        "The schema is an unedited draft: its ranges, categories and label values were read from the protected \
         records. The guarantee does not cover what they tell, and they stand in model.json. It holds for what was \
         computed once the schema was fixed."
    } else {
        "Columns, ranges, categories and defaults are public, and were written down without \
         looking at the protected records."
    };
    let times = if of.times {
        ", and that includes the times on this page"
    } else {
        ""
    };
    let others = match of.on_ledger {
        true => {
            "The ε and δ above are about one run. All runs on its ledger together are within the ledger’s budget, which is \
             shown above. Runs on the same records that are not on that ledger add to the cost."
        }
        false => {
            "This statement is about one run. Earlier runs on the same records, tuning runs included, add to the cost."
        }
    };
    [
        ("Schema", schema.to_owned()),
        (
            "Row norm",
            "The bound on a record's norm is public. It is enforced: longer rows are scaled down.".to_owned(),
        ),
        ("Record count", record_count(adjacency).to_owned()),
        (
            "One record, one person",
            "The unit of protection is a record. A person with k records is protected less, as shown above for 2 and 5."
                .to_owned(),
        ),
        (
            "Loss",
            "The author of the loss is honest: a record's contribution is a function of that \
             record and of public values, and its evaluation ends."
                .to_owned(),
        ),
        (
            "Randomness",
            "ChaCha20 under a secret key can't be told from random bits, so the guarantee is \
             computational to that extent."
                .to_owned(),
        ),
        (
            "Key",
            "The operating system's entropy is uniform and secret, and so is the memory of the \
             process."
                .to_owned(),
        ),
        (
            "Side channels",
            format!(
                "Timing, memory use, power and the like are not observed. The guarantee does not \
                 cover them{times}."
            ),
        ),
        ("Other releases", others.to_owned()),
    ]
}

/// The same with a capital letter in front.
pub(super) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

/// What it means that a certificate is of this, as the end of a paragraph.
pub(super) fn subject(of: WindowSubject) -> &'static str {
    match of {
        WindowSubject::GoldsteinDistance => {
            ". The Goldstein distance is the length of the shortest mean of gradients at points within the radius"
        }
        WindowSubject::ComponentWise => {
            ". Component-wise: each record's own subgradients are averaged, and where the points hit a kink that mean may be none \
             of the mean loss"
        }
        WindowSubject::ClippedGradients => {
            ". The run clips gradients below the Lipschitz constant of the loss: where a clip bites, their mean is no gradient of \
             the loss"
        }
    }
}

/// e^epsilon, or that it is beyond all numbers that can be written here.
fn factor(epsilon: f64) -> String {
    let factor = epsilon.exp();
    if epsilon.is_finite() && factor.is_infinite() {
        format!(
            "e<sup>{}</sup>, more than 10<sup>308</sup>,",
            at_least(epsilon)
        )
    } else {
        at_least(factor)
    }
}

/// What epsilon and delta promise, as a paragraph of HTML.
pub(super) fn definition(privacy: &PrivacyStatement<'_>) -> String {
    format!(
        "Take two neighbouring data sets, and any set of things that this run could have released{}. \
         Its probability on one of them is at most e<sup>ε</sup> = {} times its probability on the \
         other, plus δ = {}. This holds whatever else is known, and any later use of \
         what was released keeps it.",
        given_start(privacy),
        factor(privacy.epsilon),
        at_least(privacy.delta)
    )
}

/// The table of what a test can achieve.
pub(super) fn tests_table(attack: &AttackTable, all_runs: bool) -> String {
    let several: Vec<String> = GROUPS
        .iter()
        .map(|records| match records {
            1 => "true positives, at most".to_owned(),
            k => format!("the same for {k} records"),
        })
        .collect();
    let mut columns = vec!["false positives"];
    columns.extend(several.iter().map(String::as_str));
    columns.extend(["by blind guessing", "true positives, one record, drawn"]);
    let rows: Vec<Vec<String>> = attack
        .rows
        .iter()
        .map(|row| {
            let rate = percent_at_least(row.false_positives);
            let width = 100.0 * row.true_positives.first().copied().unwrap_or(1.0);
            let mut cells = vec![rate.clone()];
            cells.extend(row.true_positives.iter().map(|p| percent_at_least(*p)));
            cells.push(rate);
            cells.push(format!(
                "<span class=\"bar\" aria-hidden=\"true\" style=\"width:{:.0}px\"></span>",
                width.max(1.0)
            ));
            cells
        })
        .collect();
    let mut out = match all_runs {
        true => "<p>The table is of all runs on the ledger together.</p>\n".to_owned(),
        false => String::new(),
    };
    out += &table(
        "num attacks",
        "Best possible test of “which of the two data sets was used?”",
        &columns,
        &rows,
    );
    out.push_str(&format!(
        "<p class=\"note\">{}</p>\n",
        grounds(attack.grounds)
    ));
    let groups = attack.groups.iter().filter(|group| group.records > 1);
    let groups: Vec<String> = groups
        .map(|group| {
            format!(
                "with {} records (ε = {}, δ = {})",
                group.records,
                at_least(group.epsilon),
                at_least(group.delta)
            )
        })
        .collect();
    out.push_str(&format!(
        "<p>Somebody with several records is protected less: {}. {}</p>\n",
        groups.join(", "),
        match attack.grounds {
            Grounds::Gaussian => "That holds for every run of this kind, and is exact for a single Gaussian release: k records have k times the μ of one.",
            Grounds::Groups => "Those numbers are of the pair of distributions that is worst for so many records.",
            Grounds::Curve =>
                "That is a bound: where (ε, δ) holds for one record, (kε, δ(e<sup>kε</sup> − 1)/(e<sup>ε</sup> − 1)) holds for k, \
                 at the best point of the curve.",
            Grounds::Pair =>
                "That is a bound: where (ε, δ) holds for one record, (kε, δ(e<sup>kε</sup> − 1)/(e<sup>ε</sup> − 1)) holds for k.",
        }
    ));
    out
}

/// What the table was computed from.
fn grounds(grounds: Grounds) -> &'static str {
    match grounds {
        Grounds::Gaussian => {
            "From the trade-off curve of the run itself, which is that of a Gaussian mechanism with parameter μ: at a false positive \
             rate a, true positives are at most Φ(Φ<sup>−1</sup>(a) + kμ) for k records. No test does better."
        }
        Grounds::Curve | Grounds::Groups => {
            "From the accountant’s whole curve of δ over ε, not from one point of it: at a false positive rate a, true positives T(a) \
             are at most the least of δ(ε) + e<sup>ε</sup>a and 1 − e<sup>−ε</sup>(1 − δ(ε) − a); for k records, T applied k times. \
             No test does better."
        }
        Grounds::Pair => {
            "From (ε, δ) alone: at a false positive rate a, true positives T(a) are at most \
             min(1, δ + e<sup>ε</sup>a, 1 − e<sup>−ε</sup>(1 − δ − a)); for k records, T applied k times. The mechanism itself may \
             leave still less room."
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_relation_is_explained() {
        let kinds = [
            Adjacency::ReplaceOne,
            Adjacency::AddRemove,
            Adjacency::ZeroOut,
        ];
        for kind in kinds {
            assert!(adjacency(kind).contains("one record"));
        }
        assert!(adjacency(Adjacency::ReplaceOne).contains("exchanged for any other"));
    }
}
