//! The privacy statement in words.

use dpopt::privacy::Adjacency;

use super::PrivacyStatement;
use super::scale::{at_least, percent_at_least};

/// Which pairs of data sets the guarantee is about.
pub(super) fn adjacency(adjacency: Adjacency) -> &'static str {
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
        _ => "Neighbouring data sets are those of the relation named above.",
    }
}

/// What became of the record in the other data set.
pub(super) fn without(adjacency: Adjacency) -> &'static str {
    match adjacency {
        Adjacency::AddRemove => "left out",
        Adjacency::ZeroOut => "blanked",
        _ => "exchanged for another",
    }
}

/// What is known about the number of records.
fn record_count(adjacency: Adjacency) -> &'static str {
    if adjacency.record_count_is_public() {
        "The number of records may be known to anyone."
    } else {
        "The declared size was chosen without looking at the records."
    }
}

/// The assumptions that the guarantee rests on: short name, explanation.
pub(super) fn assumptions(adjacency: Adjacency) -> [(&'static str, &'static str); 9] {
    [
        (
            "Schema",
            "Columns, ranges, categories and defaults are public, and were written down without \
             looking at the protected records.",
        ),
        (
            "Row norm",
            "The bound on a record's norm is public. It is enforced: longer rows are scaled down.",
        ),
        ("Record count", record_count(adjacency)),
        (
            "One record, one person",
            "The unit of protection is a record. For a person with k records, epsilon grows to as much \
             as k times the stated one, and delta grows by more than that.",
        ),
        (
            "Loss",
            "The author of the loss is honest: a record's contribution is a function of that \
             record and of public values, and its evaluation ends.",
        ),
        (
            "Randomness",
            "ChaCha20 under a secret key can't be told from random bits, so the guarantee is \
             computational to that extent.",
        ),
        (
            "Key",
            "The operating system's entropy is uniform and secret, and so is the memory of the \
             process.",
        ),
        (
            "Side channels",
            "Timing, memory use, power and the like are not observed. The guarantee does not \
             cover them, and that includes the times on this page.",
        ),
        (
            "Other releases",
            "This statement is about one run. Earlier runs on the same records, tuning runs \
             included, add to the cost.",
        ),
    ]
}

/// What epsilon and delta promise, as a paragraph of HTML.
pub(super) fn definition(privacy: &PrivacyStatement<'_>) -> String {
    format!(
        "Take two neighbouring data sets, and any set of things that this run could have released. \
         Its probability on one of them is at most e<sup>ε</sup> = {} times its probability on the \
         other, plus δ = {}. This holds whatever else is known, and any later use of \
         what was released keeps it.",
        at_least(privacy.epsilon.exp()),
        at_least(privacy.delta)
    )
}

/// The largest true positive rate that any test between two neighbouring data sets can have at
/// this false positive rate.
///
/// # Formula
/// 1 - f(a), f(a) = max(0, 1 - delta - e^eps a, e^-eps (1 - delta - a)).
///
/// Source: Wasserman and Zhou 2010; Dong, Roth and Su 2022, Proposition 3.
pub(super) fn power_at_most(epsilon: f64, delta: f64, false_positives: f64) -> f64 {
    let steep = delta + epsilon.exp() * false_positives;
    // 1 - e^-eps (1 - delta - a), without cancellation.
    let flat = -(-epsilon).exp_m1() + (-epsilon).exp() * (delta + false_positives);
    let power = steep.min(flat).clamp(0.0, 1.0).max(false_positives);
    // Nonsense is read as no promise at all.
    if steep.is_nan() || flat.is_nan() {
        1.0
    } else {
        power
    }
}

/// The table of what a test can achieve.
pub(super) fn tests_table(privacy: &PrivacyStatement<'_>) -> String {
    let mut out = String::from(
        "<div class=\"scroll\"><table class=\"num\"><caption>Best possible test of “which of the two \
         data sets was used?”</caption><thead><tr><th scope=\"col\">false positives</th>\
         <th scope=\"col\">true positives, at most</th><th scope=\"col\">by blind guessing</th>\
         <td aria-hidden=\"true\"></td></tr></thead><tbody>\n",
    );
    for rate in [0.001, 0.01, 0.05, 0.1, 0.25] {
        let power = power_at_most(privacy.epsilon, privacy.delta, rate);
        out.push_str(&format!(
            "<tr><td>{}</td><td>{}</td><td>{}</td>\
             <td class=\"word\" aria-hidden=\"true\"><span class=\"bar\" style=\"width:{:.0}px\"></span></td></tr>\n",
            percent_at_least(rate),
            percent_at_least(power),
            percent_at_least(rate),
            (100.0 * power).max(1.0)
        ));
    }
    out.push_str("</tbody></table></div>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_privacy_and_full_privacy() {
        for rate in [0.001, 0.05, 0.5, 1.0] {
            assert!((power_at_most(0.0, 0.0, rate) - rate).abs() < 1e-15);
            assert_eq!(power_at_most(800.0, 0.0, rate), 1.0);
            assert_eq!(power_at_most(0.0, 1.0, rate), 1.0);
            assert_eq!(power_at_most(f64::INFINITY, 0.0, rate), 1.0);
            assert_eq!(power_at_most(f64::NAN, 0.0, rate), 1.0);
        }
    }

    #[test]
    fn both_branches_match_the_printed_formula() {
        let mut branches = [false; 2];
        for epsilon in [0.1f64, 0.5, 1.0, 3.0] {
            for delta in [0.0, 1e-6, 0.01] {
                for rate in [0.0, 0.001, 0.05, 0.3, 0.7, 1.0] {
                    let steep = 1.0 - delta - epsilon.exp() * rate;
                    let flat = (-epsilon).exp() * (1.0 - delta - rate);
                    branches[usize::from(flat > steep)] = true;
                    let printed = 1.0 - 0.0f64.max(steep).max(flat);
                    let ours = power_at_most(epsilon, delta, rate);
                    assert!((ours - printed).abs() < 1e-12, "{epsilon} {delta} {rate}");
                    assert!(ours >= rate);
                }
            }
        }
        assert_eq!(branches, [true, true]);
    }

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
