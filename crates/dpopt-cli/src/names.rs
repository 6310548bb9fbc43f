//! "Did you mean": the known name that a mistyped one is nearest to.

/// Edits up to which a name counts as mistyped: a third of its length, at least one. Tuned.
fn reach(name: &str) -> usize {
    (name.chars().count() / 3).max(1)
}

/// The nearest of `known`, if it is near.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = name.to_lowercase();
    let distances = known.into_iter().map(|other| (edits(&lower, other), other));
    let (distance, found) = distances.min_by_key(|(distance, _)| *distance)?;
    (distance <= reach(name)).then_some(found)
}

/// " (did you mean X?)", or nothing.
pub(crate) fn hint<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    match nearest(name, known) {
        Some(found) => format!(" (did you mean {found}?)"),
        None => String::new(),
    }
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
        assert_eq!(nearest("x", []), None);
    }
}
