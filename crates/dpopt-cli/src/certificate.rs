//! What a run certifies for nothing: the best window of its releases, in words and as JSON.

use dpopt::certify::{ReleasedWindow, WindowCertificate, WindowError, WindowPlan, WindowSubject};
use dpopt::nonconvex::{GlmRun, Observer, Outcome, RunError};
use dpopt::privacy::Curator;
use serde::Serialize;

use crate::chosen::Chosen;
use crate::no_bound::NoBound;

/// With at most this probability a certificate is wrong.
const FAILURE: f64 = 0.05;

/// A certificate, and what it says of the point that the run returned.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Certified {
    /// Its first step is counted from 0 here, and from 1 in words.
    #[serde(flatten)]
    pub(crate) window: WindowCertificate,
    /// A radius around the result that holds the window.
    pub(crate) radius_around_result: f64,
    /// What no mean can be longer than, of gradients as they were released: clipped.
    pub(crate) longest: f64,
}

/// A certificate, or why there is none.
pub(crate) type Certificate = Result<Certified, NoCertificate>;

/// Why nothing is certified.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum NoCertificate {
    /// The run has no windows.
    Window(WindowError),
    /// Releases are of projected rows, and the result is not.
    Projected,
    /// Releases are of a joint field, and the result is a part of its point.
    Saddle,
    /// The constants of the loss hold on a ball, and the walk left it.
    LeftBall,
    /// The claim is about the population, and the start may depend on the records.
    Checkpoint,
    /// The run was chosen among several by what they released.
    Tuned,
    /// For the reason that no bound is stated for.
    NoBound(NoBound),
}

impl std::fmt::Display for NoCertificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NoCertificate::Window(error) => error.fmt(f),
            NoCertificate::NoBound(why) => why.fmt(f),
            NoCertificate::Projected => {
                f.write_str("none under a projection: gradients are released of projected rows")
            }
            NoCertificate::Tuned => NoBound::Tuned.fmt(f),
            NoCertificate::LeftBall => NoBound::LeftBall.fmt(f),
            NoCertificate::Saddle => {
                f.write_str("none by the releases of the run for a saddle problem: they are of its joint field, at the weights of the time (--certify makes one)")
            }
            NoCertificate::Checkpoint => f.write_str(
                "none for a walk from a checkpoint: it would be about the population, of which records that the start \
                 may depend on are no fresh sample",
            ),
        }
    }
}

impl Certified {
    /// One sentence.
    pub(crate) fn words(&self) -> String {
        let window = &self.window;
        let last = window.first_step + window.window;
        let says = match (window.value < self.longest, window.of) {
            (true, WindowSubject::ClippedGradients) => "no clipped gradient is longer than",
            (true, _) => "no gradient is longer than",
            (false, WindowSubject::ClippedGradients) => {
                "which says nothing, since no clipped gradient is longer than"
            }
            (false, _) => "which says nothing, since no gradient is longer than",
        };
        format!(
            "within {} of the result ({} of the mean of the points), the {}{} is at most {} (probability {}; {says} {}); \
             from {}, at no cost in privacy",
            four(self.radius_around_result),
            four(window.radius),
            window.of,
            if window.population {
                " for the population, if the records are independent draws from it, in an order that tells nothing,"
            } else {
                ""
            },
            four(window.value),
            window.probability,
            four(self.longest),
            match window.window {
                1 => format!("the release of step {last}"),
                _ => format!("the releases of steps {} to {last}", window.first_step + 1),
            }
        )
    }

    /// Names and values, for a table.
    pub(crate) fn rows(&self) -> Vec<(String, String)> {
        let window = &self.window;
        let slack = &window.slack;
        let exact = if window.radius_is_exact {
            ""
        } else {
            " (at most: the points did not fit in memory)"
        };
        [
            ("value", four(window.value)),
            ("length of the mean release", four(window.released)),
            ("added for noise", four(slack.noise)),
            ("added for sampling", four(slack.sampling)),
            ("added for rounding", four(slack.rounding)),
            (
                "radius around the mean of the window’s points",
                format!("{}{exact}", four(window.radius)),
            ),
            ("radius around the result", four(self.radius_around_result)),
            ("probability", window.probability.to_string()),
            (
                "first step, releases in the window",
                format!("{}, {}", window.first_step + 1, window.window),
            ),
            (
                "windows of the plan, whose claims hold at once",
                window.windows.to_string(),
            ),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .to_vec()
    }
}

/// A number to four digits, rounded up: these are upper bounds.
pub(crate) fn four(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let unit = 10f64.powi(3 - value.abs().log10().floor() as i32);
    let up = (value * unit).ceil() / unit;
    if (1e-3..1e5).contains(&up) {
        let decimals = (3 - up.log10().floor() as i32).max(0) as usize;
        format!("{up:.decimals$}")
    } else {
        format!("{up:.3e}")
    }
}

/// Runs a plan before `observer`, and certifies what it can of what was released.
pub(crate) fn run(
    run: GlmRun<'_>,
    chosen: &Chosen,
    projects: bool,
    observer: &mut dyn Observer,
) -> Result<(Outcome, Curator, Certificate), RunError> {
    let plan = &*chosen.plan;
    let windows = if projects {
        Err(NoCertificate::Projected)
    } else {
        WindowPlan::of(plan, FAILURE).map_err(NoCertificate::Window)
    };
    let windows = windows.and_then(|windows| match chosen.no_sample {
        _ if !windows.of_population() => Ok(windows),
        _ if chosen.resumed => Err(NoCertificate::Checkpoint),
        Some(why) => Err(NoCertificate::NoBound(why)),
        None => Ok(windows),
    });
    let windows = match windows {
        Ok(windows) => windows,
        Err(why) => {
            let (outcome, curator) = run.run(plan, observer)?;
            return Ok((outcome, curator, Err(why)));
        }
    };
    let terms = *windows.terms();
    let mut watched = ReleasedWindow::new(windows, observer);
    let (outcome, curator) = run.run(plan, &mut watched)?;
    let certificate = watched.certificate().map_err(NoCertificate::Window);
    let certified = certificate.map(|window| Certified {
        radius_around_result: window.radius_around(&outcome.point),
        longest: terms.clip.min(terms.lipschitz),
        window,
    });
    Ok((outcome, curator, certified))
}

#[cfg(test)]
mod tests {
    use super::four;

    #[test]
    fn upper_bounds_are_rounded_up() {
        assert_eq!(four(0.123_41), "0.1235");
        assert_eq!(four(2.0), "2.000");
        assert_eq!(four(1234.1), "1235");
        assert_eq!(four(0.0), "0");
        assert_eq!(four(1.23e-9), "1.230e-9");
    }
}
