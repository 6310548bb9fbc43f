//! The accountants by name.

use serde::{Deserialize, Serialize};

/// A method that turns an event into (epsilon, delta).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Accountant {
    /// Gaussian differential privacy: exact for compositions of Gaussian releases, also in trees.
    Gdp,
    /// Zero-concentrated differential privacy: compositions of unsampled releases.
    Zcdp,
    /// Renyi differential privacy at all real orders: everything but approximate differential
    /// privacy and samples of anything but Gaussians.
    Rdp,
    /// Privacy-loss distributions: the certified upper bound of [`pld`](super::pld). Gaussian and Laplace
    /// releases, plain and Poisson-sampled (samples of Laplace noise not under replace-one), pure,
    /// approximate, discrete and concentrated ones, in any composition.
    Pld,
    /// Contour integration: the certified upper end of [`exact`](super::exact). Gaussian and Poisson-sampled
    /// Gaussian releases in any composition. Of more than 300 different kinds of samples it is the number for mixtures of at most 256
    /// kinds that dominate them, mostly within a thousandth.
    Exact,
    /// Pure and approximate differential privacy: [`pure`](super::pure) composition.
    Pure,
    /// Basic composition of two groups: the sum of the epsilons of the pure and approximate releases, and the
    /// least epsilon that another accountant states for the rest at what is left of delta. Of one group alone it is
    /// that group's number.
    Basic,
}

impl Accountant {
    /// Every accountant, in the order of the table of this module.
    pub const ALL: [Accountant; 7] = [
        Accountant::Gdp,
        Accountant::Zcdp,
        Accountant::Rdp,
        Accountant::Pld,
        Accountant::Exact,
        Accountant::Pure,
        Accountant::Basic,
    ];

    /// Whether there is a theorem here for Poisson samples.
    pub(super) fn takes_samples(self) -> bool {
        matches!(self, Accountant::Rdp | Accountant::Pld | Accountant::Exact)
    }
}

impl std::fmt::Display for Accountant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Accountant::Gdp => "gdp",
            Accountant::Zcdp => "zcdp",
            Accountant::Rdp => "rdp",
            Accountant::Pld => "pld",
            Accountant::Exact => "exact",
            Accountant::Pure => "pure",
            Accountant::Basic => "basic",
        })
    }
}

/// A name is not that of an accountant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no accountant is called `{name}`; known: gdp, zcdp, rdp, pld, exact, pure, basic")]
pub struct UnknownAccountant {
    /// The rejected name.
    pub name: String,
}

impl std::str::FromStr for Accountant {
    type Err = UnknownAccountant;

    fn from_str(name: &str) -> Result<Self, UnknownAccountant> {
        Accountant::ALL
            .into_iter()
            .find(|accountant| accountant.to_string() == name)
            .ok_or_else(|| UnknownAccountant {
                name: name.to_owned(),
            })
    }
}
