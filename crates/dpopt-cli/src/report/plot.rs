//! The two plots of a report, as inline SVG: one drawing for wide screens and paper, one for phones.

use super::escape;
use super::scale::{Axis, drawable, number};
use crate::trace::Trace;

/// One drawing's geometry, in pixels.
#[derive(Debug, Clone, Copy)]
struct Frame {
    class: &'static str,
    width: f64,
    height: f64,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    /// Most points that one line may have.
    points: usize,
    /// Ticks on the horizontal axis.
    ticks: usize,
}

const GRADIENT: [Frame; 2] = [
    Frame {
        class: "wide",
        width: 760.0,
        height: 330.0,
        left: 62.0,
        right: 78.0,
        top: 12.0,
        bottom: 44.0,
        points: 1600,
        ticks: 8,
    },
    Frame {
        class: "narrow",
        width: 360.0,
        height: 270.0,
        left: 50.0,
        right: 76.0,
        top: 10.0,
        bottom: 42.0,
        points: 500,
        ticks: 4,
    },
];

/// The budget needs less height.
fn low(frame: Frame) -> Frame {
    Frame {
        height: frame.height * 0.6,
        ..frame
    }
}

/// Least distance between two lines of text.
const LINE: f64 = 13.0;

/// Labels of the ticks on the vertical axis.
fn labels(y: &Axis, percent: bool) -> Vec<(f64, String)> {
    let ticks = y.ticks(if percent { 5 } else { 8 }, false).into_iter();
    ticks
        .map(|tick| match percent {
            true => (tick, format!("{}%", number(100.0 * tick))),
            false => (tick, number(tick)),
        })
        .collect()
}

impl Frame {
    /// Makes room for the longest label.
    fn fit(self, labels: &[(f64, String)]) -> Self {
        let longest = labels.iter().map(|l| l.1.chars().count()).max();
        Self {
            left: 28.0 + 7.2 * longest.unwrap_or(0).max(3) as f64,
            ..self
        }
    }

    fn x(&self, trace: &Trace) -> Axis {
        let (lo, hi) = trace
            .step
            .iter()
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), &s| {
                (lo.min(s as f64), hi.max(s as f64))
            });
        let (lo, hi) = if lo <= hi { (lo, hi) } else { (0.0, 0.0) };
        // Markers at both ends stay off the frame.
        Axis::linear(lo, hi, self.left + 6.0, self.width - self.right - 6.0)
    }

    fn open(&self, id: &str, title: &str, description: &str) -> String {
        let (class, w, h) = (self.class, self.width, self.height);
        format!(
            "<svg class=\"plot {class}\" viewBox=\"0 0 {w} {h}\" role=\"img\" \
             aria-labelledby=\"{id}-{class}-t {id}-{class}-d\">\
             <title id=\"{id}-{class}-t\">{}</title><desc id=\"{id}-{class}-d\">{}</desc>\n",
            escape(title),
            escape(description)
        )
    }

    /// Frame, grid, tick labels and the names of both axes.
    fn axes(&self, x: &Axis, y: &Axis, labels: &[(f64, String)], y_name: &str) -> String {
        let (right, bottom) = (self.width - self.right, self.height - self.bottom);
        let mut out = String::new();
        for (tick, label) in labels {
            let Some(at) = y.at(*tick) else { continue };
            out.push_str(&format!(
                "<path class=\"grid\" d=\"M{:.0},{at:.1}H{right:.0}\"/>\
                 <text class=\"tick\" x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>\n",
                self.left,
                self.left - 7.0,
                at + 4.0
            ));
        }
        for tick in x.ticks(self.ticks, true) {
            let Some(at) = x.at(tick) else { continue };
            out.push_str(&format!(
                "<path class=\"axis\" d=\"M{at:.1},{bottom:.0}v5\"/>\
                 <text class=\"tick\" x=\"{at:.1}\" y=\"{:.0}\" text-anchor=\"middle\">{}</text>\n",
                bottom + 18.0,
                number(tick)
            ));
        }
        let middle = f64::midpoint(self.top, bottom);
        out.push_str(&format!(
            "<path class=\"axis\" d=\"M{left:.0},{top:.0}V{bottom:.0}H{right:.0}\"/>\
             <text class=\"name\" x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"middle\">step</text>\
             <text class=\"name\" transform=\"translate(12,{middle:.0}) rotate(-90)\" \
             text-anchor=\"middle\">{y_name}</text>\n",
            f64::midpoint(self.left, right),
            self.height - 6.0,
            left = self.left,
            top = self.top,
        ));
        out
    }

    /// Labelled horizontal lines; labels that would touch are moved apart and tied to their lines.
    fn levels(&self, y: &Axis, levels: &[(&str, f64, &str)]) -> String {
        let right = self.width - self.right;
        let mut placed: Vec<(f64, &str, &str)> = levels
            .iter()
            .filter_map(|&(name, value, class)| y.at(value).map(|at| (at, name, class)))
            .collect();
        placed.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut labels: Vec<f64> = placed.iter().map(|level| level.0).collect();
        for i in 1..labels.len() {
            let overlap = LINE - (labels[i] - labels[i - 1]);
            if overlap > 0.0 {
                labels[i - 1] -= overlap / 2.0;
                labels[i] += overlap / 2.0;
            }
        }
        let mut out = String::new();
        for ((at, name, class), label) in placed.into_iter().zip(labels) {
            out.push_str(&format!(
                "<path class=\"level {class}\" d=\"M{:.0},{at:.1}H{right:.0}\"/>\
                 <path class=\"tie\" d=\"M{right:.0},{at:.1}L{:.0},{label:.1}\"/>\
                 <text class=\"label {class}\" x=\"{:.0}\" y=\"{:.1}\">{name}</text>\n",
                self.left,
                right + 8.0,
                right + 11.0,
                label + 4.0
            ));
        }
        out
    }
}

/// The points of one series; a value without a place on the axis interrupts the line.
type Points = Vec<Option<(f64, f64)>>;

fn series(x: &Axis, y: &Axis, steps: &[u64], values: &[f64]) -> Points {
    steps
        .iter()
        .zip(values)
        .map(|(&step, &value)| Some((x.at(step as f64)?, y.at(value)?)))
        .collect()
}

/// At most about `most` points: the lowest and the highest of each of `most / 2` stretches.
fn thin(points: &[Option<(f64, f64)>], most: usize) -> Points {
    if points.len() <= most || most < 2 {
        return points.to_vec();
    }
    let stretch = points.len().div_ceil(most / 2);
    let mut out = Vec::with_capacity(most + 2);
    for part in points.chunks(stretch) {
        let by_height = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
        let low = part.iter().flatten().min_by(by_height);
        let high = part.iter().flatten().max_by(by_height);
        match (low, high) {
            (Some(low), Some(high)) if low == high => out.push(Some(*low)),
            (Some(low), Some(high)) if low.0 <= high.0 => out.extend([Some(*low), Some(*high)]),
            (Some(low), Some(high)) => out.extend([Some(*high), Some(*low)]),
            _ => out.push(None),
        }
    }
    out
}

/// A polyline as path data, in tenths of a pixel.
fn line(points: &[Option<(f64, f64)>]) -> String {
    let mut out = String::new();
    let mut pen = 'M';
    for point in points {
        match point {
            Some((x, y)) => {
                out.push_str(&format!("{pen}{x:.1},{y:.1}"));
                pen = 'L';
            }
            None => pen = 'M',
        }
    }
    out
}

/// Dots as path data: strokes without length, drawn by their caps.
fn dots(points: &[Option<(f64, f64)>]) -> String {
    points
        .iter()
        .flatten()
        .map(|(x, y)| format!("M{x:.1},{y:.1}h0"))
        .collect()
}

fn path(class: &str, data: &str) -> String {
    if data.is_empty() {
        return String::new();
    }
    format!("<path class=\"{class}\" d=\"{data}\"/>\n")
}

fn swatch(class: &str, data: &str, text: &str) -> String {
    format!(
        "<li><svg class=\"swatch\" viewBox=\"0 0 26 12\" aria-hidden=\"true\">\
         <path class=\"{class}\" d=\"{data}\"/></svg>{}</li>\n",
        escape(text)
    )
}

/// A message where a plot can't be drawn.
fn nothing(why: &str) -> String {
    format!("<p class=\"nothing\">{why}</p>\n")
}

/// Released gradient norm and noise level against the step, on a logarithmic axis.
pub(super) fn gradient(trace: &Trace, predicted: Option<f64>, trivial: f64) -> String {
    if trace.step.is_empty() {
        return nothing("Nothing was released, so there is nothing to draw.");
    }
    let released = || trace.released_norm.iter().chain(&trace.noise_norm).copied();
    if !released().any(drawable) {
        return nothing("No released value is positive and finite, so there is nothing to draw.");
    }
    // A pass releases a point and no gradient, so that bounds on gradients have no place beside it.
    let passes = trace.of_passes();
    let predicted = predicted.filter(|v| drawable(*v) && !passes);
    let trivial = Some(trivial).filter(|v| drawable(*v) && !passes);
    let mut levels = Vec::new();
    levels.extend(predicted.map(|v| ("bound", v, "predicted")));
    levels.extend(trivial.map(|v| ("trivial", v, "trivial")));

    let anchors = trace.anchor.iter().filter(|a| **a).count();
    let mixed = anchors > 0 && anchors < trace.anchor.len();

    let mut out = String::from("<ul class=\"legend\">\n");
    let (name, title) = if passes {
        (
            "distance that a pass moved the point",
            "Distance that each pass moved the point, and noise level",
        )
    } else {
        (
            "released gradient norm",
            "Released gradient norm and noise level per step",
        )
    };
    if mixed {
        out.push_str(&swatch(
            "anchor big",
            "M13,6h0",
            &format!("{name}, anchor (fresh gradient)"),
        ));
        out.push_str(&swatch(
            "dot big",
            "M13,6h0",
            &format!("{name}, variation (difference added)"),
        ));
    } else {
        out.push_str(&swatch("dot big", "M4,6h0M13,6h0M22,6h0", name));
    }
    out.push_str(&swatch(
        "noise",
        "M1,6H25",
        "noise level: the norm of pure noise",
    ));
    if let Some(v) = predicted {
        let text = format!("proven bound, {}", number(v));
        out.push_str(&swatch("level predicted", "M1,6H25", &text));
    }
    if let Some(v) = trivial {
        let text = format!("trivial bound, true without training, {}", number(v));
        out.push_str(&swatch("level trivial", "M1,6H25", &text));
    }
    out.push_str("</ul>\n");

    let description = format!(
        "{} releases from step {} to step {}. First released norm {}, last {}; last noise level {}. \
         The values are in the table below.",
        trace.step.len(),
        trace.step.first().copied().unwrap_or(0),
        trace.step.last().copied().unwrap_or(0),
        number(trace.released_norm.first().copied().unwrap_or(f64::NAN)),
        number(trace.released_norm.last().copied().unwrap_or(f64::NAN)),
        number(trace.noise_norm.last().copied().unwrap_or(f64::NAN)),
    );
    for frame in GRADIENT {
        let values = released().chain(levels.iter().map(|level| level.1));
        let Some(y) = Axis::log(values, frame.height - frame.bottom, frame.top) else {
            continue;
        };
        let labels = labels(&y, false);
        let frame = frame.fit(&labels);
        let x = frame.x(trace);
        out.push_str(&frame.open("gradient", title, &description));
        out.push_str(&frame.axes(&x, &y, &labels, "norm (log scale)"));
        out.push_str(&frame.levels(&y, &levels));
        let norms = series(&x, &y, &trace.step, &trace.released_norm);
        let noise = series(&x, &y, &trace.step, &trace.noise_norm);
        let only = |anchor: bool| -> Points {
            let chosen = norms.iter().zip(&trace.anchor);
            chosen.map(|(p, a)| p.filter(|_| *a == anchor)).collect()
        };
        let dense = match trace.step.len() {
            1 => " lone",
            n if n > frame.points / 8 => " dense",
            _ => "",
        };
        out.push_str(&path(
            &format!("norm{dense}"),
            &line(&thin(&norms, frame.points)),
        ));
        if mixed {
            let (fresh, change) = (only(true), only(false));
            out.push_str(&path(
                &format!("dot{dense}"),
                &dots(&thin(&change, frame.points)),
            ));
            let many = if anchors > frame.points / 8 {
                " dense"
            } else {
                ""
            };
            out.push_str(&path(
                &format!("anchor{many}"),
                &dots(&thin(&fresh, frame.points)),
            ));
        } else {
            out.push_str(&path(
                &format!("dot{dense}"),
                &dots(&thin(&norms, frame.points)),
            ));
        }
        let noise = thin(&noise, frame.points);
        out.push_str(&path("noise", &line(&noise)));
        if noise.len() == 1 {
            out.push_str(&path("noise one", &dots(&noise)));
        }
        out.push_str("</svg>\n");
    }
    out
}

/// What a reader of the gradient plot must be told about what is not in it.
pub(super) fn left_out(trace: &Trace) -> Option<String> {
    let count = |values: &[f64]| values.iter().filter(|v| !drawable(**v)).count();
    let missing = count(&trace.released_norm) + count(&trace.noise_norm);
    let thinned = trace.step.len() > GRADIENT[0].points;
    let mut out = Vec::new();
    if missing > 0 {
        let (values, are) = if missing == 1 {
            ("value", "is")
        } else {
            ("values", "are")
        };
        out.push(format!(
            "{missing} {values} of zero, or not finite, {are} not drawn: a log axis has no place for them."
        ));
    }
    if thinned {
        out.push("Each stretch of steps is drawn by its lowest and its highest value.".to_owned());
    }
    (!out.is_empty()).then(|| out.join(" "))
}

/// The share of the plan's privacy spent after each release.
pub(super) fn budget(trace: &Trace, spent: &[f64]) -> String {
    let shares: Vec<f64> = spent
        .iter()
        .map(|s| {
            if s.is_finite() {
                s.clamp(0.0, 1.0)
            } else {
                f64::NAN
            }
        })
        .collect();
    let Some(last) = shares.iter().rev().find(|s| s.is_finite()) else {
        return nothing("Nothing was spent.");
    };
    let description = format!(
        "After the last of {} releases {} per cent of the plan's privacy is spent.",
        shares.len(),
        number(100.0 * last)
    );
    let mut out = String::new();
    for frame in GRADIENT.map(low) {
        let bottom = frame.height - frame.bottom;
        let y = Axis::linear(0.0, 1.0, bottom, frame.top);
        let labels = labels(&y, true);
        let frame = frame.fit(&labels);
        let x = frame.x(trace);
        out.push_str(&frame.open(
            "budget",
            "Share of the plan's privacy spent per step",
            &description,
        ));
        out.push_str(&frame.axes(&x, &y, &labels, "spent"));
        let points = thin(&series(&x, &y, &trace.step, &shares), frame.points);
        let known: Points = points.iter().filter(|p| p.is_some()).copied().collect();
        if let (Some(Some(first)), Some(Some(end))) = (known.first(), known.last()) {
            let area = format!("{}V{bottom:.1}H{:.1}Z", line(&known), first.0);
            out.push_str(&path("area", &area));
            out.push_str(&path("spent", &line(&points)));
            out.push_str(&path("spent one", &dots(&[Some(*end)])));
            out.push_str(&format!(
                "<text class=\"label spent-label\" x=\"{:.1}\" y=\"{:.1}\">{}%</text>\n",
                frame.width - frame.right + 6.0,
                end.1 + 4.0,
                number(100.0 * last)
            ));
        }
        out.push_str("</svg>\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_the_extremes() {
        let points: Points = (0..10_000)
            .map(|i| {
                Some((
                    f64::from(i),
                    if i == 4321 { 99.0 } else { f64::from(i % 7) },
                ))
            })
            .collect();
        let thinned = thin(&points, 100);
        assert!(thinned.len() <= 100);
        assert!(thinned.contains(&Some((4321.0, 99.0))));
        let xs: Vec<f64> = thinned.iter().flatten().map(|p| p.0).collect();
        assert!(xs.windows(2).all(|p| p[0] < p[1]));
    }

    #[test]
    fn a_gap_lifts_the_pen() {
        let points = [Some((1.0, 2.0)), None, Some((3.0, 4.0)), Some((5.0, 6.0))];
        assert_eq!(line(&points), "M1.0,2.0M3.0,4.0L5.0,6.0");
        assert_eq!(dots(&points[..2]), "M1.0,2.0h0");
    }

    #[test]
    fn close_labels_are_moved_apart() {
        let frame = GRADIENT[0];
        let y = Axis::log([0.01, 1.0].into_iter(), 200.0, 10.0).unwrap();
        let svg = frame.levels(&y, &[("a", 0.1, "predicted"), ("b", 0.1001, "trivial")]);
        let heights: Vec<f64> = svg
            .split("<text")
            .skip(1)
            .filter_map(|text| text.split("y=\"").nth(1)?.split('"').next()?.parse().ok())
            .collect();
        assert_eq!(heights.len(), 2);
        assert!((heights[0] - heights[1]).abs() >= LINE - 0.2, "{heights:?}");
    }
}
