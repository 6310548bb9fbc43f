//! The two plots of a report: one drawing for wide screens and paper, one for phones.

use dpopt_report::{Mark, Plot, Scale, Series, Size, at_least, drawable, number};

use crate::trace::Trace;

/// A message where a plot can't be drawn.
fn nothing(why: &str) -> String {
    format!("<p class=\"nothing\">{why}</p>\n")
}

fn points(trace: &Trace, values: &[f64]) -> Vec<(f64, f64)> {
    let steps = trace.step.iter().map(|step| *step as f64);
    steps.zip(values.iter().copied()).collect()
}

/// Released gradient norm and noise level against the step, on a logarithmic axis.
pub(super) fn gradient(trace: &Trace, predicted: Option<f64>, trivial: f64) -> String {
    if trace.step.is_empty() {
        return nothing("Nothing was released, so there is nothing to draw.");
    }
    // A pass releases a point and no gradient, so that bounds on gradients have no place beside it.
    let passes = trace.of_passes();
    let level = |class, end: &str, what, value| {
        (drawable(value) && !passes).then(|| Series {
            end: end.to_owned(),
            ..Series::new(
                Mark::Level,
                class,
                &format!("{what}, {}", at_least(value)),
                vec![(f64::NAN, value)],
            )
        })
    };
    let predicted = predicted.and_then(|v| level("predicted", "bound", "proven bound", v));
    let what = "trivial bound, true without training";
    let trivial = level("trivial", "trivial", what, trivial);
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

    let norms = points(trace, &trace.released_norm);
    let only = |anchor: bool| -> Vec<(f64, f64)> {
        let chosen = norms.iter().zip(&trace.anchor);
        chosen.filter(|c| *c.1 == anchor).map(|c| *c.0).collect()
    };
    let (fresh, changes) = (only(true), only(false));
    let noise = points(trace, &trace.noise_norm);
    let mut series = vec![Series::new(Mark::Line, "norm", "", norms.clone())];
    if fresh.is_empty() || changes.is_empty() {
        series.push(Series::new(Mark::Dots, "dot", name, norms));
    } else {
        let change = format!("{name}, variation (difference added)");
        series.push(Series::new(Mark::Dots, "dot", &change, changes));
        let anchor = format!("{name}, anchor (fresh gradient)");
        series.push(Series::new(Mark::Dots, "anchor", &anchor, fresh));
    }
    let what = "noise level: the norm of pure noise";
    series.push(Series::new(Mark::Line, "noise", what, noise));
    series.extend(predicted.into_iter().chain(trivial));

    let at = |value: Option<&f64>| number(value.copied().unwrap_or(f64::NAN));
    let description = format!(
        "{} releases from step {} to step {}. First released norm {}, last {}; last noise level {}. \
         The values are in the table below.",
        trace.step.len(),
        trace.step.first().copied().unwrap_or(0),
        trace.step.last().copied().unwrap_or(0),
        at(trace.released_norm.first()),
        at(trace.released_norm.last()),
        at(trace.noise_norm.last()),
    );
    let plot = Plot {
        id: "gradient",
        title,
        description: &description,
        x: ("step", Scale::Whole),
        y: ("norm (log scale)", Scale::Log),
        series,
    };
    plot.draw(&[Size::Wide, Size::Narrow]).unwrap_or_else(|| {
        nothing("No released value is positive and finite, so there is nothing to draw.")
    })
}

/// What a reader of the gradient plot must be told about what is not in it.
pub(super) fn left_out(trace: &Trace) -> Option<String> {
    let values = trace.released_norm.iter().chain(&trace.noise_norm);
    let missing = values.filter(|v| !drawable(**v)).count();
    let thinned = trace.step.len() > Size::Wide.most_points();
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
    let share = |s: &f64| {
        if s.is_finite() {
            s.clamp(0.0, 1.0)
        } else {
            f64::NAN
        }
    };
    let shares: Vec<f64> = spent.iter().map(share).collect();
    let spent = points(trace, &shares);
    let Some(end) = spent.iter().rfind(|p| p.1.is_finite()).copied() else {
        return nothing("Nothing was spent.");
    };
    let last = number(100.0 * end.1);
    let description = format!(
        "After the last of {} releases {last} per cent of the plan's privacy is spent.",
        shares.len()
    );
    let plot = Plot {
        id: "budget",
        title: "Share of the plan's privacy spent per step",
        description: &description,
        x: ("step", Scale::Whole),
        y: ("spent", Scale::Share),
        series: vec![
            Series::new(Mark::Area, "area", "", spent.clone()),
            Series::new(Mark::Line, "spent", "", spent),
            Series {
                end: format!("{last}%"),
                ..Series::new(Mark::Dots, "spent", "", vec![end])
            },
        ],
    };
    let drawn = plot.draw(&[Size::WideLow, Size::NarrowLow]);
    drawn.unwrap_or_else(|| nothing("Nothing was spent."))
}
