//! What is public of an oracle.

use std::ops::BitOr;

use dpopt_linalg::Domain;
use dpopt_privacy::Adjacency;

use crate::error::AskError;
use crate::loss::{Blocks, Constants};

/// What is public of the records behind an oracle, and of the field that it is asked about.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct OracleFacts {
    /// Coordinates of points and means, d.
    pub dim: usize,
    /// The public number of records.
    pub records: u64,
    /// The neighbouring relation of all releases.
    pub adjacency: Adjacency,
    /// The field of each record is at most this long (L0, for gradients), if the caller's constants are right; infinite
    /// where no bound is known.
    pub lipschitz: f64,
    /// The field of each record is Lipschitz with this constant (L1, for gradients), if the caller's constants are
    /// right; infinite where none is known.
    pub smoothness: f64,
    /// Whether these two were told ([`OracleFacts::with_constants`]). Of an oracle that was told none nothing is known, and a plan takes its
    /// caller's word; of one that was told an infinite one it is known that there is none.
    pub told: bool,
    /// C_F: the Hessian of each record's loss has at most this Frobenius norm; absent where it is not known.
    pub hessian_frobenius: Option<f64>,
    /// C_x and C_y: bounds on the two blocks of each record's field, of a saddle problem; absent where they are not known.
    pub block_lipschitz: Option<[f64; 2]>,
    /// Whether the field is the gradient of the loss ([`Constants::whole`]). Of another one no bound and no certificate holds.
    pub whole: bool,
    /// Which questions are answered.
    pub offers: Offers,
    /// Whether a contribution that needs no clip is as it should be, up to the lattice, whatever is asked. Sums in single precision
    /// shorten gradients by up to 0.3 %, which bounds and certificates are not about; see [`OracleFacts::exact_for`].
    pub exact_sums: bool,
    /// How the coordinates of a point are split, where the field is that of a saddle problem: to descend in all of them is then no
    /// use, and no run of a minimiser is let at it.
    pub blocks: Option<Blocks>,
    /// Which set y is in, where there is one and it is known: a plan for another is refused.
    pub domain: Option<DomainStamp>,
}

/// Tells domains apart: of two with different stamps nothing that was planned for the one holds over the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DomainStamp(u64);

impl DomainStamp {
    /// Of a domain: equal ones have equal stamps, and others but for a chance of about 2^-64.
    #[must_use]
    pub fn of(domain: &Domain) -> Self {
        // FNV-1a of what is written of it, in which numbers are told apart to the bit.
        let bytes = format!("{domain:?}");
        let hash = bytes.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self(hash)
    }
}

impl OracleFacts {
    /// Of so many records and coordinates, with infinite constants.
    #[must_use]
    pub fn new(dim: usize, records: u64, adjacency: Adjacency, offers: Offers) -> Self {
        Self {
            dim,
            records,
            adjacency,
            lipschitz: f64::INFINITY,
            smoothness: f64::INFINITY,
            told: false,
            hessian_frobenius: None,
            block_lipschitz: None,
            whole: true,
            offers,
            exact_sums: true,
            blocks: None,
            domain: None,
        }
    }

    /// With these constants of the field, infinite where there are none.
    #[must_use]
    pub fn with_constants(self, lipschitz: f64, smoothness: f64) -> Self {
        Self {
            lipschitz,
            smoothness,
            told: true,
            ..self
        }
    }

    /// With all that a loss says of its records.
    #[must_use]
    pub fn with_all_constants(self, of: &Constants) -> Self {
        Self {
            hessian_frobenius: Some(of.hessian_frobenius),
            block_lipschitz: of.block_lipschitz,
            whole: of.whole,
            ..self.with_constants(of.lipschitz, of.smoothness)
        }
    }

    /// With this bound on the Frobenius norm of records' Hessians.
    #[must_use]
    pub fn with_hessian_frobenius(self, frobenius: f64) -> Self {
        Self {
            hessian_frobenius: Some(frobenius),
            ..self
        }
    }

    /// With y in this set.
    #[must_use]
    pub fn with_domain(self, domain: Option<&Domain>) -> Self {
        let domain = domain.map(DomainStamp::of);
        Self { domain, ..self }
    }

    /// With coordinates split like this.
    #[must_use]
    pub fn with_blocks(self, blocks: Option<Blocks>) -> Self {
        Self { blocks, ..self }
    }

    /// Whether answers to these questions are as they should be: slopes and values are never summed in single precision.
    #[must_use]
    pub fn exact_for(&self, asked: Offers) -> bool {
        let exact = Offers::SLOPES | Offers::VALUES | Offers::VALUE_CHANGES | Offers::DIRECTIONAL;
        self.exact_sums || exact.covers(asked)
    }

    /// Checked before a record is read: whether a row reaches past the end of a short point depends on that row.
    ///
    /// # Errors
    /// [`AskError::Shape`] unless the point has [`OracleFacts::dim`] coordinates.
    pub fn check_point(&self, point: &[f64]) -> Result<(), AskError> {
        if point.len() == self.dim {
            Ok(())
        } else {
            Err(AskError::Shape { dim: self.dim })
        }
    }
}

/// A set of kinds of questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offers(u16);

impl Offers {
    /// None.
    pub const NOTHING: Self = Self(0);
    /// Means of linear queries.
    pub const MEANS: Self = Self(1);
    /// Norms of means.
    pub const NORMS: Self = Self(1 << 1);
    /// Selections of the least norm.
    pub const SELECTIONS: Self = Self(1 << 2);
    /// Mean values.
    pub const VALUES: Self = Self(1 << 3);
    /// Periods of prefix sums.
    pub const PERIODS: Self = Self(1 << 4);
    /// Passes over single records.
    pub const PASSES: Self = Self(1 << 5);
    /// Means of slopes along shared directions.
    pub const SLOPES: Self = Self(1 << 6);
    /// Means and prefix sums of the smoothed field, records with offsets and frames of their own.
    pub const SMOOTHED: Self = Self(1 << 7);
    /// Mean Hessians.
    pub const HESSIANS: Self = Self(1 << 8);
    /// Means of the field averaged along each record's own row.
    pub const ROW_AVERAGES: Self = Self(1 << 9);
    /// Products of chained Hessians.
    pub const CHAINS: Self = Self(1 << 12);
    /// Mean products of the Hessian with a public vector.
    pub const HESSIAN_PRODUCTS: Self = Self(1 << 10);
    /// Mean changes of values.
    pub const VALUE_CHANGES: Self = Self(1 << 11);
    /// Mean slopes along one direction.
    pub const DIRECTIONAL: Self = Self(1 << 13);

    /// Whether all of `needed` are in it.
    #[must_use]
    pub fn covers(self, needed: Self) -> bool {
        self.0 & needed.0 == needed.0
    }

    /// Those of `needed` that are not in it, by name.
    #[must_use]
    pub fn lacking(self, needed: Self) -> Vec<&'static str> {
        [
            (Self::MEANS, "means"),
            (Self::NORMS, "norms"),
            (Self::SELECTIONS, "selections"),
            (Self::VALUES, "values"),
            (Self::PERIODS, "prefix sums"),
            (Self::PASSES, "passes over single records"),
            (Self::SLOPES, "slopes"),
            (Self::SMOOTHED, "smoothed fields"),
            (Self::HESSIANS, "Hessians"),
            (Self::ROW_AVERAGES, "averages along rows"),
            (Self::CHAINS, "products of chained Hessians"),
            (Self::HESSIAN_PRODUCTS, "products with Hessians"),
            (Self::VALUE_CHANGES, "changes of values"),
            (Self::DIRECTIONAL, "slopes along a direction"),
        ]
        .into_iter()
        .filter(|(one, _)| needed.covers(*one) && !self.covers(*one))
        .map(|(_, name)| name)
        .collect()
    }
}

impl BitOr for Offers {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
