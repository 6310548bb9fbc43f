//! "Did you mean": the known name that a mistyped one is nearest to.

/// Edits up to which a name counts as mistyped: a third of its length, at least one. Tuned.
fn reach(name: &str) -> usize {
    (name.chars().count() / 3).max(1)
}

/// How far a name is from a known one, whatever the case of their letters: a name that is one word of the known one is as near as one edit
/// away, and of several such the shortest is nearest.
fn distance(name: &str, known: &str) -> (usize, usize) {
    let (name, known) = (name.to_lowercase(), known.to_lowercase());
    let edits = edits(&name, &known);
    let mut words = known.split(|c: char| !c.is_alphanumeric());
    match edits {
        1.. if words.any(|word| word == name) => (1, 0),
        edits => (edits, 1),
    }
}

/// The nearest of `known`, if it is near.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let known = known.into_iter();
    let distances = known.map(|other| (distance(name, other), other.len(), other));
    let ((edits, _), _, found) =
        distances.min_by_key(|(distance, length, _)| (*distance, *length))?;
    (edits <= reach(name)).then_some(found)
}

/// " (did you mean X?)", or nothing.
pub fn hint<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    meant(nearest(name, known))
}

/// The same of a name that was found.
pub(crate) fn meant(found: Option<&str>) -> String {
    found.map_or_else(String::new, |found| format!(" (did you mean {found}?)"))
}

/// Insertions, deletions, replacements and swaps of neighbours that make one text of another.
fn edits(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut now = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            now[j] = replaced.min(last[j] + 1).min(now[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                now[j] = now[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, now);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::{edits, nearest};

    #[test]
    fn edits_are_counted() {
        for (a, b, count) in [
            ("", "", 0),
            ("abc", "", 3),
            ("kitten", "sitting", 3),
            ("ab", "ba", 1),
            ("logistc", "logistic", 1),
        ] {
            assert_eq!(edits(a, b), count, "{a} {b}");
            assert_eq!(edits(b, a), count, "{b} {a}");
        }
    }

    #[test]
    fn near_names_are_found_and_far_ones_are_not() {
        let known = ["noisy-gd", "dp-sgd", "spiderboost"];
        assert_eq!(nearest("spider-boost", known), Some("spiderboost"));
        assert_eq!(nearest("DP-SGD", known), Some("dp-sgd"));
        assert_eq!(nearest("dpsgd", known), Some("dp-sgd"));
        assert_eq!(nearest("newton", known), None);
        assert_eq!(nearest("INCOME", ["outcome", "Income"]), Some("Income"));
        // A whole word of a name is nearer than another name of nearly the same letters.
        let known = [
            "sgda",
            "dp-sgd-decay",
            "dp-sgd",
            "noisy-gd-theory",
            "noisy-gd",
        ];
        assert_eq!(nearest("sgd", known), Some("dp-sgd"));
        assert_eq!(nearest("decay", known), Some("dp-sgd-decay"));
        assert_eq!(nearest("noisy", known), Some("noisy-gd"));
        assert_eq!(
            nearest("age", ["wage", "age_in_years"]),
            Some("age_in_years")
        );
        assert_eq!(nearest("x", []), None);
    }
}
