//! Why nothing is proven of the point that a run returned.

/// Why nothing is proven of the point that a run returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoBound {
    /// The plan has none.
    Plan,
    /// The walk did not start at the origin, and the gap that a bound starts from is known there only.
    Checkpoint,
    /// The claim is about the population, and earlier runs of the same budget read the records.
    MaybeRead,
    /// The claim is about the population, and slices are of runs of neighbours.
    Clusters,
    /// The claim is about the population, of which an erased record is no draw.
    Erased,
    /// The records' losses have larger constants than the plan rests on, or none are known of them.
    Constants,
    /// The mean is over a declared number of records, and the proof is about the true one, which is private.
    DeclaredSize,
    /// The output was drawn, and is the start: the mean over the draw says nothing of it.
    Start,
    /// The walk, or its result, left the ball that the constants of a quadratic loss hold on.
    LeftBall,
    /// A release was not finite.
    Diverged,
    /// The budget or the steps ended before a certificate, and no proof covers that.
    NoCertificate,
    /// The run ended in a way that the proof does not cover.
    Stop,
    /// The run was chosen among several by what they released.
    Tuned,
    /// The run read other records than the plan is for.
    OtherRecords,
    /// Sums were in single precision.
    SinglePrecision,
    /// A regulariser was added.
    Regularized,
}

impl std::fmt::Display for NoBound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            NoBound::Plan => "none stated by this solver",
            NoBound::Checkpoint => "none stated for a walk from a checkpoint",
            NoBound::MaybeRead => {
                "none stated: it would be about the population, and earlier runs of this ledger may have read the records, and what was \
                 chosen since hangs on them"
            }
            NoBound::Clusters => {
                "none stated: it would be about the population, and of a file in its place neighbours stay together, so that slices are \
                 no independent draws (`--order-seed none` keeps the order of the file)"
            }
            NoBound::Erased => {
                "none stated but under replace-one: it would be about the population, of which an erased record is no draw"
            }
            NoBound::Constants => {
                "none stated: as far as is known the loss has larger constants on these records than the plan rests on"
            }
            NoBound::DeclaredSize => {
                "none stated under add-remove: the proof is about the true number of records, which is private"
            }
            NoBound::Start => {
                "none stated: the proof is about the mean over a drawn output, and the start was drawn"
            }
            NoBound::LeftBall => {
                "none stated: the walk left the ball of --ball, and outside of it the constants that the proof rests on do not hold"
            }
            NoBound::Diverged => "none stated: a release or a length was not finite",
            NoBound::NoCertificate => "none stated: the budget, the records, the candidates or the steps were used up before a certificate",
            NoBound::OtherRecords => "none stated: the run read other records than its plan is for",
            NoBound::SinglePrecision => "none stated: the sums were in single precision, which the proof does not cover",
            NoBound::Regularized => "none stated: the bound is on a Goldstein distance, and a regulariser was added",
            NoBound::Tuned => {
                "none stated for the best of several runs: proofs are about a run that was not chosen by what it released"
            }
            NoBound::Stop => {
                "none stated: the proof is about a run to the end of its plan, and this one was stopped"
            }
        })
    }
}
