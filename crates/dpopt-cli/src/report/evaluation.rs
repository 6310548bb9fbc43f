//! The private evaluation on records that were held out.

use dpopt_report::{Mark, Plot, Scale, Series, Size, escape, pairs, table};

use super::ReportInput;
use crate::beside::Beside;
use crate::told::Told;

/// Nothing where there is none.
pub(super) fn section(input: &ReportInput<'_>) -> String {
    let Some(of) = input.evaluation else {
        return String::new();
    };
    let (told, names) = (&of.evaluation, &of.classes);
    let classes = told.table(names).map_or(String::new(), |(head, lines)| {
        let head: Vec<&str> = head.iter().map(String::as_str).collect();
        let title =
            "Records by class (rows) and prediction (columns): released counts, below 0 maybe";
        table("", title, &head, &lines)
    });
    let shown = |lines: Vec<Vec<String>>, of: fn(&[Vec<String>]) -> String| match lines.is_empty() {
        true => String::new(),
        false => of(&lines),
    };
    let roc = |lines: &[Vec<String>]| {
        table(
            "",
            "ROC points: all intervals hold together",
            &[
                "Threshold (score)",
                "False positive rate",
                "True positive rate",
            ],
            lines,
        )
    };
    let calibration = |lines: &[Vec<String>]| {
        table(
            "",
            "Calibration: all intervals hold together; counts are released ones and may be below 0",
            &["Predicted probability", "Records", "Share of positives"],
            lines,
        )
    };
    // What a tuning costs is more than the larger of both, and is said elsewhere.
    let beside = of.beside_the_run().filter(|_| input.tuned.is_none());
    let beside = beside.map_or(String::new(), |words| {
        format!("<p>{}</p>\n", escape(&words))
    });
    format!(
        "<section>\n<h2>Private evaluation</h2>\n<p>{}</p>\n{beside}{}{}{}{}{classes}</section>\n",
        escape(&of.of()),
        pairs(
            "",
            "On records that were held out, with noise",
            &[told.rows(names), Beside::rows(&of.constants)].concat()
        ),
        curve(told),
        shown(told.roc(), roc),
        shown(told.calibration(), calibration),
    )
}

/// The ROC curve through the estimates, and how high and low it may be above each.
fn curve(of: &Told) -> String {
    let points = of.curve();
    if points.is_empty() {
        return String::new();
    }
    let line = |rate: fn(&dpopt::certify::RocPoint) -> f64| -> Vec<(f64, f64)> {
        let inner = points.iter();
        let inner = inner.map(|point| (point.false_positive_rate.middle(), rate(point)));
        let all = [(1.0, 1.0)].into_iter().chain(inner).chain([(0.0, 0.0)]);
        all.collect()
    };
    let series = [
        (
            "norm",
            "estimate",
            line(|point| point.true_positive_rate.middle()),
        ),
        (
            "noise",
            "lower ends",
            line(|point| point.true_positive_rate.low),
        ),
        (
            "noise",
            "upper ends",
            line(|point| point.true_positive_rate.high),
        ),
    ];
    let series = series.map(|(class, name, points)| Series::new(Mark::Line, class, name, points));
    let plot = Plot {
        id: "roc",
        title: "ROC curve, with noise",
        description: "True against false positive rate at each threshold; the values are in the table below.",
        x: ("false positives", Scale::Share),
        y: ("true positives", Scale::Share),
        series: series.to_vec(),
    };
    plot.draw(&[Size::Wide, Size::Narrow]).unwrap_or_default()
}
