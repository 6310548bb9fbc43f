//! The right to make one release.

use zeroize::{Zeroize, Zeroizing};

use crate::adjacency::Adjacency;
use crate::event::Event;
use crate::exchange::{ExchangeError, Together};
use crate::lattice::{Bound, LatticeSum, SensitivityClaim};
use crate::noise::RoundedGaussian;
use crate::replay::ReplayedReads;
use crate::sample::Sample;
use crate::selection::Rate;
use crate::units::Epsilon;
use crate::which::Account;

/// The right to make one release: priced, within what is left of the reservation, and with its
/// records drawn.
///
/// A curator grants it ([`crate::Curator::grant`]) before any record is read. Who reads the
/// records of [`Ticket::sample`] gives their sum to the curator together with the ticket, which
/// is used up. `For` says what kind of release it is; no kind stands for another.
///
/// # Privacy
/// The price is fixed here, by the match that draws the records, and nowhere else. It is good
/// until its curator grants, charges, reserves or settles anything else. A ticket that is dropped
/// costs nothing; its sample is not used again and its slice stays handed out.
///
/// It neither clones nor prints:
///
/// ```compile_fail
/// fn copy(ticket: &dpopt_privacy::Ticket) -> dpopt_privacy::Ticket { ticket.clone() }
/// ```
///
/// ```compile_fail
/// fn print(ticket: dpopt_privacy::Ticket) { println!("{ticket:?}"); }
/// ```
#[must_use = "a ticket that is dropped releases nothing"]
pub struct Ticket<For = ForSum> {
    pub(crate) hold: Hold,
    pub(crate) sample: Sample,
    pub(crate) terms: For,
}

impl<For> Ticket<For> {
    /// The records that the release reads.
    pub fn sample(&self) -> &Sample {
        &self.sample
    }
}

/// Pushes, and leaves no copy of what is secret where the numbers were before.
fn push(secret: &mut Vec<i64>, number: i64) {
    if secret.len() == secret.capacity() {
        let mut wider = Vec::with_capacity(2 * secret.len() + 8);
        wider.extend_from_slice(secret);
        secret.zeroize();
        *secret = wider;
    }
    secret.push(number);
}

impl Ticket<ForChoice> {
    /// Adds a candidate: a sum over all records, and a public shift of it in its own units.
    ///
    /// # Errors
    /// [`TicketError::OtherBound`] and [`TicketError::OtherBlocks`] for a sum that was not
    /// granted; [`TicketError::Exchange`].
    pub fn add(&mut self, sum: LatticeSum, shift: &[f64]) -> Result<(), TicketError> {
        let bound = self.terms.bound;
        if let Some(together) = &self.terms.together {
            together.note(&format_args!("{bound:?}"));
            together.note_numbers(shift);
        }
        let integers = sealed(sum, bound, self.sample.adjacency())?;
        let integers = whole(integers, self.terms.together.as_ref())?;
        let norm = bound.norm_in_steps(&integers, shift);
        // Norms of sums are below 2^62; shifted ones may be longer, and cutting them off moves no
        // two further apart.
        push(&mut self.terms.scores, -(norm.min(1 << 62) as i64));
        Ok(())
    }
}

/// A ticket can't be redeemed like this. Nothing was released and nothing charged.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TicketError {
    /// The ranks of the run can't go on together.
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
    /// Another curator granted it.
    #[error("this ticket was granted by another curator")]
    OtherCurator,
    /// Another period of prefix sums granted it.
    #[error("this ticket was granted for a step of another period")]
    OtherPeriod,
    /// It is not the last thing that its curator did.
    #[error(
        "this ticket is not good any more: something was granted, charged, reserved or settled after it"
    )]
    Void,
    /// The sum is not within the bound that was granted.
    #[error(
        "a sum of dimension {dim} within radius {radius:e} was not granted, but one of dimension {granted_dim} within radius {granted_radius:e}"
    )]
    OtherBound {
        /// Dimension of the sum.
        dim: usize,
        /// Radius of the sum.
        radius: f64,
        /// Dimension that was granted.
        granted_dim: usize,
        /// Radius that was granted.
        granted_radius: f64,
    },
    /// A chain has another number of slices.
    #[error("a chain of {granted} slices was granted, and {parts} sums were given for it")]
    OtherParts {
        /// Sums that were given.
        parts: usize,
        /// Slices that were granted.
        granted: usize,
    },
    /// The sum was taken in blocks of positions that are fixed under another adjacency only.
    #[error("a sum in blocks that hold under {blocks} adjacency can't be released under {curator}")]
    OtherBlocks {
        /// Adjacency of the blocks.
        blocks: Adjacency,
        /// Adjacency of the curator.
        curator: Adjacency,
    },
}

/// Terms of a ticket for one sum, or its norm.
pub struct ForSum {
    pub(crate) price: Price,
    pub(crate) bound: Bound,
    pub(crate) noise: RoundedGaussian,
    pub(crate) norm_noise: RoundedGaussian,
}

/// Terms of a ticket for one output of claimed sensitivity.
pub struct ForClaim {
    pub(crate) price: Price,
    pub(crate) claim: SensitivityClaim,
    pub(crate) noise: RoundedGaussian,
}

/// The right to make one release over several slices, which all pay for it: see [`crate::Curator::grant_chain`].
///
/// # Privacy
/// As that of a [`Ticket`].
#[must_use = "a ticket that is dropped releases nothing"]
pub struct ChainTicket {
    pub(crate) hold: Hold,
    pub(crate) samples: Vec<Sample>,
    pub(crate) price: Price,
    pub(crate) bound: Bound,
    pub(crate) noise: RoundedGaussian,
}

impl ChainTicket {
    /// The records that the release reads, slice by slice.
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }
}

/// Terms of a ticket for one step of a period of prefix sums.
pub struct ForStep {
    /// The period, by its number at the curator.
    pub(crate) period: u64,
    /// The slice that takes part.
    pub(crate) slice: Option<u64>,
    /// What it costs and who pays for it; nothing where that was done before.
    pub(crate) payer: Option<(Event, Account)>,
    /// What it reads, for the tape of an audit.
    pub(crate) reads: ReplayedReads,
}

/// Terms of a ticket for a choice among norms.
pub struct ForChoice {
    pub(crate) event: Event,
    pub(crate) bound: Bound,
    pub(crate) epsilon: Epsilon,
    /// Sensitivity of a difference of two norms, in steps.
    pub(crate) spread: u64,
    pub(crate) rate: Rate,
    /// The norms, negative, in steps. **Secret**.
    pub(crate) scores: Vec<i64>,
    /// The ranks that sums are added over.
    pub(crate) together: Option<Together>,
}

impl Drop for ForChoice {
    fn drop(&mut self) {
        self.scores.zeroize();
    }
}

/// What a release costs, and who pays.
pub(crate) struct Price {
    pub(crate) event: Event,
    pub(crate) account: Account,
    pub(crate) reads: ReplayedReads,
}

/// Until when a ticket is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hold {
    /// The curator, unique in the process.
    pub(crate) curator: u64,
    /// What it has done so far, counted.
    pub(crate) turn: u64,
}

impl Hold {
    /// Refuses a ticket that is not good `now`.
    pub(crate) fn check(self, now: Self) -> Result<(), TicketError> {
        if self.curator != now.curator {
            return Err(TicketError::OtherCurator);
        }
        if self.turn != now.turn {
            return Err(TicketError::Void);
        }
        Ok(())
    }
}

/// The sum over all ranks, where there are several.
pub(crate) fn whole(
    mut integers: Zeroizing<Vec<i64>>,
    together: Option<&Together>,
) -> Result<Zeroizing<Vec<i64>>, ExchangeError> {
    if let Some(together) = together {
        together.sum("a sum", &mut integers)?;
    }
    Ok(integers)
}

/// The integers of a sum, if it is one that was granted: those of the records of this rank.
pub(crate) fn sealed(
    sum: LatticeSum,
    granted: Bound,
    adjacency: Adjacency,
) -> Result<Zeroizing<Vec<i64>>, TicketError> {
    if let Some(blocks) = sum
        .blocks()
        .filter(|blocks| blocks.adjacency() != adjacency)
    {
        return Err(TicketError::OtherBlocks {
            blocks: blocks.adjacency(),
            curator: adjacency,
        });
    }
    let (stated, integers) = sum.into_integers();
    if stated != granted {
        return Err(TicketError::OtherBound {
            dim: stated.dim(),
            radius: stated.radius(),
            granted_dim: granted.dim(),
            granted_radius: granted.radius(),
        });
    }
    Ok(integers)
}
