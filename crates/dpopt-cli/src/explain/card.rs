//! The YAML header of a model card.
//!
//! Every text is a double-quoted scalar in which all but plain letters, digits and common signs is escaped, so that the header is
//! valid whatever columns are called. Numbers are written so that readers of YAML 1.1 take them for numbers, too.

use std::fmt::Write as _;

use dpopt::certify::Measured;

use super::contents::attack;
use crate::model::Model;

/// From one line of three dashes to the other.
pub(super) fn front_matter(model: &Model) -> String {
    let mut out = String::from("---\nlibrary_name: \"dpopt\"\n");
    let label = model.schema.label();
    let task = match label.range() {
        Some(_) => "tabular-regression",
        None => "tabular-classification",
    };
    // Writing to a `String` can't fail.
    let _ = writeln!(out, "pipeline_tag: {}", text(task));
    list(
        &mut out,
        "",
        "tags",
        &["dpopt", "differential-privacy", task],
    );
    let found = model.evaluation.as_ref().map(|found| &found.evaluation);
    let metrics: Vec<(&str, &Measured)> = found.map_or_else(Vec::new, |found| found.metrics());
    let names: Vec<&str> = metrics.iter().map(|(name, _)| *name).collect();
    list(&mut out, "", "metrics", &names);
    if !metrics.is_empty() {
        out.push_str("evaluation:\n");
    }
    for (name, value) in metrics {
        let _ = writeln!(
            out,
            "  {name}: {{estimate: {}, low: {}, high: {}}}",
            value.estimate.map_or("null".to_owned(), number),
            number(value.low),
            number(value.high)
        );
    }
    let _ = writeln!(
        out,
        "model:\n  solver: {}\n  loss: {}\n  label: {}\n  weights: {}",
        text(model.solver.name()),
        text(&model.loss.to_string()),
        text(&label.column),
        model.point().len()
    );
    if let Some(weights) = &model.class_weights {
        out.push_str("  class_weights:\n");
        for (value, weight) in weights {
            let _ = writeln!(out, "    {}: {}", text(value), number(*weight));
        }
    }
    list(&mut out, "  ", "features", &model.schema.feature_names());
    let privacy = &model.privacy;
    let _ = writeln!(
        out,
        "privacy:\n  epsilon: {}\n  delta: {}\n  adjacency: {}\n  unit: {}\n  accountant: {}\n  records: {}\n  record_count_is_public: {}\n  draft_schema: {}",
        number(privacy.epsilon),
        number(privacy.delta.get()),
        text(&privacy.adjacency.to_string()),
        text("one line of the training table"),
        text(&privacy.accountant.to_string()),
        privacy.records,
        privacy.adjacency.record_count_is_public(),
        privacy.draft_schema
    );
    if let Some(all) = privacy.all_runs {
        let _ = writeln!(
            out,
            "  all_runs: {{epsilon: {}, delta: {}}}",
            number(all.epsilon),
            number(all.delta.get())
        );
    }
    if let Some(guess) = attack(model).guesses.first() {
        let _ = writeln!(out, "  best_guess_of_two_tables: {}", number(*guess));
    }
    list(&mut out, "  ", "rests_on", &privacy.rests_on);
    list(&mut out, "  ", "statement", &privacy.words);
    out + "---\n\n"
}

/// A list of texts.
fn list(out: &mut String, indent: &str, key: &str, items: &[impl AsRef<str>]) {
    if items.is_empty() {
        let _ = writeln!(out, "{indent}{key}: []");
        return;
    }
    let _ = writeln!(out, "{indent}{key}:");
    for item in items {
        let _ = writeln!(out, "{indent}- {}", text(item.as_ref()));
    }
}

/// A double-quoted scalar.
fn text(of: &str) -> String {
    let mut out = String::from("\"");
    for c in of.chars() {
        let code = u32::from(c);
        let plain = (' '..='~').contains(&c) && c != '"' && c != '\\';
        let _ = if plain || (c.is_alphanumeric() && code <= 0xffff) {
            write!(out, "{c}")
        } else if code <= 0xff {
            write!(out, "\\x{code:02x}")
        } else if code <= 0xffff {
            write!(out, "\\u{code:04x}")
        } else {
            write!(out, "\\U{code:08x}")
        };
    }
    out + "\""
}

/// A float of YAML 1.1 and 1.2: with a point, and a sign in the exponent.
fn number(of: f64) -> String {
    if of.is_nan() {
        return ".nan".to_owned();
    }
    if of.is_infinite() {
        return if of > 0.0 { ".inf" } else { "-.inf" }.to_owned();
    }
    let shown = format!("{of:?}");
    let Some((digits, exponent)) = shown.split_once('e') else {
        return shown;
    };
    let point = if digits.contains('.') { "" } else { ".0" };
    let sign = if exponent.starts_with('-') { "" } else { "+" };
    format!("{digits}{point}e{sign}{exponent}")
}

#[cfg(test)]
mod tests {
    use super::{number, text};

    /// What a double-quoted scalar says, read by the rules of YAML alone.
    fn read(scalar: &str) -> String {
        let inner = scalar.strip_prefix('"').unwrap().strip_suffix('"').unwrap();
        let mut out = String::new();
        let mut rest = inner.chars();
        while let Some(c) = rest.next() {
            assert!(c != '"' && !c.is_control(), "{scalar}");
            if c != '\\' {
                out.push(c);
                continue;
            }
            let digits = match rest.next().unwrap() {
                'x' => 2,
                'u' => 4,
                'U' => 8,
                other => panic!("{other} in {scalar}"),
            };
            let code: String = rest.by_ref().take(digits).collect();
            assert_eq!(code.len(), digits);
            out.push(char::from_u32(u32::from_str_radix(&code, 16).unwrap()).unwrap());
        }
        out
    }

    #[test]
    fn any_text_survives_and_stays_on_its_line() {
        for hostile in [
            "",
            "plain",
            "a: b # c",
            "- x",
            "\"quoted\" \\ back",
            "line\nbreak\r\ttab\0",
            "--- ... !!python/object [x] {y: z} *a &b",
            "größe \u{85}\u{2028}\u{202e}\u{feff}\u{fffe}\u{10ffff}😀𝒳",
            "yes",
            "0x10",
        ] {
            let scalar = text(hostile);
            assert_eq!(read(&scalar), hostile);
            assert_eq!(scalar.lines().count(), 1);
        }
        assert!(text("größe").contains("größe"), "letters stay readable");
    }

    #[test]
    fn numbers_are_floats_to_every_reader() {
        for (value, shown) in [
            (1.0, "1.0"),
            (1e-6, "1.0e-6"),
            (1.5e-7, "1.5e-7"),
            (1e20, "1.0e+20"),
            (-0.25, "-0.25"),
            (f64::INFINITY, ".inf"),
            (f64::NAN, ".nan"),
        ] {
            assert_eq!(number(value), shown);
        }
    }
}
