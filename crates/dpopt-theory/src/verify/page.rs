//! The report for people: a table and log-log plots on one page.

use std::fmt::Write as _;

use dpopt_report::{Mark, Plot, Scale, Series, Size, escape, page, table};

use super::judge::{Point, Report, Row};
use crate::checks::Status;

/// Plots side by side.
const STYLE: &str = "main { max-width: 70rem; }
section { display: inline-block; vertical-align: top; width: 26rem; max-width: 100%; margin: 0 1rem 1rem 0; font-size: .85rem; }
.why, .fail { color: var(--bad); font-weight: 600; }
";

impl Report {
    /// A page in HTML that needs nothing else: one table, one plot for each row, with measured points,
    /// the fitted line, the predicted slope through the same centre, and the planner's bound.
    #[must_use]
    pub fn page(&self) -> String {
        let passed = self.rows.iter().filter(|r| r.status == Status::Pass);
        let mut body = format!(
            "<h1>Measured rates</h1>\n<p>{} of {} rows pass. Effort: {}. Seed: {}. A control is a \
             broken twin: it passes when the measurement caught it.</p>\n",
            passed.count(),
            self.rows.len(),
            self.effort.pick("quick", "full"),
            self.seed
        );
        let rows = self.rows.iter().map(|row| {
            let mut cells = cells(row).map(|cell| escape(&cell));
            cells[0] = format!("<a href=\"#{0}\">{0}</a>", cells[0]);
            if row.status == Status::Fail {
                cells[9] = format!("<span class=\"fail\">{}</span>", cells[9]);
            }
            cells.to_vec()
        });
        body.push_str(&table("", "", &COLUMNS, &rows.collect::<Vec<_>>()));
        for (i, row) in self.rows.iter().enumerate() {
            body.push_str(&section(i, row));
        }
        page("Measured rates", STYLE, &body)
    }

    /// The table for a terminal.
    #[must_use]
    pub fn table(&self) -> String {
        let width = self.rows.iter().map(|r| r.claim.id.len()).max();
        let width = width.unwrap_or(0);
        let line = |c: [&str; 10]| {
            let [
                _,
                _,
                _,
                _,
                predicted,
                measured,
                interval,
                decades,
                bound,
                verdict,
            ] = c;
            format!(
                "{:<width$}  {predicted:>9} {measured:>9} {interval:>18} {decades:>7} {bound:>8}  {verdict}",
                c[0]
            )
        };
        let mut out = line(COLUMNS) + "\n";
        for row in &self.rows {
            let cells = cells(row);
            out.push_str(&line(cells.each_ref().map(String::as_str)));
            if row.status == Status::Fail || row.claim.control {
                let _ = write!(out, ": {}", row.why.join("; "));
            }
            out.push('\n');
        }
        out
    }
}

/// Columns of both tables.
const COLUMNS: [&str; 10] = [
    "claim",
    "theorem",
    "error",
    "against",
    "predicted",
    "measured",
    "95 % interval",
    "decades",
    "of bound",
    "verdict",
];

/// What stands in them.
fn cells(row: &Row) -> [String; 10] {
    let claim = &row.claim;
    let verdict = match (row.status, claim.control) {
        (Status::Pass, false) => "pass",
        (Status::Pass, true) => "pass (caught)",
        (Status::Fail, false) => "FAIL",
        (Status::Fail, true) => "FAIL (control)",
    };
    [
        claim.id.clone(),
        claim.theorem.clone(),
        claim.quantity.clone(),
        claim.axis.symbol().to_owned(),
        format!("{:.3}", claim.predicted),
        number(row.measured),
        interval(row),
        format!("{:.1}", row.decades),
        of_bound(row),
        verdict.to_owned(),
    ]
}

fn number(v: f64) -> String {
    if v.is_finite() {
        format!("{v:.3}")
    } else {
        "none".to_owned()
    }
}

fn interval(row: &Row) -> String {
    format!("[{}, {}]", number(row.ci[0]), number(row.ci[1]))
}

fn of_bound(row: &Row) -> String {
    let ratios = row.data.iter().filter_map(|p| p.of_bound);
    let largest = ratios.reduce(f64::max);
    largest.map_or("-".to_owned(), |r| format!("{r:.2}"))
}

fn section(index: usize, row: &Row) -> String {
    let claim = &row.claim;
    let failed = match row.failed {
        0 => String::new(),
        failed => format!(", {failed} of which failed"),
    };
    let mut out = format!(
        "<section id=\"{id}\">\n<h2>{id}</h2>\n<p>{} {}. {} Family: {}. {} trials{failed}.</p>\n",
        escape(&claim.solver),
        escape(&claim.theorem),
        escape(&claim.note),
        escape(&claim.family),
        row.trials,
        id = escape(&claim.id),
    );
    for why in &row.why {
        let _ = writeln!(out, "<p class=\"why\">{}</p>", escape(why));
    }
    out.push_str(&plot(index, row).unwrap_or_default());
    out.push_str("</section>\n");
    out
}

/// Errors after their correction, against the argument; `None` where no error is positive.
fn plot(index: usize, row: &Row) -> Option<String> {
    let drawn: Vec<_> = row.data.iter().filter(|p| p.error > 0.0).collect();
    let ends = [drawn.first()?.x, drawn.last()?.x];
    let points: Vec<(f64, f64)> = drawn
        .iter()
        .map(|p| (p.x, p.error / p.correction))
        .collect();
    let mean = |of: fn(&(f64, f64)) -> f64| {
        points.iter().map(|p| of(p).ln()).sum::<f64>() / points.len() as f64
    };
    let centre = (mean(|p| p.0), mean(|p| p.1));
    let line = |slope: f64| {
        let at = |x: f64| (x, (centre.1 + slope * (x.ln() - centre.0)).exp());
        ends.map(at).to_vec()
    };
    let bounds = drawn
        .iter()
        .filter_map(|p| Some((p.x, p.bound? / p.correction)))
        .collect();
    let tips = |p: &&Point| format!("{:.3e}: {:.4e}", p.x, p.error);
    let (measured, predicted) = (number(row.measured), row.claim.predicted);
    let series = vec![
        Series {
            tips: drawn.iter().map(tips).collect(),
            ..Series::new(Mark::Dots, "dot", "measured", points)
        },
        Series::new(
            Mark::Line,
            "fit",
            &format!("fit {measured}"),
            line(row.measured),
        ),
        Series::new(
            Mark::Line,
            "level predicted",
            &format!("predicted {predicted:.3}"),
            line(predicted),
        ),
        Series::new(Mark::Line, "level bound", "bound", bounds),
    ];
    let description = format!(
        "{} points over {:.1} decades; measured exponent {measured}, interval {}, predicted {predicted:.3}; \
         largest ratio to the bound {}.",
        drawn.len(),
        row.decades,
        interval(row),
        of_bound(row)
    );
    let plot = Plot {
        id: &format!("plot-{index}"),
        title: &format!("{} against {}", row.claim.quantity, row.claim.axis.symbol()),
        description: &description,
        x: (row.claim.axis.symbol(), Scale::Log),
        y: ("error (log scale)", Scale::Log),
        series,
    };
    plot.draw(&[Size::Small])
}
