//! Hostile labelled rows, as data sets of generalised linear and other losses.

use dpopt_linalg::Design;
use dpopt_oracle::{ConvexGlm, Glm, PrivateData, Scale};
use dpopt_privacy::{Adjacency, ClipNorm};

use super::common::{DIM, declared};
use super::hostile::neighbours;
use super::{CheckError, Pair};

/// Rows of most runs.
pub(super) const ROWS: usize = 8;

/// A row of features with a label.
pub(super) type Labelled = ([f64; DIM], f32);

/// The row that is not there.
pub(super) const NOBODY: Labelled = ([0.0; DIM], 0.0);

/// Features and labels.
pub(super) fn design(rows: &[Labelled]) -> Result<(Design, Vec<f32>), CheckError> {
    let entries = rows.iter().flat_map(|(row, _)| *row).collect();
    let labels = rows.iter().map(|(_, label)| *label).collect();
    Ok((Design::dense(DIM, entries)?, labels))
}

/// Private rows of norm 1, of which `public` are declared where their number is not public.
pub(super) fn examples(
    (design, labels): (Design, Vec<f32>),
    adjacency: Adjacency,
    public: usize,
) -> Result<PrivateData, CheckError> {
    let (norm, public) = (ClipNorm::new(1.0)?, declared(adjacency, public));
    Ok(PrivateData::made_up(
        design, labels, norm, adjacency, public,
    )?)
}

/// The loss of passes over single rows.
pub(super) fn huber() -> Result<ConvexGlm, CheckError> {
    Ok(ConvexGlm::new(Glm::Huber(Scale::new(0.5)?))?)
}

/// Neighbours of eight rows, whose numbers break what they can.
pub(super) fn labelled_pairs(adjacency: Adjacency) -> Vec<Pair<Vec<Labelled>>> {
    let base = vec![
        ([0.5, 0.1, -0.2], 1.0),
        ([f64::NAN, 0.0, 0.0], 1.0),
        ([0.0, 0.9, 0.1], -1.0),
        ([9.0, -9.0, 3.0], 1.0),
        ([0.0; DIM], 1.0),
        ([0.3, 0.3, 0.3], -1.0),
        ([f64::INFINITY, 1.0, 1.0], -1.0),
        ([1e300, -1e300, 1e300], 1.0),
    ];
    let along = [1.0, 0.0, 0.0];
    let contents = [
        ("labels", (along, 1.0), (along, -1.0)),
        ("not a number", ([f64::NAN, 1.0, 0.0], 1.0), (along, 1.0)),
        ("bad label", (along, f32::NAN), (along, f32::INFINITY)),
        ("huge label", (along, 1e30), (along, -1e30)),
        (
            "infinite",
            ([f64::INFINITY, 0.0, 0.0], 1.0),
            ([-1e308, 0.0, 0.0], 1.0),
        ),
        (
            "tiny",
            ([1e-320, 0.0, 0.0], 1.0),
            ([1e-300, 1e-300, 0.0], -1.0),
        ),
    ];
    let copies = vec![(along, 1.0); ROWS];
    neighbours(adjacency, &[base, copies], &contents, &NOBODY)
}
