//! Plots and pages of reports: one HTML file that loads nothing and runs no script.
//!
//! Names, titles and texts are escaped here; a cell of a [`table`] and the body of a [`page`] are HTML,
//! and what is put into them must pass through [`escape`]. A plot has a title and a description for
//! those who can't see it, and never a number that is not finite.
//!
//! ```
//! use dpopt_report::{Mark, Plot, Scale, Series, Size, page};
//!
//! let points = (1..=20).map(|n| (f64::from(n), 1.0 / f64::from(n))).collect();
//! let plot = Plot {
//!     id: "error",
//!     title: "Error per step",
//!     description: "It falls from 1 to 0.05.",
//!     x: ("step", Scale::Whole),
//!     y: ("error (log scale)", Scale::Log),
//!     series: vec![Series::new(Mark::Line, "norm", "error", points)],
//! };
//! let drawn = plot.draw(&[Size::Wide, Size::Narrow]).expect("an error is positive");
//! assert!(page("Errors", "", &drawn).contains("<desc id=\"error-wide-d\">It falls from 1 to 0.05."));
//! ```
//!
//! Classes of series, from the page's style: `norm` and `fit` (lines), `dot` and `anchor` (dots),
//! `noise`, `spent`, `area`, and `level` with one of `predicted`, `trivial` and `bound` (dashed lines).
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used))]

mod bars;
mod html;
mod plot;
mod scale;

pub use bars::bars;
pub use html::{escape, page, pairs, table};
pub use plot::{Mark, Plot, Series, Size};
pub use scale::{Scale, at_least, drawable, duration, number, percent_at_least};
