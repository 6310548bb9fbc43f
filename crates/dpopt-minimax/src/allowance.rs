//! A budget, and what is paid from it beside a run.

use dpopt_privacy::accounting::{AccountingError, gdp};
use dpopt_privacy::{Accountant, Adjacency, Epsilon, Event, Mu, NoiseMultiplier, Spend};
use dpopt_solver::{Budget, PlanError};

/// What a run may spend: a budget, less Gaussian releases on all records that are made before it or after it and that the same budget pays.
///
/// # Privacy
/// Squares of Gaussian-DP parameters add up, so what is left for a run that is Gaussian-DP itself is a budget of its own. A run on samples is
/// not Gaussian-DP: (epsilon', delta) of it and mu' of the rest don't make (epsilon, delta) together. Its noise is calibrated for the
/// composition of all of them. See `docs/privacy/minimax.md`.
#[derive(Debug, Clone, PartialEq)]
pub struct Allowance {
    whole: Budget,
    beside: Vec<Event>,
    /// Squared mu of them.
    cost: f64,
}

impl Allowance {
    /// All of it.
    #[must_use]
    pub fn all(budget: &Budget) -> Self {
        Self {
            whole: *budget,
            beside: Vec::new(),
            cost: 0.0,
        }
    }

    /// Less what this costs.
    ///
    /// # Errors
    /// [`AccountingError::UnsupportedEvent`] for anything but a fixed number of Gaussian releases on all records.
    pub fn less(mut self, spend: &Spend) -> Result<Self, PlanError> {
        let refused = |event: Event| {
            PlanError::from(AccountingError::UnsupportedEvent {
                accountant: Accountant::Gdp,
                path: String::new(),
                event: Box::new(event),
            })
        };
        let Spend::Fixed(event) = spend else {
            return Err(refused(spend.event().clone()));
        };
        for (leaf, count) in event.leaves() {
            match leaf {
                Event::NoOp => {}
                Event::Gaussian { noise_multiplier } => {
                    self.cost += count as f64 * noise_multiplier.get().powi(-2);
                }
                other => return Err(refused(other)),
            }
        }
        self.beside.push(event.clone());
        Ok(self)
    }

    /// The budget of everything together.
    #[must_use]
    pub fn whole(&self) -> &Budget {
        &self.whole
    }

    /// The budget of a run that is Gaussian-DP: what is left of mu^2.
    ///
    /// # Errors
    /// [`PlanError::Accounting`] or [`PlanError::Unit`], where nothing is.
    pub fn gaussian(&self) -> Result<Budget, PlanError> {
        if self.beside.is_empty() {
            return Ok(self.whole);
        }
        let mu = self.whole.mu()?.get();
        let rest = Mu::new((mu * mu - self.cost).sqrt())?;
        // Rounded down by more than the accountant rounds up.
        let epsilon = gdp::epsilon(rest, self.whole.delta) * (1.0 - 1e-9);
        Ok(Budget {
            epsilon: Epsilon::new(epsilon)?,
            delta: self.whole.delta,
        })
    }

    /// The least multiplier with which a run and everything beside it cost no more than the budget together, and who says so.
    ///
    /// # Errors
    /// [`PlanError::Accounting`].
    pub fn calibrated(
        &self,
        adjacency: Adjacency,
        run: impl Fn(NoiseMultiplier) -> Event,
    ) -> Result<(Accountant, NoiseMultiplier), PlanError> {
        self.whole.calibrated(adjacency, |z| self.with(run(z)))
    }

    /// A run and everything beside it.
    #[must_use]
    pub fn with(&self, run: Event) -> Event {
        if self.beside.is_empty() {
            return run;
        }
        Event::composed(self.beside.iter().cloned().chain([run]).collect())
    }
}
