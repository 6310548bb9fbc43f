//! A step that may be taken, whatever its noise is.

use std::ops::Range;

use dpopt::privacy::{Curator, LatticeSum, Positions, Refused, Ticket};

/// A step that may be taken, of releases that have `Open` open.
pub(crate) struct Granted<Open> {
    pub(crate) read: Read,
    /// What its mean divides by.
    pub(crate) denominator: f64,
    pub(crate) redeem: Redeem<Open>,
}

/// The records of a step.
pub(crate) enum Read {
    Range(Range<u64>),
    Drawn(Vec<i64>),
}

type Redeem<Open> =
    Box<dyn FnOnce(LatticeSum, &mut Curator, &mut Open) -> Result<Vec<f64>, Refused> + Send>;

impl<Open> Granted<Open> {
    /// What is released of a sum is what `redeem` makes of the ticket.
    pub(crate) fn new<For: Send + 'static>(
        ticket: Ticket<For>,
        redeem: impl FnOnce(
            Ticket<For>,
            LatticeSum,
            &mut Curator,
            &mut Open,
        ) -> Result<Vec<f64>, Refused>
        + Send
        + 'static,
    ) -> Self {
        let sample = ticket.sample();
        Self {
            read: match sample.positions() {
                Positions::Range(range) => Read::Range(range),
                Positions::Drawn(drawn) => {
                    Read::Drawn(drawn.reveal().iter().map(|&i| i64::from(i)).collect())
                }
            },
            denominator: sample.denominator(),
            redeem: Box::new(move |sum, curator, open| redeem(ticket, sum, curator, open)),
        }
    }
}
