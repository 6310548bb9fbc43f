//! The claims of this library.

use super::claim::Experiment;
use super::registry::Registry;
use super::{
    adaptive, adaptive_batch, curvature, descent, floors, goldstein, goldstein_periods, kl_spider,
    minimax, projection, proximal, recursive, saddle_blocks, saddle_fresh, saddle_pass, sampled,
    sosp, tree,
};

/// Rows that no run has confirmed; all whose names start so, where one ends with a slash.
const UNCONFIRMED: [&str; 2] = ["spiderboost-second-term/", "spiderboost-within-rank/rank"];

fn is_unconfirmed(experiment: &dyn Experiment) -> bool {
    let id = &experiment.claim().id;
    UNCONFIRMED
        .iter()
        .any(|row| id == row || (row.ends_with('/') && id.starts_with(row)))
}

impl Registry {
    /// The claims of this library.
    #[must_use]
    pub fn builtin() -> Self {
        let mut experiments = descent::experiments();
        experiments.extend(recursive::experiments());
        experiments.extend(tree::experiments());
        experiments.extend(sampled::experiments());
        experiments.extend(adaptive::experiments());
        experiments.extend(descent::variants());
        experiments.extend(proximal::experiments());
        experiments.extend(floors::experiments());
        experiments.extend(projection::experiments());
        experiments.extend(kl_spider::experiments());
        experiments.extend(goldstein::experiments());
        experiments.extend(goldstein_periods::experiments());
        experiments.extend(sosp::experiments());
        experiments.extend(adaptive_batch::experiments());
        experiments.extend(curvature::experiments());
        experiments.extend(minimax::experiments());
        experiments.extend(saddle_blocks::experiments());
        experiments.extend(saddle_fresh::experiments());
        experiments.extend(saddle_pass::experiments());
        experiments.retain(|e| !is_unconfirmed(e.as_ref()));
        Self::from(experiments)
    }

    /// Rows that are designed, and that no run has confirmed. `docs/measured/README.md` says what is known of them.
    #[must_use]
    pub fn unconfirmed() -> Self {
        let mut experiments = floors::experiments();
        experiments.extend(projection::experiments());
        experiments.retain(|e| is_unconfirmed(e.as_ref()));
        Self::from(experiments)
    }
}

#[cfg(test)]
mod tests {
    use super::Registry;

    #[test]
    fn a_brief_registry_has_every_group_and_a_twin_where_there_is_one() {
        let all = Registry::builtin();
        let brief = Registry::builtin().brief();
        assert_eq!(all.groups(), brief.groups());
        for group in all.groups() {
            for control in [false, true] {
                let count = |registry: &Registry| {
                    let chosen = registry.select(&group);
                    let same = chosen.iter().filter(|e| e.claim().control == control);
                    same.count()
                };
                assert_eq!(count(&brief), count(&all).min(1), "{group}");
            }
        }
    }
}
