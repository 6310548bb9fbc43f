//! The numbers of steps that a planner tries.

/// 1, and then growing by `ratio` or by 1, whichever is more, up to `most`, which is the last.
pub(crate) fn trial_steps(ratio: f64, most: u64) -> impl Iterator<Item = u64> {
    // Beyond this no plan is of use.
    let most = most.clamp(1, 1_000_000_000_000_000);
    std::iter::successors(Some(1), move |&steps| {
        let next = ((steps as f64 * ratio) as u64).max(steps + 1);
        (steps < most).then_some(next.min(most))
    })
}
