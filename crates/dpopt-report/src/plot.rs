//! Plots as inline SVG.

use crate::html::escape;
use crate::scale::{Axis, number};

/// Least distance between two lines of text.
const LINE: f64 = 13.0;

/// What an axis measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Numbers, evenly, with ticks at whole ones.
    Whole,
    /// Shares from 0 to 1, in per cent.
    Share,
    /// Positive numbers by their logarithm; others have no place.
    Log,
}

impl Scale {
    /// The axis of `values` from one pixel to another; `None` where no value has a place.
    fn axis(self, values: impl Iterator<Item = f64>, from: f64, to: f64) -> Option<Axis> {
        match self {
            Scale::Log => Axis::log(values, from, to),
            Scale::Share => Some(Axis::linear(0.0, 1.0, from, to)),
            Scale::Whole => {
                let (lo, hi) = values
                    .filter(|v| v.is_finite())
                    .fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), v| {
                        (lo.min(v), hi.max(v))
                    });
                (lo <= hi).then(|| Axis::linear(lo, hi, from, to))
            }
        }
    }

    fn ticks(self, axis: &Axis, target: usize) -> Vec<(f64, String)> {
        let label = |tick| match self {
            Scale::Share => (tick, format!("{}%", number(100.0 * tick))),
            Scale::Whole | Scale::Log => (tick, number(tick)),
        };
        let ticks = axis.ticks(target, self == Scale::Whole);
        ticks.into_iter().map(label).collect()
    }
}

/// How a series is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// A line that a value without a place interrupts; a dot where there is one point.
    Line,
    /// Dots.
    Dots,
    /// The area below a line.
    Area,
}

/// Points that are drawn in one way.
#[derive(Debug, Clone, PartialEq)]
pub struct Series<'a> {
    mark: Mark,
    class: &'a str,
    points: Vec<(f64, f64)>,
    name: String,
    tips: Vec<String>,
    end: String,
}

impl<'a> Series<'a> {
    /// Arguments and values. `class` is one of the page's style; `lone` and `dense` are added to it
    /// where there is one point, or where there are many.
    #[must_use]
    pub fn new(mark: Mark, class: &'a str, points: Vec<(f64, f64)>) -> Self {
        let (name, tips, end) = Default::default();
        Self {
            mark,
            class,
            points,
            name,
            tips,
            end,
        }
    }

    /// With an entry in the legend.
    #[must_use]
    pub fn named(self, name: impl Into<String>) -> Self {
        let name = name.into();
        Self { name, ..self }
    }

    /// With a text for each point, shown under the pointer.
    #[must_use]
    pub fn tips(self, tips: Vec<String>) -> Self {
        Self { tips, ..self }
    }

    /// With a text to the right of the last point.
    #[must_use]
    pub fn end(self, end: impl Into<String>) -> Self {
        let end = end.into();
        Self { end, ..self }
    }
}

/// A horizontal line.
#[derive(Debug, Clone, PartialEq)]
pub struct Level<'a> {
    /// Its class besides `level`.
    pub class: &'a str,
    /// Its height.
    pub value: f64,
    /// What stands beside it: a word.
    pub label: &'a str,
    /// Its entry in the legend.
    pub name: String,
}

/// Geometry of a drawing, in pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Size {
    class: &'static str,
    width: f64,
    height: f64,
    right: f64,
    top: f64,
    bottom: f64,
    points: usize,
    /// Ticks on both axes, about.
    ticks: [usize; 2],
}

impl Size {
    /// For wide screens and paper.
    pub const WIDE: Self = Self {
        class: "wide",
        width: 760.0,
        height: 330.0,
        right: 78.0,
        top: 12.0,
        bottom: 44.0,
        points: 1600,
        ticks: [8, 8],
    };
    /// For phones; shown where [`Size::WIDE`] is not.
    pub const NARROW: Self = Self {
        class: "narrow",
        width: 360.0,
        height: 270.0,
        right: 76.0,
        top: 10.0,
        bottom: 42.0,
        points: 500,
        ticks: [4, 8],
    };
    /// One of many on a page, on any screen.
    pub const SMALL: Self = Self {
        class: "small",
        width: 420.0,
        height: 270.0,
        right: 16.0,
        top: 12.0,
        ticks: [5, 6],
        ..Self::NARROW
    };

    /// Three fifths as high.
    #[must_use]
    pub const fn low(self) -> Self {
        Self {
            height: self.height * 0.6,
            ticks: [self.ticks[0], 5],
            ..self
        }
    }

    /// Most points that one line has; of longer series the extremes of stretches are drawn.
    #[must_use]
    pub const fn most_points(self) -> usize {
        self.points
    }
}

/// Series over common axes.
#[derive(Debug, Clone, PartialEq)]
pub struct Plot<'a> {
    /// An identifier that the page has once.
    pub id: &'a str,
    /// What is drawn.
    pub title: &'a str,
    /// What a reader who sees nothing is told.
    pub description: &'a str,
    /// Name and scale of the horizontal axis.
    pub x: (&'a str, Scale),
    /// Name and scale of the vertical axis.
    pub y: (&'a str, Scale),
    /// The series, from the lowest layer up.
    pub series: Vec<Series<'a>>,
    /// The horizontal lines, below all series.
    pub levels: Vec<Level<'a>>,
}

impl Plot<'_> {
    /// The legend and one drawing for each size; `None` where no point has a place on the axes.
    #[must_use]
    pub fn draw(&self, sizes: &[Size]) -> Option<String> {
        let drawings: Option<String> = sizes.iter().map(|size| self.drawing(*size)).collect();
        Some(self.legend() + &drawings?)
    }

    fn legend(&self) -> String {
        let series = self.series.iter().map(|s| match s.mark {
            Mark::Dots => (format!("{} big", s.class), "M13,6h0", &s.name),
            Mark::Line | Mark::Area => (s.class.to_owned(), "M1,6H25", &s.name),
        });
        let levels = self.levels.iter();
        let levels = levels.map(|l| (format!("level {}", l.class), "M1,6H25", &l.name));
        let entries: String = series
            .chain(levels)
            .filter(|(_, _, name)| !name.is_empty())
            .map(|(class, data, name)| {
                format!(
                    "<li><svg class=\"swatch\" viewBox=\"0 0 26 12\" aria-hidden=\"true\">\
                     <path class=\"{class}\" d=\"{data}\"/></svg>{}</li>\n",
                    escape(name)
                )
            })
            .collect();
        if entries.is_empty() {
            return entries;
        }
        format!("<ul class=\"legend\">\n{entries}</ul>\n")
    }

    fn drawing(&self, size: Size) -> Option<String> {
        let points = || self.series.iter().flat_map(|s| &s.points);
        let bottom = size.height - size.bottom;
        let heights = points().map(|p| p.1);
        let heights = heights.chain(self.levels.iter().map(|level| level.value));
        let y = self.y.1.axis(heights, bottom, size.top)?;
        let labels = self.y.1.ticks(&y, size.ticks[1]);
        // Room for the longest label.
        let longest = labels.iter().map(|l| l.1.chars().count()).max();
        let left = 28.0 + 7.2 * longest.unwrap_or(0).max(3) as f64;
        let right = size.width - size.right;
        // Markers at both ends stay off the frame.
        let widths = points().map(|p| p.0);
        let x = self.x.1.axis(widths, left + 6.0, right - 6.0)?;
        let series: Vec<Points> = self.series.iter().map(|s| place(&x, &y, s)).collect();
        series.iter().flatten().flatten().next()?;

        let (id, class) = (escape(self.id), size.class);
        let mut out = format!(
            "<svg class=\"plot {class}\" viewBox=\"0 0 {} {}\" role=\"img\" \
             aria-labelledby=\"{id}-{class}-t {id}-{class}-d\">\
             <title id=\"{id}-{class}-t\">{}</title><desc id=\"{id}-{class}-d\">{}</desc>\n",
            size.width,
            size.height,
            escape(self.title),
            escape(self.description)
        );
        for (at, label) in labels.iter().filter_map(|l| Some((y.at(l.0)?, &l.1))) {
            out.push_str(&format!(
                "<path class=\"grid\" d=\"M{left:.0},{at:.1}H{right:.0}\"/>\
                 <text class=\"tick\" x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>\n",
                left - 7.0,
                at + 4.0
            ));
        }
        let ticks = self.x.1.ticks(&x, size.ticks[0]);
        for (at, label) in ticks.iter().filter_map(|l| Some((x.at(l.0)?, &l.1))) {
            out.push_str(&format!(
                "<path class=\"axis\" d=\"M{at:.1},{bottom:.0}v5\"/>\
                 <text class=\"tick\" x=\"{at:.1}\" y=\"{:.0}\" text-anchor=\"middle\">{label}</text>\n",
                bottom + 18.0
            ));
        }
        out.push_str(&format!(
            "<path class=\"axis\" d=\"M{left:.0},{:.0}V{bottom:.0}H{right:.0}\"/>\
             <text class=\"name\" x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"middle\">{}</text>\
             <text class=\"name\" transform=\"translate(12,{:.0}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
            size.top,
            f64::midpoint(left, right),
            size.height - 6.0,
            escape(self.x.0),
            f64::midpoint(size.top, bottom),
            escape(self.y.0)
        ));
        out.push_str(&self.level_lines(&y, left, right));
        for (series, points) in self.series.iter().zip(&series) {
            out.push_str(&marks(series, points, size.points, bottom));
            if let (false, Some((_, y))) =
                (series.end.is_empty(), points.iter().rev().flatten().next())
            {
                out.push_str(&format!(
                    "<text class=\"label end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\n",
                    right + 6.0,
                    y + 4.0,
                    escape(&series.end)
                ));
            }
        }
        out.push_str("</svg>\n");
        Some(out)
    }

    /// Labels that would touch are moved apart and tied to their lines.
    fn level_lines(&self, y: &Axis, left: f64, right: f64) -> String {
        let placed = self.levels.iter().filter_map(|l| Some((y.at(l.value)?, l)));
        let mut placed: Vec<(f64, &Level<'_>)> = placed.collect();
        placed.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut labels: Vec<f64> = placed.iter().map(|level| level.0).collect();
        for i in 1..labels.len() {
            let overlap = (LINE - (labels[i] - labels[i - 1])).max(0.0);
            labels[i - 1] -= overlap / 2.0;
            labels[i] += overlap / 2.0;
        }
        let lines = placed.into_iter().zip(labels).map(|((at, level), label)| {
            let class = level.class;
            format!(
                "<path class=\"level {class}\" d=\"M{left:.0},{at:.1}H{right:.0}\"/>\
                 <path class=\"tie\" d=\"M{right:.0},{at:.1}L{:.0},{label:.1}\"/>\
                 <text class=\"label {class}\" x=\"{:.0}\" y=\"{:.1}\">{}</text>\n",
                right + 8.0,
                right + 11.0,
                label + 4.0,
                escape(level.label)
            )
        });
        lines.collect()
    }
}

/// The pixels of one series; `None` for a value without a place on the axes.
type Points = Vec<Option<(f64, f64)>>;

fn place(x: &Axis, y: &Axis, series: &Series<'_>) -> Points {
    let points = series.points.iter();
    points.map(|p| Some((x.at(p.0)?, y.at(p.1)?))).collect()
}

/// One series above `bottom`.
fn marks(series: &Series<'_>, points: &Points, most: usize, bottom: f64) -> String {
    let mut class = series.class.to_owned();
    if points.len() == 1 {
        class.push_str(" lone");
    } else if points.iter().flatten().count() > most / 8 {
        class.push_str(" dense");
    }
    if !series.tips.is_empty() {
        let placed = points.iter().zip(&series.tips);
        let placed = placed.filter_map(|(point, tip)| Some((point.as_ref()?, tip)));
        return placed
            .map(|((x, y), tip)| {
                let tip = escape(tip);
                format!(
                    "<path class=\"{class}\" d=\"M{x:.1},{y:.1}h0\"><title>{tip}</title></path>\n"
                )
            })
            .collect();
    }
    let thinned = thin(points, most);
    let data = match series.mark {
        Mark::Line if points.len() == 1 => dots(&thinned),
        Mark::Line => line(&thinned),
        Mark::Dots => dots(&thinned),
        Mark::Area => {
            let known: Points = thinned.into_iter().filter(Option::is_some).collect();
            let first = known.iter().flatten().next();
            first.map_or_else(String::new, |first| {
                format!("{}V{bottom:.1}H{:.1}Z", line(&known), first.0)
            })
        }
    };
    if data.is_empty() {
        return data;
    }
    format!("<path class=\"{class}\" d=\"{data}\"/>\n")
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
    let points = points.iter().flatten();
    points.map(|(x, y)| format!("M{x:.1},{y:.1}h0")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot<'a>(series: Vec<Series<'a>>, levels: Vec<Level<'a>>) -> Plot<'a> {
        Plot {
            id: "it",
            title: "Title",
            description: "Description",
            x: ("step", Scale::Whole),
            y: ("norm", Scale::Log),
            series,
            levels,
        }
    }

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
        let level = |class, value| Level {
            class,
            value,
            label: "a",
            name: String::new(),
        };
        let points = Series::new(Mark::Line, "norm", vec![(0.0, 0.01), (1.0, 1.0)]);
        let levels = vec![level("predicted", 0.1), level("trivial", 0.1001)];
        let svg = plot(vec![points], levels).draw(&[Size::WIDE]).unwrap();
        let heights: Vec<f64> = svg
            .split("<text class=\"label")
            .skip(1)
            .filter_map(|text| text.split("y=\"").nth(1)?.split('"').next()?.parse().ok())
            .collect();
        assert_eq!(heights.len(), 2);
        assert!((heights[0] - heights[1]).abs() >= LINE - 0.2, "{heights:?}");
    }

    #[test]
    fn what_has_no_place_is_not_drawn() {
        let nowhere = [0.0, -1.0, f64::NAN, f64::INFINITY];
        for value in nowhere {
            let dots = Series::new(Mark::Dots, "dot", vec![(0.0, value)]);
            assert_eq!(plot(vec![dots], Vec::new()).draw(&[Size::SMALL]), None);
        }
        assert_eq!(plot(Vec::new(), Vec::new()).draw(&[Size::SMALL]), None);
        let mut points: Vec<(f64, f64)> = nowhere.map(|v| (1.0, v)).to_vec();
        points.extend([(f64::NAN, 1.0), (2.0, 1.0)]);
        let series = [Mark::Line, Mark::Dots, Mark::Area]
            .map(|mark| Series::new(mark, "norm", points.clone()))
            .to_vec();
        let svg = plot(series, Vec::new()).draw(&[Size::SMALL]).unwrap();
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn every_text_is_escaped_and_said_to_those_who_see_nothing() {
        let evil = "</svg><b onload=\"x\">";
        let dot = Series::new(Mark::Dots, "dot", vec![(1.0, 1.0)]);
        let dot = dot.named(evil).tips(vec![evil.to_owned()]).end(evil);
        let level = Level {
            class: "trivial",
            value: 1.0,
            label: evil,
            name: evil.to_owned(),
        };
        let mut plot = plot(vec![dot], vec![level]);
        (plot.id, plot.title, plot.description) = (evil, evil, evil);
        (plot.x.0, plot.y.0) = (evil, evil);
        let svg = plot.draw(&[Size::WIDE]).unwrap();
        assert!(!svg.contains("<b "));
        assert_eq!(
            svg.matches("&gt;&lt;b onload=&quot;x&quot;&gt;").count(),
            13
        );
        assert!(svg.contains("role=\"img\" aria-labelledby=") && svg.contains("<desc id="));
    }
}
