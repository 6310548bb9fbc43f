//! What bounds and certificates rest on, and the one comparison of that with what is known of an oracle.

use dpopt_oracle::{Blocks, Constants, DomainStamp, NoSample, Offers, OracleFacts, Regularizer};
use dpopt_privacy::Adjacency;

use crate::withheld::Withheld;

/// What a bound or a certificate rests on.
///
/// It has no default: whoever states something names every premise, and [`Premises::hold`] compares all of them. The field has to be the
/// gradient of the loss ([`OracleFacts::whole`]) for every one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Premises {
    /// n: the mean is over so many records.
    pub records: u64,
    /// The relation, on which the size of the noise hangs.
    pub adjacency: Adjacency,
    /// Whether the claim is about the mean over the true number of records, and not over a declared one.
    pub counted: bool,
    /// Whether the claim is about the population, of which the records have to be a sample that nothing was computed from.
    pub unread: bool,
    /// Whether the claim is about the loss itself, and not about its sum with a public regulariser.
    pub unregularized: bool,
    /// The questions whose answers it is made of.
    pub asked: Offers,
    /// L0: no record's field is longer. Infinite where nothing rests on it, as the next two.
    pub lipschitz: f64,
    /// L1: no record's field changes faster.
    pub smoothness: f64,
    /// C_F: no record's Hessian is longer in Frobenius norm.
    pub frobenius: f64,
    /// The saddle problem that it is about; absent for minimisation.
    pub saddle: Option<SaddleShape>,
}

/// What a saddle problem is, as a plan and an oracle have to agree on it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SaddleShape {
    /// How its points are split.
    pub blocks: Blocks,
    /// The set that y is in.
    pub domain: DomainStamp,
    /// C_x and C_y: bounds on the two blocks of each record's field.
    pub lipschitz: [f64; 2],
    /// Whether its constants are those of records of which each group and class has exactly its public share.
    pub given_shares: bool,
}

/// What is known of an oracle when something is stated of its answers.
#[derive(Debug, Clone)]
pub struct Known<'a> {
    /// Of the records and the field; constants may be those of one point.
    pub facts: &'a OracleFacts,
    /// Whether the records were a fresh sample before the first of these answers.
    pub sample: Result<(), NoSample>,
    /// The regulariser that was added, if there was one.
    pub regularizer: Option<Regularizer>,
}

impl<'a> Known<'a> {
    /// Of an oracle that adds the noise that was planned for, on records of which nothing more is known.
    #[must_use]
    pub fn of(facts: &'a OracleFacts) -> Self {
        Self {
            facts,
            sample: Ok(()),
            regularizer: None,
        }
    }
}

/// All premises hold. [`Premises::hold`] alone makes one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Covered(());

impl Premises {
    /// The one comparison: whether all that a claim rests on is true of an oracle, as far as is public.
    ///
    /// The constants of an oracle are those of its records' losses, from the bounds that are enforced on the records. A larger one than was
    /// planned for is not refused, since privacy does not rest on it; but clips may bite then, and no proof covers that. The planned
    /// constants may be larger than an oracle's, and they may not be smaller: not even where the caller knows better, since nothing tells
    /// that apart from an error. Only of an oracle that was told no constants the caller's word is taken.
    ///
    /// # Errors
    /// [`Withheld`]: the first premise that does not hold. Those of the records, the noise and the sums come before those of the field.
    pub fn hold(&self, of: &Known<'_>) -> Result<Covered, Withheld> {
        self.hold_of_records(of)?;
        self.hold_of_field(of.facts, of.regularizer)?;
        Ok(Covered(()))
    }

    fn hold_of_records(&self, of: &Known<'_>) -> Result<(), Withheld> {
        let oracle = of.facts;
        if self.unread {
            of.sample.clone()?;
        }
        if self.unregularized && of.regularizer.is_some() {
            return Err(Withheld::Regularized);
        }
        if self.counted && !oracle.adjacency.record_count_is_public() {
            let adjacency = oracle.adjacency;
            return Err(Withheld::DeclaredSize { adjacency });
        }
        if (self.records, self.adjacency) != (oracle.records, oracle.adjacency) {
            return Err(Withheld::OtherRecords {
                planned: self.records,
                planned_under: self.adjacency,
                found: oracle.records,
                found_under: oracle.adjacency,
            });
        }
        if !oracle.exact_for(self.asked) {
            return Err(Withheld::SinglePrecision);
        }
        Ok(())
    }

    fn hold_of_field(
        &self,
        oracle: &OracleFacts,
        added: Option<Regularizer>,
    ) -> Result<(), Withheld> {
        if let Some(shape) = &self.saddle {
            if oracle.blocks != Some(shape.blocks) {
                return Err(Withheld::Blocks);
            }
            if oracle.domain.is_some_and(|asked| asked != shape.domain) {
                return Err(Withheld::Domain);
            }
        }
        if !oracle.whole {
            return Err(Withheld::Shortened);
        }
        let mut constants = vec![];
        if oracle.told {
            constants.push(("L0", self.lipschitz, oracle.lipschitz));
        }
        // The noise of a saddle walk is planned for L1, and an oracle without one adds more.
        if oracle.told || oracle.blocks.is_some() {
            let found = smoothness(oracle, added);
            constants.push(("L1", self.smoothness, found));
        }
        if let Some((shape, [x, y])) = self.saddle.as_ref().zip(oracle.block_lipschitz) {
            constants.push(("C_x", shape.lipschitz[0], x));
            constants.push(("C_y", shape.lipschitz[1], y));
        }
        if let Some(told) = oracle.hessian_frobenius {
            // A regulariser's Hessian is public, and added after the clip. Nobody's Hessian is longer than sqrt(d) L1.
            let most = (oracle.dim as f64).sqrt() * oracle.smoothness;
            constants.push(("C_F", self.frobenius, told.min(most)));
        }
        let larger = |(_, planned, found): &(_, f64, f64)| !within(*found, *planned);
        match constants.into_iter().find(larger) {
            None => Ok(()),
            Some((name, planned, found)) => Err(Withheld::Constant {
                name,
                planned,
                found,
            }),
        }
    }
}

/// L1 of the sum of the loss and a regulariser.
fn smoothness(oracle: &OracleFacts, added: Option<Regularizer>) -> f64 {
    let convexity = dpopt_oracle::Convexity::Nonconvex;
    let field = Constants::new(
        oracle.lipschitz,
        oracle.smoothness,
        f64::INFINITY,
        convexity,
    );
    added
        .map_or(field, |added| added.constants(field))
        .smoothness
}

/// Whether a constant is at most the planned one, but for the rounding of both. NaN is no constant.
pub(crate) fn within(found: f64, planned: f64) -> bool {
    found <= planned * (1.0 + 1e-9)
}
