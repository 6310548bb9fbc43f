//! Bars: one number for each name.

use crate::html::escape;
use crate::scale::number;

/// A figure of bars, from zero to `most` (the largest number, where that is not given), each with its name and its number beside it: it
/// says the same to those who can't see the bars. Numbers below zero, and those that are not finite, have none.
#[must_use]
pub fn bars(title: &str, rows: &[(String, f64)], most: Option<f64>) -> String {
    let finite = rows
        .iter()
        .map(|(_, value)| *value)
        .filter(|v| v.is_finite());
    let most = most.unwrap_or_else(|| finite.fold(0.0, f64::max));
    let row = |(name, value): &(String, f64)| {
        let share = if most > 0.0 && value.is_finite() {
            (value / most).clamp(0.0, 1.0)
        } else {
            0.0
        };
        format!(
            "<tr><th scope=\"row\">{}</th><td><span class=\"bar\" style=\"width:{:.2}%\"></span></td><td>{}</td></tr>\n",
            escape(name),
            100.0 * share,
            number(*value)
        )
    };
    if rows.is_empty() {
        return String::new();
    }
    format!(
        "<table class=\"bars\"><caption>{}</caption><tbody>\n{}</tbody></table>\n",
        escape(title),
        rows.iter().map(row).collect::<String>()
    )
}

#[cfg(test)]
mod tests {
    use super::bars;

    #[test]
    fn bars_are_as_long_as_their_numbers() {
        let rows = [
            ("a < b".to_owned(), 0.5),
            ("c".to_owned(), 2.0),
            ("d".to_owned(), -1.0),
            ("e".to_owned(), f64::NAN),
        ];
        let drawn = bars("Loss & more", &rows, None);
        for part in [
            "a &lt; b",
            "Loss &amp; more",
            "width:25.00%",
            "width:100.00%",
        ] {
            assert!(drawn.contains(part), "{drawn}");
        }
        assert_eq!(drawn.matches("width:0.00%").count(), 2);
        assert!(bars("x", &rows[..1], Some(1.0)).contains("width:50.00%"));
        assert_eq!(bars("x", &[], None), "");
    }
}
