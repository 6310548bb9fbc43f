//! An estimator with the records that it asks.

use dpopt_oracle::{
    AskError, Books, Fresh, Oracle, PrefixRecursive, Recursive, Tracked, TreeRounds,
};

/// What estimators with a rule have in common.
pub(crate) trait Follow {
    fn follow(&mut self, oracle: &mut dyn Oracle, point: &[f64]) -> Result<Tracked<'_>, AskError>;
    fn begin(&mut self);
}

macro_rules! follows {
    ($($name:ty),+) => {$(
        impl Follow for $name {
            fn follow(
                &mut self,
                oracle: &mut dyn Oracle,
                point: &[f64],
            ) -> Result<Tracked<'_>, AskError> {
                self.estimate(oracle, point)
            }

            fn begin(&mut self) {
                self.begin_phase();
            }
        }
    )+};
}
follows!(Fresh, Recursive, PrefixRecursive, TreeRounds);

/// The pair.
pub(crate) struct On<O, T> {
    pub(crate) oracle: O,
    pub(crate) tracker: T,
}

impl<O: Oracle, T: Follow> On<O, T> {
    pub(crate) fn estimate(&mut self, point: &[f64]) -> Result<Tracked<'_>, AskError> {
        self.tracker.follow(&mut self.oracle, point)
    }

    pub(crate) fn begin_phase(&mut self) {
        self.tracker.begin();
    }

    pub(crate) fn books(&mut self) -> &mut Books {
        self.oracle.books()
    }
}
