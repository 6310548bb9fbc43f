//! Results as a page with plots, and as the part of `docs/measured/speed.md` that the command writes.

use dpopt_report::{Mark, Plot, Scale, Series, Size, escape, page, table};
use serde_json::Value;

use super::scaling::known;
use super::show::{Table, list, tables};
use super::sweeps::Sweep;

const BEGIN: &str = "<!-- begin: written by cargo xtask bench -->";
const END: &str = "<!-- end: written by cargo xtask bench -->";

/// The page.
pub(crate) fn html(results: &Value) -> String {
    let mut body = format!("<h1>Speed</h1>\n<p>{}</p>\n", escape(&heading(results)));
    for sweep in ids(results) {
        body += &plots(&sweep, results);
    }
    for found in tables(results) {
        body += &of_table(&found);
    }
    page("Speed", "", &body)
}

fn of_table(found: &Table) -> String {
    let rows: Vec<Vec<String>> = found
        .rows
        .iter()
        .map(|row| row.iter().map(|cell| escape(cell)).collect())
        .collect();
    let (title, note) = (escape(&found.title), escape(&found.note));
    format!(
        "<h2>{title}</h2>\n<p>{note}</p>\n{}",
        table("", "", &found.columns, &rows)
    )
}

fn ids(results: &Value) -> Vec<String> {
    let mut ids = Vec::new();
    for sweep in list(&results["scaling"]) {
        let id = sweep["id"].as_str().unwrap_or("").to_owned();
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    ids
}

/// Time and memory of a sweep.
fn plots(id: &str, results: &Value) -> String {
    let Some(sweep) = known(id) else {
        return String::new();
    };
    let drawn = [
        ("seconds", "seconds (log scale)", 1.0),
        ("memory", "megabytes (log scale)", 1e-6),
    ];
    let drawn = drawn
        .iter()
        .filter_map(|(what, axis, unit)| plot(sweep, results, (what, axis, *unit)));
    drawn.collect()
}

fn plot(sweep: &Sweep, results: &Value, (what, axis, unit): (&str, &str, f64)) -> Option<String> {
    let of = list(&results["scaling"])
        .iter()
        .filter(|s| s["id"] == sweep.id);
    let classes = ["norm", "fit"];
    let series = of.enumerate().map(|(k, found)| {
        let points = list(&found["points"]).iter();
        let points = points.filter_map(|p| Some((p["of"].as_f64()?, unit * p[what].as_f64()?)));
        let name = format!("{} threads", found["threads"]);
        Series::new(Mark::Line, classes[k.min(1)], &name, points.collect())
    });
    let id = format!("{}-{what}", sweep.id);
    let (title, x) = (
        format!("{}: {what}", sweep.title),
        format!("{} (log scale)", sweep.of),
    );
    let plot = Plot {
        id: &id,
        title: &title,
        description: &format!("{what} of one release against {}", sweep.of),
        x: (&x, Scale::Log),
        y: (axis, Scale::Log),
        series: series.collect(),
    };
    let drawn = plot.draw(&[Size::Wide, Size::Narrow])?;
    Some(format!("<h2>{}</h2>\n{drawn}", escape(&title)))
}

/// When, where and with what.
fn heading(results: &Value) -> String {
    let machine = &results["machine"];
    let of = |name: &str| machine[name].as_str().unwrap_or("unknown").to_owned();
    format!(
        "{} with {} processors and {} of memory, {}. Measured {} by `cargo xtask bench --peers VENV` at {}, {}.",
        of("processor"),
        of("processors"),
        of("memory"),
        of("system"),
        results["date"].as_str().unwrap_or("unknown"),
        results["commit"].as_str().unwrap_or("unknown"),
        results["compiler"].as_str().unwrap_or("unknown"),
    )
}

/// The text with what is between the marks replaced; an error where it has no marks.
pub(crate) fn in_docs(text: &str, results: &Value) -> Result<String, String> {
    let missing = || format!("no `{BEGIN}` and `{END}` in the page");
    let (before, rest) = text.split_once(BEGIN).ok_or_else(missing)?;
    let (_, after) = rest.split_once(END).ok_or_else(missing)?;
    let all: String = tables(results).iter().map(Table::markdown).collect();
    let head = heading(results);
    Ok(format!(
        "{before}{BEGIN}\n\n{head}\n\n{}\n\n{END}{after}",
        all.trim_end()
    ))
}

#[cfg(test)]
mod tests {
    use super::{BEGIN, END, html, in_docs};
    use serde_json::json;

    #[test]
    fn only_what_is_between_the_marks_is_replaced() {
        let results = json!({"limits": {"1": {"read": 1e10}}, "lines": [], "scaling": [], "date": "2026-01-02"});
        let text = format!("# Speed\n\n{BEGIN}\nold\n{END}\n\n## By hand\n");
        let new = in_docs(&text, &results).expect("marks");
        assert!(new.starts_with("# Speed\n") && new.ends_with("\n\n## By hand\n"));
        assert!(!new.contains("old") && new.contains("2026-01-02") && new.contains("| read |"));
        assert_eq!(in_docs(&new, &results), Ok(new));
        assert!(in_docs("# Speed\n", &results).is_err());
    }

    #[test]
    fn a_sweep_is_drawn_in_time_and_memory() {
        let point =
            |of: f64| json!({"of": of, "seconds": 1e-6 * of, "memory": 1e3 * of, "words": "x"});
        let sweep = json!({"id": "records", "threads": 1, "points": [point(1e4), point(1e5), {"of": 1e6, "skipped": "no"}]});
        let results = json!({"limits": {}, "lines": [], "scaling": [sweep]});
        let page = html(&results);
        assert!(page.contains("records-seconds") && page.contains("records-memory"));
        assert!(page.matches("<svg").count() >= 4);
    }
}
