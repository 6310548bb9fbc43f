//! Plots as inline SVG.

use crate::html::escape;
use crate::scale::Scale;

/// Least distance between two lines of text.
const LINE: f64 = 13.0;
/// Room above and below the frame.
const TOP: f64 = 12.0;
const BOTTOM: f64 = 44.0;

/// How a series is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// A line that a value without a place interrupts; a dot where there is one point.
    Line,
    /// Dots.
    Dots,
    /// The area below a line.
    Area,
    /// Horizontal lines at the values, across the whole drawing.
    Level,
}

/// Points that are drawn in one way.
#[derive(Debug, Clone, PartialEq)]
pub struct Series<'a> {
    /// The way.
    pub mark: Mark,
    /// One of the classes of the page's style; `lone` and `dense` are added to it where there is one
    /// point, or where there are many.
    pub class: &'a str,
    /// Arguments and values.
    pub points: Vec<(f64, f64)>,
    /// The entry in the legend; empty for none.
    pub name: String,
    /// What stands to the right of the last point; empty for nothing.
    pub end: String,
    /// A text for each point, shown under the pointer; empty for none.
    pub tips: Vec<String>,
}

impl<'a> Series<'a> {
    /// Without texts beside it.
    #[must_use]
    pub fn new(mark: Mark, class: &'a str, name: &str, points: Vec<(f64, f64)>) -> Self {
        let (name, end, tips) = (name.to_owned(), String::new(), Vec::new());
        Self {
            mark,
            class,
            points,
            name,
            end,
            tips,
        }
    }
}

/// Size of a drawing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// For wide screens and paper.
    Wide,
    /// For phones; shown where the wide one is not.
    Narrow,
    /// As wide, three fifths as high.
    WideLow,
    /// As narrow, three fifths as high.
    NarrowLow,
    /// One of many on a page, on any screen.
    Small,
}

impl Size {
    /// Class, width and height, room to the right of the frame, most points of a line, ticks on both axes.
    const fn geometry(self) -> (&'static str, [f64; 3], usize, [usize; 2]) {
        match self {
            Size::Wide => ("wide", [760.0, 330.0, 78.0], 1600, [8, 8]),
            Size::Narrow => ("narrow", [360.0, 270.0, 76.0], 500, [4, 8]),
            Size::WideLow => ("wide", [760.0, 198.0, 78.0], 1600, [8, 5]),
            Size::NarrowLow => ("narrow", [360.0, 162.0, 76.0], 500, [4, 5]),
            Size::Small => ("small", [420.0, 270.0, 16.0], 500, [5, 6]),
        }
    }

    /// Most points that one line has; of longer series the extremes of stretches are drawn.
    #[must_use]
    pub const fn most_points(self) -> usize {
        self.geometry().2
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
}

impl Plot<'_> {
    /// The legend and one drawing for each size; `None` where no point has a place on the axes.
    #[must_use]
    pub fn draw(&self, sizes: &[Size]) -> Option<String> {
        let drawings: Option<String> = sizes.iter().map(|size| self.drawing(*size)).collect();
        Some(self.legend() + &drawings?)
    }

    fn legend(&self) -> String {
        let named = self.series.iter().filter(|s| !s.name.is_empty());
        let entries: String = named
            .map(|s| {
                let (more, data) = match s.mark {
                    Mark::Dots => ("big", "M13,6h0"),
                    Mark::Level => ("level", "M1,6H25"),
                    Mark::Line | Mark::Area => ("", "M1,6H25"),
                };
                let (class, name) = (s.class, escape(&s.name));
                format!(
                    "<li><svg class=\"swatch\" viewBox=\"0 0 26 12\" aria-hidden=\"true\">\
                     <path class=\"{class} {more}\" d=\"{data}\"/></svg>{name}</li>\n"
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
        let (class, [width, height, margin], most, ticks) = size.geometry();
        let bottom = height - BOTTOM;
        let y = self.y.1.axis(points().map(|p| p.1), bottom, TOP)?;
        let labels = y.ticks(ticks[1]);
        // Room for the longest label.
        let longest = labels.iter().map(|l| l.1.chars().count()).max();
        let left = 28.0 + 7.2 * longest.unwrap_or(0).max(3) as f64;
        let right = width - margin;
        // Markers at both ends stay off the frame.
        let x = points().map(|p| p.0);
        let x = self.x.1.axis(x, left + 6.0, right - 6.0)?;
        let place = |s: &Series<'_>| -> Points {
            let points = s.points.iter();
            match s.mark {
                Mark::Level => points.map(|p| Some((left, y.at(p.1)?))).collect(),
                _ => points.map(|p| Some((x.at(p.0)?, y.at(p.1)?))).collect(),
            }
        };
        let placed: Vec<(&Series<'_>, Points)> =
            self.series.iter().map(|s| (s, place(s))).collect();
        let mut shown = placed.iter().filter(|s| s.0.mark != Mark::Level);
        shown.find(|s| s.1.iter().any(Option::is_some))?;

        let id = format!("{}-{class}", escape(self.id));
        let mut out = format!(
            "<svg class=\"plot {class}\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
             aria-labelledby=\"{id}-t {id}-d\"><title id=\"{id}-t\">{}</title><desc id=\"{id}-d\">{}</desc>\n",
            escape(self.title),
            escape(self.description)
        );
        for (at, label) in &labels {
            out.push_str(&format!(
                "<path class=\"grid\" d=\"M{left:.0},{at:.1}H{right:.0}\"/>"
            ));
            out.push_str(&text("tick", left - 7.0, at + 4.0, "end", label));
        }
        for (at, label) in x.ticks(ticks[0]) {
            out.push_str(&format!(
                "<path class=\"axis\" d=\"M{at:.1},{bottom:.0}v5\"/>"
            ));
            out.push_str(&text("tick", at, bottom + 18.0, "middle", &label));
        }
        let middle = f64::midpoint(left, right);
        out.push_str(&text("name", middle, height - 6.0, "middle", self.x.0));
        out.push_str(&format!(
            "<path class=\"axis\" d=\"M{left:.0},{TOP:.0}V{bottom:.0}H{right:.0}\"/>\
             <text class=\"name\" transform=\"translate(12,{:.0}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
            f64::midpoint(TOP, bottom),
            escape(self.y.0)
        ));
        for (series, points) in &placed {
            out.push_str(&marks(series, points, most, bottom, right));
        }
        out.push_str(&ends(&placed, right));
        out.push_str("</svg>\n");
        Some(out)
    }
}

fn text(class: &str, x: f64, y: f64, anchor: &str, text: &str) -> String {
    let text = escape(text);
    format!(
        "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>\n"
    )
}

/// The texts beside last points. Those that would touch are moved apart and tied to their points.
fn ends(placed: &[(&Series<'_>, Points)], right: f64) -> String {
    let named = placed.iter().filter(|s| !s.0.end.is_empty());
    let mut ends: Vec<(f64, &Series<'_>)> = named
        .filter_map(|(series, points)| Some((points.iter().rev().flatten().next()?.1, *series)))
        .collect();
    ends.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut heights: Vec<f64> = ends.iter().map(|end| end.0).collect();
    for i in 1..heights.len() {
        let overlap = (LINE - (heights[i] - heights[i - 1])).max(0.0);
        heights[i - 1] -= overlap / 2.0;
        heights[i] += overlap / 2.0;
    }
    let ends = ends.into_iter().zip(heights);
    ends.map(|((at, series), height)| {
        let (class, to) = (format!("label {}", series.class), right + 8.0);
        format!("<path class=\"tie\" d=\"M{right:.0},{at:.1}L{to:.0},{height:.1}\"/>")
            + &text(&class, right + 11.0, height + 4.0, "start", &series.end)
    })
    .collect()
}

/// The pixels of one series; `None` for a value without a place on the axes.
type Points = Vec<Option<(f64, f64)>>;

/// One series above `bottom` and to the left of `right`.
fn marks(series: &Series<'_>, points: &Points, most: usize, bottom: f64, right: f64) -> String {
    let class = match points.iter().flatten().count() {
        _ if series.mark == Mark::Level => "level",
        1 if points.len() == 1 => "lone",
        n if n > most / 8 => "dense",
        _ => "",
    };
    let path = |data: &str, inside: &str| match data {
        "" => String::new(),
        _ => format!(
            "<path class=\"{} {class}\" d=\"{data}\">{inside}</path>\n",
            series.class
        ),
    };
    if !series.tips.is_empty() {
        let dot = |(point, tip): (_, &String)| {
            path(&dots(&[point]), &format!("<title>{}</title>", escape(tip)))
        };
        return points.iter().copied().zip(&series.tips).map(dot).collect();
    }
    let thinned = thin(points, most);
    let mut known = thinned.iter().flatten();
    let data = match (series.mark, known.next()) {
        (_, None) => String::new(),
        (Mark::Line, _) if points.len() > 1 => line(&thinned),
        (Mark::Line | Mark::Dots, _) => dots(&thinned),
        (Mark::Area, Some(first)) => {
            let known: Points = thinned.iter().filter(|p| p.is_some()).copied().collect();
            format!("{}V{bottom:.1}H{:.1}Z", line(&known), first.0)
        }
        (Mark::Level, _) => {
            let levels = thinned.iter().flatten();
            levels
                .map(|(left, at)| format!("M{left:.0},{at:.1}H{right:.0}"))
                .collect()
        }
    };
    path(&data, "")
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

    fn plot(series: Vec<Series<'_>>) -> Plot<'_> {
        Plot {
            id: "it",
            title: "Title",
            description: "Description",
            x: ("step", Scale::Whole),
            y: ("norm", Scale::Log),
            series,
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
        let level = |class, value| Series {
            end: "a".to_owned(),
            ..Series::new(Mark::Level, class, "", vec![(0.0, value)])
        };
        let points = Series::new(Mark::Line, "norm", "", vec![(0.0, 0.01), (1.0, 1.0)]);
        let levels = [level("predicted", 0.1), level("trivial", 0.1001)];
        let series = levels.into_iter().chain([points]).collect();
        let svg = plot(series).draw(&[Size::Wide]).unwrap();
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
        let drawn = |mark, points: &[(f64, f64)]| {
            let level = Series::new(Mark::Level, "trivial", "", vec![(0.0, 1.0)]);
            let series = Series::new(mark, "norm", "", points.to_vec());
            plot(vec![series, level]).draw(&[Size::Small])
        };
        for mark in [Mark::Line, Mark::Dots, Mark::Area] {
            let mut points = Vec::new();
            assert_eq!(drawn(mark, &points), None);
            for value in nowhere {
                points.push((1.0, value));
                assert_eq!(drawn(mark, &points), None);
            }
            points.extend([(f64::NAN, 1.0), (2.0, 1.0)]);
            let svg = drawn(mark, &points).unwrap();
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }

    #[test]
    fn every_text_is_escaped_and_said_to_those_who_see_nothing() {
        let evil = "</svg><b onload=\"x\">";
        let dot = Series {
            end: evil.to_owned(),
            tips: vec![evil.to_owned()],
            ..Series::new(Mark::Dots, "dot", evil, vec![(1.0, 1.0)])
        };
        let mut plot = plot(vec![dot]);
        (plot.id, plot.title, plot.description) = (evil, evil, evil);
        (plot.x.0, plot.y.0) = (evil, evil);
        let svg = plot.draw(&[Size::Wide]).unwrap();
        assert!(svg.contains("role=\"img\" aria-labelledby=") && svg.contains("<desc id="));
    }
}
