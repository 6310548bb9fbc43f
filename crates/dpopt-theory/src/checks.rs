//! What the checks of rates and of guarantees share: names, choice by name, effort, verdicts, seeds and threads.

use std::num::NonZeroUsize;
use std::ops::Range;

use serde::{Deserialize, Serialize};

/// Why a part of a check could not be made.
pub type CheckError = Box<dyn std::error::Error + Send + Sync>;

/// How much time there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effort {
    /// The quick checks with an eighth of the runs of what is expected to hold: every commit.
    Brief,
    /// Minutes for all checks together: every change of what is checked.
    #[default]
    Quick,
    /// The better part of an hour: a release.
    Full,
}

impl Effort {
    /// What goes with this effort.
    #[must_use]
    pub fn pick<T>(self, quick: T, full: T) -> T {
        match self {
            Self::Brief | Self::Quick => quick,
            Self::Full => full,
        }
    }

    /// So many runs of a check that finds more the more it makes. A brief one has an eighth of the quick ones, and no fewer than a thousand
    /// where there are as many.
    #[must_use]
    pub fn runs(self, quick: u64, full: u64) -> u64 {
        match self {
            Self::Brief => (quick / 8).max(quick.min(1000)),
            _ => self.pick(quick, full),
        }
    }
}

/// Whether a check came out as it should: a claim stands, or a broken twin was caught.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// It did.
    Pass,
    /// It did not.
    Fail,
}

impl Status {
    pub(crate) fn of(pass: bool) -> Self {
        if pass { Self::Pass } else { Self::Fail }
    }
}

/// A check that can be asked for by name.
pub trait Named {
    /// Its name.
    fn name(&self) -> &str;

    /// The group that it is of: by default what stands before the first slash of its name.
    fn group(&self) -> &str {
        let name = self.name();
        name.split_once('/').map_or(name, |(group, _)| group)
    }

    /// Whether it is a broken twin, which must fail.
    fn is_control(&self) -> bool;
}

/// Checks, in order.
pub struct Registry<C: ?Sized> {
    checks: Vec<Box<C>>,
}

impl<C: ?Sized> Default for Registry<C> {
    fn default() -> Self {
        Self::new()
    }
}

impl<C: ?Sized> From<Vec<Box<C>>> for Registry<C> {
    fn from(checks: Vec<Box<C>>) -> Self {
        Self { checks }
    }
}

impl<C: ?Sized> Registry<C> {
    /// No checks.
    #[must_use]
    pub fn new() -> Self {
        Self::from(Vec::new())
    }

    pub(crate) fn push(&mut self, check: Box<C>) {
        self.checks.push(check);
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &C> {
        self.checks.iter().map(Box::as_ref)
    }
}

impl<C: Named + ?Sized> Registry<C> {
    /// The names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.all().map(Named::name)
    }

    /// The groups, each once.
    #[must_use]
    pub fn groups(&self) -> Vec<String> {
        let mut groups: Vec<String> = Vec::new();
        for check in self.all() {
            if !groups.iter().any(|known| known == check.group()) {
                groups.push(check.group().to_owned());
            }
        }
        groups
    }

    /// The first check of each group, and its first broken twin.
    #[must_use]
    pub fn brief(self) -> Self {
        let mut seen: Vec<(String, bool)> = Vec::new();
        let mut checks = self.checks;
        checks.retain(|check| {
            let kind = (check.group().to_owned(), check.is_control());
            let new = !seen.contains(&kind);
            if new {
                seen.push(kind);
            }
            new
        });
        Self { checks }
    }

    /// Those of this name, of this group, and those whose name starts with it and a slash.
    #[must_use]
    pub fn select(&self, asked: &str) -> Vec<&C> {
        let below = |name: &str| {
            let rest = name.strip_prefix(asked);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let all = self.all();
        all.filter(|check| check.group() == asked || below(check.name()))
            .collect()
    }
}

/// The finaliser of SplitMix64 over a seed and what it is used for: far from those of other uses.
pub(crate) fn mixed(seed: u64, use_: u64) -> u64 {
    let mut x = seed.wrapping_add(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(use_.wrapping_add(1)));
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A seed for a name.
pub(crate) fn seed_of(name: &str, seed: u64) -> u64 {
    name.bytes()
        .fold(mixed(seed, 0), |hash, byte| mixed(hash, u64::from(byte)))
}

/// Runs in equal parts, on up to eight threads: what `part` makes of each, in order.
pub(crate) fn in_parts<T: Send>(runs: u64, part: impl Fn(Range<u64>) -> T + Sync) -> Vec<T> {
    let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let threads = threads.get().min(8) as u64;
    let part = |k: u64| part(runs * k / threads..runs * (k + 1) / threads);
    std::thread::scope(|scope| {
        let part = &part;
        let workers: Vec<_> = (1..threads).map(|k| scope.spawn(move || part(k))).collect();
        let first = part(0);
        let others = workers.into_iter().map(|worker| {
            worker
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        std::iter::once(first).chain(others).collect()
    })
}
