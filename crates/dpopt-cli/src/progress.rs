//! A progress bar, on a terminal only. It shows steps, which are public.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::tell::is_silent;

/// The bar, or nothing.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// `times`: whether it may show how much time is left.
    pub(crate) fn new(steps: u64, wanted: bool, times: bool) -> Self {
        let visible = wanted && !is_silent() && std::io::stderr().is_terminal();
        let target = if visible {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(steps), target);
        let template = if times {
            "{bar:40} {pos}/{len} steps, {eta} left"
        } else {
            "{bar:40} {pos}/{len} steps"
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self(bar)
    }

    pub(crate) fn step(&self) {
        self.0.inc(1);
    }

    pub(crate) fn finish(&self) {
        self.0.finish_and_clear();
    }
}
