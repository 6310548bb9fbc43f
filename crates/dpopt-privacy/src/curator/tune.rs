//! Repeat-and-select: the best of a secret number of private runs.

use crate::noise::Purpose;
use crate::refused::Refused;
use crate::selection::{Best, Repetitions, Tuning};
use crate::which::Account;

use super::reservation::Reservation;
use super::{Curator, Spend};

impl Curator {
    /// Makes a private run a random number of times and returns the best outcome.
    ///
    /// `run` makes **one** run: it gets a curator of its own, whose reservation is the tuning's
    /// event for one run and which makes no other, and returns a value and its score; both must
    /// be functions of releases of that curator and of public values, such as hyper-parameters
    /// that it draws at random. The larger score wins, the earlier run at a tie; a score that is
    /// not a number loses to all others. A run that fails should return that as its value, with a
    /// low score: nothing else may end the repetitions early.
    ///
    /// # Shapes
    /// Nothing where the number of runs was zero, which only a Poisson number can be.
    ///
    /// # Privacy
    /// One [`crate::Event::RepeatAndSelect`] (Papernot and Steinke 2022, Theorems 2 and 6), charged before
    /// the first run. The inner runs are not charged beside it. How many there were is secret:
    /// report the tuning's mean. An inner run states no guarantee. What `run` writes anywhere but into its result is outside the
    /// guarantee.
    ///
    /// # Errors
    /// [`Refused`]; nothing has been released or charged, and `run` not been called, then.
    pub fn repeat_and_select<T>(
        &mut self,
        tuning: &Tuning,
        run: impl Fn(&mut Curator) -> (T, f64),
    ) -> Result<Option<Best<T>>, Refused> {
        let event = tuning.event();
        self.check(&event, &Account::Whole)?;
        let spend = Spend::Fixed(tuning.run().clone());
        // The same terms for every run: if they can be reserved once, they always can.
        Reservation::new(&spend, self.adjacency)?;
        let repetitions = Repetitions::new(tuning);
        let mut stream = self.stream(Purpose::Noise)?;
        self.charge(&event, &Account::Whole)?;
        let mut best: Option<Best<T>> = None;
        for _ in 0..repetitions.draw(&mut stream) {
            let mut inner = Self::with_key(self.adjacency, self.mode, self.key.derive(&mut stream));
            inner.reserve(&spend)?;
            inner.inner = true;
            inner.replay.clone_from(&self.replay);
            let (value, score) = run(&mut inner);
            let score = if score.is_nan() {
                f64::NEG_INFINITY
            } else {
                score
            };
            if best.as_ref().is_none_or(|best| score > best.score) {
                best = Some(Best { value, score });
            }
        }
        Ok(best)
    }
}
