//! A plan of windows, fixed before the run: their lengths, and the slack of their means.

use dpopt_oracle::{NoSample, Offers, OracleFacts};
use dpopt_privacy::Adjacency;
use dpopt_solver::{Access, Covered, Known, Plan, Premises, Withheld};

use super::error::WindowError;
use super::stated::{WindowSlack, WindowSubject};

/// Slack of a mean, as a share of the longest contribution, at which a plan without blocks gets its
/// windows. Longer windows are more exact and wider. A tuned constant.
const SHARE: f64 = 0.02;
/// By how much deviations may differ and count as one, and what that costs.
const SAME: f64 = 1e-6;

/// Terms by which windows are counted and certified. All of them are public.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WindowTerms {
    /// T: releases of the plan.
    pub releases: u64,
    /// W: releases of a window.
    pub window: u64,
    /// zeta: with at most this probability a certificate is wrong.
    pub failure: f64,
    /// sigma: standard deviation per coordinate of the noise in one released mean.
    pub noise_std: f64,
    /// n: records that the means are over.
    pub records: u64,
    /// The neighbouring relation: of the ones under which n is public.
    pub adjacency: Adjacency,
    /// d.
    pub dim: usize,
    /// Which records a release reads.
    pub access: Access,
    /// L: bound on the length of each record's gradient; infinite where none is known.
    pub lipschitz: f64,
    /// C: the radius that they are clipped to.
    pub clip: f64,
    /// Whether kinks are of no concern: the loss has none, or the points are moved at random.
    pub differentiable: bool,
    /// Whether the loss leaves its own field whole ([`dpopt_oracle::Constants::whole`]), as far as the plan knows.
    pub whole: bool,
}

/// The windows of a run, checked: J = floor(T/W) of them, one after another, the last at the end of the plan.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WindowPlan {
    terms: WindowTerms,
    slack: WindowSlack,
}

/// How the records of a release come about, as the proof tells cases apart.
#[derive(Clone, Copy)]
pub(super) enum Sampling {
    All,
    /// Each record with probability `rate`.
    Poisson {
        rate: f64,
        mean_size: f64,
    },
    /// So many, fresh or unread.
    Fixed {
        size: f64,
    },
}

impl WindowTerms {
    /// Those of a plan whose releases are fresh, with windows of its blocks, or else so long that the noise in their means is
    /// short. `failure` is zeta.
    ///
    /// # Errors
    /// [`WindowError::NotFresh`], [`WindowError::DeclaredSize`].
    pub fn of(plan: &dyn Plan, failure: f64) -> Result<Self, WindowError> {
        let facts = plan.facts();
        if !facts.adjacency.record_count_is_public() {
            return Err(WindowError::DeclaredSize);
        }
        let solver = plan.name();
        let fresh = plan.fresh().ok_or(WindowError::NotFresh { solver })?;
        let releases = plan.steps();
        let terms = Self {
            releases,
            window: fresh.block.unwrap_or(releases).min(releases),
            failure,
            noise_std: fresh.noise_std,
            records: facts.records,
            adjacency: facts.adjacency,
            dim: plan.dim(),
            access: plan.access(),
            lipschitz: facts.lipschitz,
            clip: plan.clip(),
            differentiable: fresh.moved || facts.smoothness.is_finite(),
            whole: fresh.whole,
        };
        Ok(match fresh.block {
            Some(_) => terms,
            None => terms.with_suited_window(),
        })
    }

    /// With the least power of two as window at which what is added is a fiftieth of the longest contribution, or all releases
    /// where even that is too few.
    #[must_use]
    pub(super) fn with_suited_window(self) -> Self {
        let with = |window| Self { window, ..self };
        let suits = |terms: &Self| {
            WindowPlan::new(*terms).is_ok_and(|plan| plan.slack.total() <= SHARE * terms.reach())
        };
        (0..63)
            .map(|power| with(1 << power))
            .take_while(|terms| terms.window < self.releases)
            .find(suits)
            .unwrap_or(with(self.releases))
    }

    /// The longest that a contribution can be.
    fn reach(&self) -> f64 {
        self.clip.min(self.lipschitz + 0.5 * self.step())
    }

    /// sqrt(d) times the step of the lattice, at most.
    fn step(&self) -> f64 {
        (self.dim as f64).sqrt() * 2f64.powi(-29) * self.clip
    }

    fn sampling(&self) -> Result<Sampling, WindowError> {
        Ok(match self.access {
            Access::FullBatch => Sampling::All,
            Access::Poisson(rate) => Sampling::Poisson {
                rate: rate.get(),
                mean_size: rate.get() * self.records as f64,
            },
            Access::FixedSize(size) | Access::SinglePass { anchor: size, .. } => {
                Sampling::Fixed { size: size as f64 }
            }
            _ => return Err(WindowError::Access),
        })
    }
}

impl WindowPlan {
    /// The windows of these terms.
    ///
    /// # Errors
    /// [`WindowError::OutOfRange`], [`WindowError::Access`]; [`WindowError::NoSample`] of unread records but under replace-one.
    pub fn new(terms: WindowTerms) -> Result<Self, WindowError> {
        if !terms.adjacency.record_count_is_public() {
            return Err(WindowError::DeclaredSize);
        }
        if matches!(terms.access, Access::SinglePass { .. }) {
            NoSample::refuse(terms.adjacency)?;
        }
        let range = |name, value| WindowError::OutOfRange { name, value };
        WindowError::positive("noise_std", terms.noise_std)?;
        WindowError::positive("clip", terms.clip)?;
        WindowError::positive("dim", terms.dim as f64)?;
        WindowError::positive("records", terms.records as f64)?;
        // NaN must be refused, and no bound may be given.
        if !(terms.lipschitz > 0.0) {
            return Err(range("lipschitz", terms.lipschitz));
        }
        if !(terms.failure > 0.0 && terms.failure < 1.0) {
            return Err(range("failure", terms.failure));
        }
        if terms.window == 0 || terms.window > terms.releases {
            return Err(range("window", terms.window as f64));
        }
        let sampling = terms.sampling()?;
        if let Sampling::Poisson {
            mean_size: size, ..
        }
        | Sampling::Fixed { size } = sampling
        {
            // Noise is rounded in the sum, which is divided by that.
            if !(size >= 1.0 && size.is_finite()) {
                return Err(range("sample size", size));
            }
        }
        let windows = (terms.releases / terms.window) as f64;
        // Noise and samples fail separately.
        let failure = match sampling {
            Sampling::All => terms.failure,
            _ => terms.failure / 2.0,
        };
        let (window, root) = (terms.window as f64, (terms.dim as f64).sqrt());
        let sigma = terms.noise_std * (1.0 + SAME);
        let slack = WindowSlack {
            noise: noise_slack(sigma, root, window, windows, failure),
            sampling: sampling_slack(sampling, terms.reach(), window, windows, failure),
            rounding: terms.step() * (1.5 + 1.0 / root) + 2f64.powi(-44) * terms.clip,
        };
        Ok(Self { terms, slack })
    }

    /// The windows of a plan whose releases are fresh: those of [`WindowTerms::of`].
    ///
    /// # Errors
    /// [`WindowError`].
    pub fn of(plan: &dyn Plan, failure: f64) -> Result<Self, WindowError> {
        Self::new(WindowTerms::of(plan, failure)?)
    }

    /// The terms of the plan.
    #[must_use]
    pub fn terms(&self) -> &WindowTerms {
        &self.terms
    }

    /// J: how many windows there are. They are counted from the plan, wherever the run stops.
    #[must_use]
    pub fn windows(&self) -> u64 {
        self.terms.releases / self.terms.window
    }

    /// Slack added to the length of a window's mean: the same for all windows.
    #[must_use]
    pub fn slack(&self) -> WindowSlack {
        self.slack
    }

    /// Subject of the certificate, for a loss with the constants that were planned for.
    #[must_use]
    pub fn subject(&self) -> WindowSubject {
        WindowSubject::of(&self.as_planned(), self.terms.differentiable)
    }

    /// [`WindowPlan::covered`] of records that are as the plan says.
    pub(super) fn as_planned(&self) -> Result<Covered, Withheld> {
        let terms = &self.terms;
        let oracle = OracleFacts::new(terms.dim, terms.records, terms.adjacency, Offers::MEANS);
        let mut planned = oracle.with_constants(terms.lipschitz, f64::INFINITY);
        planned.whole = terms.whole;
        self.covered(&planned)
    }

    /// Whether the gradients of these records, by an oracle that says this of them, are those that windows are about.
    pub(super) fn covered(&self, known: &OracleFacts) -> Result<Covered, Withheld> {
        let terms = &self.terms;
        let premises = Premises {
            records: terms.records,
            adjacency: terms.adjacency,
            counted: true,
            // Which an observer can't ask: the caller's part ([`WindowPlan::of_population`]).
            unread: false,
            // A regulariser is part of the vectors that are shown.
            unregularized: false,
            asked: Offers::MEANS,
            lipschitz: terms.clip,
            smoothness: f64::INFINITY,
            frobenius: f64::INFINITY,
            saddle: None,
        };
        // The noise is compared release by release.
        premises.hold(&Known::of(known))
    }

    /// Whether it is about the population: unread records are a fresh sample of that, and of no other mean, **if** the records are
    /// independent draws, in an order that tells nothing, the start does not depend on them, and nothing was released of them before
    /// ([`dpopt_oracle::Books::check_sample`], which an observer can't ask: the caller's part).
    #[must_use]
    pub fn of_population(&self) -> bool {
        matches!(self.terms.access, Access::SinglePass { .. })
    }

    /// The first step of the first window.
    pub(super) fn first_step(&self) -> u64 {
        self.terms.releases % self.terms.window
    }

    /// Length of the noise that was planned for: sqrt(d) sigma.
    pub(super) fn noise_norm(&self) -> f64 {
        (self.terms.dim as f64).sqrt() * self.terms.noise_std
    }

    /// Whether noise of this length is what was planned for.
    pub(super) fn has_noise(&self, noise_norm: f64) -> bool {
        let planned = self.noise_norm();
        (noise_norm - planned).abs() <= 0.5 * SAME * planned
    }
}

/// sigma (sqrt d + sqrt(2 ln(J/zeta)))/sqrt W: the sum of W noises is exactly Gaussian, whatever the walk does with them.
pub(super) fn noise_slack(sigma: f64, root_dim: f64, window: f64, windows: f64, zeta: f64) -> f64 {
    sigma * (root_dim + (2.0 * (windows / zeta).ln()).sqrt()) / window.sqrt()
}

/// Bernstein's and Hoeffding's inequalities for martingales in a Hilbert space (Pinelis 1994), with what all J may fail by as
/// `zeta`.
pub(super) fn sampling_slack(
    sampling: Sampling,
    length: f64,
    window: f64,
    windows: f64,
    zeta: f64,
) -> f64 {
    let log = (2.0 * windows / zeta).ln();
    match sampling {
        Sampling::All => 0.0,
        Sampling::Poisson { rate, mean_size } => {
            let share = log / (mean_size * window);
            length * ((2.0 * (1.0 - rate) * share).sqrt() + 2.0 / 3.0 * share)
        }
        Sampling::Fixed { size } => {
            let share = log / (size * window);
            let root = (2.0 * share).sqrt();
            length * (2.0 * root).min(root + 4.0 / 3.0 * share)
        }
    }
}
