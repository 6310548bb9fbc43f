//! What planners search with: trial values, and the longest that fits.

/// Beyond this no number of steps is of use.
pub const MOST_STEPS: f64 = 1e15;

/// low, low x ratio, low x ratio^2, ... as long as they are at most `high`.
pub fn geometric(low: f64, high: f64, ratio: f64) -> impl Iterator<Item = f64> {
    std::iter::successors(Some(low), move |trial| Some(trial * ratio))
        .take_while(move |trial| *trial <= high)
}

/// The whole parts of [`geometric`], each once.
pub fn whole(low: f64, high: f64, ratio: f64) -> impl Iterator<Item = u64> {
    let mut previous = None;
    geometric(low, high, ratio)
        .map(|trial| trial as u64)
        .filter(move |trial| previous.replace(*trial) != Some(*trial))
}

/// 1, and then growing by `ratio` or by 1, whichever is more, up to `most`, which is the last.
pub fn steps_up_to(most: u64, ratio: f64) -> impl Iterator<Item = u64> {
    let most = most.clamp(1, MOST_STEPS as u64);
    std::iter::successors(Some(1), move |&steps| {
        let next = ((steps as f64 * ratio) as u64).max(steps + 1);
        (steps < most).then_some(next.min(most))
    })
}

/// The largest number in 1..=most that fits, where 1 does and a number fits if a larger one does.
pub fn longest_that_fits(most: u64, fits: impl Fn(u64) -> bool) -> u64 {
    if fits(most) {
        return most;
    }
    bisect(1, most, fits)
}

/// A number in low..high that fits and whose successor does not, given that `low` fits and `high` does not. Neither is asked.
pub fn bisect(mut low: u64, mut high: u64, fits: impl Fn(u64) -> bool) -> u64 {
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if fits(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// From a trial of size `largest` that is affordable down to the least, to within 1 %, where it costs `share` of what there is and costs
/// grow about as the size to the power -`power`: a secant that is drawn back where it went too far.
pub fn least_affordable<T>(
    largest: (f64, f64, T),
    power: f64,
    mut attempt: impl FnMut(f64) -> Option<(f64, T)>,
) -> T {
    let (mut size, mut share, mut best) = largest;
    let mut too_small = 0.0f64;
    for _ in 0..24 {
        let next = (size * share.powf(1.0 / power)).max((too_small * size).sqrt());
        if !(next < 0.99 * size) {
            break;
        }
        match attempt(next) {
            Some((cost, found)) if cost <= 1.0 => (size, share, best) = (next, cost, found),
            _ => too_small = next,
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trials_grow_and_end_where_they_are_told() {
        let trials: Vec<u64> = whole(1.0, 10.0, 1.3).collect();
        assert_eq!(trials, [1, 2, 3, 4, 6, 8]);
        let trials: Vec<u64> = steps_up_to(10, 1.3).collect();
        assert_eq!(trials, [1, 2, 3, 4, 5, 6, 7, 9, 10]);
        assert_eq!(whole(3.0, 2.0, 1.3).count(), 0);
        assert_eq!(steps_up_to(0, 1.3).collect::<Vec<_>>(), [1]);
    }

    /// Costs of size^-3 up to wiggles, and none below a size.
    #[test]
    fn the_least_affordable_is_found() {
        for (least, none_below) in [(0.3, 0.0), (1e-3, 0.0), (0.1, 0.4)] {
            let attempt = |size: f64| {
                let cost = (least / size).powi(3) * (1.0 + 0.1 * (7.0 * size.ln()).sin().abs());
                (size >= none_below).then_some((cost, size))
            };
            let (share, _) = attempt(0.9).unwrap();
            let found = least_affordable((0.9, share, 0.9), 3.0, attempt);
            let low = f64::max(least, none_below);
            assert!(found >= low && found < 1.06 * low, "{least} {found}");
        }
    }

    #[test]
    fn the_longest_is_found() {
        for most in 1..40 {
            for limit in 1..50 {
                let found = longest_that_fits(most, |n| n <= limit);
                assert_eq!(found, most.min(limit));
                if limit < most {
                    assert_eq!(bisect(0, most, |n| n <= limit), limit);
                }
            }
        }
    }
}
