//! The report for people: a table and log-log plots on one page.

use std::fmt::Write as _;

use super::judge::{Report, Row, Status};

const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 40.0;

impl Report {
    /// A page in HTML that needs nothing else: one table, one plot for each row, with measured points,
    /// the fitted line, the predicted slope through the same centre, and the planner's bound.
    #[must_use]
    pub fn page(&self) -> String {
        let mut out = String::from(HEAD);
        let verdict = |ok| if ok { "pass" } else { "fail" };
        let passed = self
            .rows
            .iter()
            .filter(|r| r.status == Status::Pass)
            .count();
        let _ = write!(
            out,
            "<h1>Measured rates</h1><p>{passed} of {} rows pass. Effort: {}. Seed: {}. A control is a \
             broken twin: it passes when the measurement caught it.</p>",
            self.rows.len(),
            match self.effort {
                super::Effort::Quick => "quick",
                super::Effort::Full => "full",
            },
            self.seed
        );
        out.push_str(
            "<table><tr><th>claim<th>theorem<th>error<th>against<th>predicted<th>measured<th>95 % interval\
             <th>decades<th>of bound<th>verdict</tr>",
        );
        for row in &self.rows {
            let ok = row.status == Status::Pass;
            let _ = write!(
                out,
                "<tr class={}><td><a href=\"#{}\">{}</a>{}<td>{}<td>{}<td>{}<td>{:.3}<td>{}<td>{}<td>{:.1}<td>{}<td>{}</tr>",
                verdict(ok),
                escape(&row.claim.id),
                escape(&row.claim.id),
                if row.claim.control { " (control)" } else { "" },
                escape(&row.claim.theorem),
                escape(&row.claim.quantity),
                row.claim.axis.symbol(),
                row.claim.predicted,
                number(row.measured),
                interval(row),
                row.decades,
                largest(row).map_or("-".to_owned(), |r| format!("{r:.2}")),
                verdict(ok),
            );
        }
        out.push_str("</table>");
        for row in &self.rows {
            section(&mut out, row);
        }
        out.push_str("</body></html>\n");
        out
    }

    /// The table for a terminal.
    #[must_use]
    pub fn table(&self) -> String {
        let width = self
            .rows
            .iter()
            .map(|r| r.claim.id.len())
            .max()
            .unwrap_or(0);
        let mut out = format!(
            "{:<width$}  {:>9} {:>9} {:>18} {:>7} {:>8}  verdict\n",
            "claim", "predicted", "measured", "95 % interval", "decades", "of bound"
        );
        for row in &self.rows {
            let _ = write!(
                out,
                "{:<width$}  {:>9.3} {:>9} {:>18} {:>7.1} {:>8}  {}",
                row.claim.id,
                row.claim.predicted,
                number(row.measured),
                interval(row),
                row.decades,
                largest(row).map_or("-".to_owned(), |r| format!("{r:.2}")),
                match (row.status, row.claim.control) {
                    (Status::Pass, false) => "pass",
                    (Status::Pass, true) => "pass (caught)",
                    (Status::Fail, false) => "FAIL",
                    (Status::Fail, true) => "FAIL (control)",
                }
            );
            if row.status == Status::Fail || row.claim.control {
                let _ = write!(out, ": {}", row.why.join("; "));
            }
            out.push('\n');
        }
        out
    }
}

fn largest(row: &Row) -> Option<f64> {
    row.data.iter().filter_map(|p| p.of_bound).reduce(f64::max)
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

fn section(out: &mut String, row: &Row) {
    let claim = &row.claim;
    let _ = write!(
        out,
        "<section id=\"{id}\"><h2>{id}</h2><p>{} {}. {} Family: {}. {} trials{}.</p>",
        escape(&claim.solver),
        escape(&claim.theorem),
        escape(&claim.note),
        escape(&claim.family),
        row.trials,
        if row.failed > 0 {
            format!(", {} of which failed", row.failed)
        } else {
            String::new()
        },
        id = escape(&claim.id),
    );
    for why in &row.why {
        let _ = write!(out, "<p class=why>{}</p>", escape(why));
    }
    plot(out, row);
    out.push_str("</section>");
}

/// Logarithmic frame of all that is drawn.
struct Frame {
    x: [f64; 2],
    y: [f64; 2],
}

impl Frame {
    fn at(&self, x: f64, y: f64) -> (f64, f64) {
        let share = |v: f64, [low, high]: [f64; 2]| (v.ln() - low) / (high - low).max(1e-9);
        (
            LEFT + share(x, self.x) * (WIDTH - LEFT - RIGHT),
            HEIGHT - BOTTOM - share(y, self.y) * (HEIGHT - TOP - BOTTOM),
        )
    }
}

fn plot(out: &mut String, row: &Row) {
    let drawn: Vec<_> = row.data.iter().filter(|p| p.error > 0.0).collect();
    let (Some(first), Some(last)) = (drawn.first(), drawn.last()) else {
        return;
    };
    let ends = [first.x, last.x];
    let centre = {
        let k = drawn.len() as f64;
        let mean = |of: &dyn Fn(&&super::Point) -> f64| drawn.iter().map(of).sum::<f64>() / k;
        [
            mean(&|p| p.x.ln()),
            mean(&|p| (p.error / p.correction).ln()),
        ]
    };
    let line = |slope: f64| ends.map(|x| (centre[1] + slope * (x.ln() - centre[0])).exp());
    let predicted = line(row.claim.predicted);
    let fitted = line(row.measured);
    let bounds: Vec<(f64, f64)> = drawn
        .iter()
        .filter_map(|p| p.bound.map(|b| (p.x, b / p.correction)))
        .collect();
    let values = drawn
        .iter()
        .map(|p| p.error / p.correction)
        .chain(predicted)
        .chain(bounds.iter().map(|b| b.1))
        .filter(|v| *v > 0.0 && v.is_finite());
    let (low, high) = values.fold((f64::INFINITY, 0.0f64), |(l, h), v| (l.min(v), h.max(v)));
    let frame = Frame {
        x: [ends[0].ln() - 0.2, ends[1].ln() + 0.2],
        y: [low.ln() - 0.2, high.ln() + 0.2],
    };
    let _ = write!(out, "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=img>");
    grid(out, &frame, row.claim.axis.symbol());
    let path = |points: &[(f64, f64)]| {
        let at: Vec<String> = points
            .iter()
            .map(|&(x, y)| {
                let (x, y) = frame.at(x, y);
                format!("{x:.1},{y:.1}")
            })
            .collect();
        at.join(" ")
    };
    let two = |y: [f64; 2]| path(&[(ends[0], y[0]), (ends[1], y[1])]);
    let _ = write!(
        out,
        "<polyline class=predicted points=\"{}\"/>",
        two(predicted)
    );
    if row.measured.is_finite() {
        let _ = write!(out, "<polyline class=fitted points=\"{}\"/>", two(fitted));
    }
    let _ = write!(out, "<polyline class=bound points=\"{}\"/>", path(&bounds));
    for p in &drawn {
        let (x, y) = frame.at(p.x, p.error / p.correction);
        let _ = write!(
            out,
            "<circle cx={x:.1} cy={y:.1} r=3><title>{:.3e}: {:.4e}</title></circle>",
            p.x, p.error
        );
    }
    let _ = write!(
        out,
        "</svg><p class=key><i class=m></i>measured <i class=f></i>fit {} <i class=p></i>predicted {:.3} \
         <i class=b></i>bound</p>",
        number(row.measured),
        row.claim.predicted
    );
}

/// Lines at powers of ten, or at halves of a decade where there is one power or none.
fn grid(out: &mut String, frame: &Frame, symbol: &str) {
    let ten = std::f64::consts::LN_10;
    let ticks = |[low, high]: [f64; 2]| {
        let whole: Vec<f64> = ((low / ten).ceil() as i32..=(high / ten).floor() as i32)
            .map(|k| 10f64.powi(k))
            .collect();
        if whole.len() >= 2 {
            return whole;
        }
        (0..4)
            .map(|k| (low + (high - low) * (0.5 + f64::from(k)) / 4.0).exp())
            .collect()
    };
    let [bottom, top] = [HEIGHT - BOTTOM, TOP];
    for tick in ticks(frame.x) {
        let x = frame.at(tick, 1.0).0;
        let _ = write!(
            out,
            "<line x1={x:.1} x2={x:.1} y1={bottom} y2={top} /><text x={x:.1} y={} text-anchor=middle>{}</text>",
            bottom + 14.0,
            label(tick)
        );
    }
    for tick in ticks(frame.y) {
        let y = frame.at(1.0, tick).1;
        let _ = write!(
            out,
            "<line x1={LEFT} x2={} y1={y:.1} y2={y:.1} /><text x={} y={:.1} text-anchor=end>{}</text>",
            WIDTH - RIGHT,
            LEFT - 5.0,
            y + 4.0,
            label(tick)
        );
    }
    let _ = write!(
        out,
        "<text x={} y={} text-anchor=middle>{symbol}</text>",
        0.5 * (LEFT + WIDTH - RIGHT),
        HEIGHT - 6.0
    );
}

fn label(v: f64) -> String {
    if (0.01..1e4).contains(&v) {
        format!("{}", (v * 1000.0).round() / 1000.0)
    } else {
        format!("{v:.0e}")
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

const HEAD: &str = "<!doctype html><html lang=en><head><meta charset=utf-8>\
<meta name=viewport content=\"width=device-width\"><title>Measured rates</title><style>\
:root{color-scheme:light dark;--ink:#222;--soft:#8884;--paper:#fff;--a:#0b6bcb;--b:#c2410c;--c:#15803d}\
@media(prefers-color-scheme:dark){:root{--ink:#ddd;--paper:#161616;--a:#6ab0ff;--b:#ff9a62;--c:#5fd38a}}\
body{font:15px/1.45 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:70rem;margin:2rem auto;padding:0 1rem}\
table{border-collapse:collapse;display:block;overflow-x:auto}td,th{padding:.25rem .6rem;text-align:left;border-bottom:1px solid var(--soft)}\
tr.fail td:last-child,.why{color:var(--b);font-weight:600}section{display:inline-block;vertical-align:top;width:26rem;max-width:100%;margin:.5rem 1rem 1rem 0}\
h2{font-size:1rem;margin:.5rem 0}section p{margin:.2rem 0;font-size:.85rem}svg{width:100%}svg text{font-size:11px;fill:var(--ink)}\
svg line{stroke:var(--soft)}svg circle{fill:var(--a)}polyline{fill:none;stroke-width:1.5}\
.fitted{stroke:var(--a)}.predicted{stroke:var(--c);stroke-dasharray:6 4}.bound{stroke:var(--b);stroke-dasharray:2 3}\
.key i{display:inline-block;width:.9em;height:.25em;margin:0 .3em .2em .8em}.m,.f{background:var(--a)}.p{background:var(--c)}.b{background:var(--b)}\
</style></head><body>";
