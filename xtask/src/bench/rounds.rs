//! Times of rounds, and what they say.

/// Fewer rounds say nothing.
const LEAST: usize = 5;

/// What is known of a contestant beside another, round by round.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Beside {
    pub(crate) ratio: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// Whether the range says that one is faster.
    pub(crate) claim: bool,
}

/// The middle of some numbers.
pub(crate) fn median(numbers: &[f64]) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Theirs over ours of the same rounds: the median, and the range of all but the lowest and the highest tenth. What slows the machine down slows
/// both. A round in which ours took nothing says nothing.
pub(crate) fn beside(theirs: &[f64], ours: &[f64]) -> Option<Beside> {
    let pairs = theirs.iter().zip(ours).filter(|(_, ours)| **ours > 0.0);
    let mut ratios: Vec<f64> = pairs.map(|(theirs, ours)| theirs / ours).collect();
    ratios.sort_by(f64::total_cmp);
    let cut = ratios.len() / 10;
    let (low, high) = (*ratios.get(cut)?, *ratios.get(ratios.len() - 1 - cut)?);
    Some(Beside {
        ratio: median(&ratios),
        low,
        high,
        claim: ratios.len() >= LEAST && !(low <= 1.0 && 1.0 <= high),
    })
}

#[cfg(test)]
mod tests {
    use super::{beside, median};

    #[test]
    fn a_range_around_one_and_too_few_rounds_claim_nothing() {
        let ours = vec![1.0; 20];
        let theirs: Vec<f64> = (0..20).map(|k| 1.5 + 0.01 * f64::from(k)).collect();
        let found = beside(&theirs, &ours).expect("rounds");
        assert!(found.claim && (found.low, found.high) == (1.52, 1.67));
        assert!((found.ratio - 1.6).abs() < 1e-12);
        assert!(!beside(&theirs[..4], &ours).expect("rounds").claim);
        // An outlier in a tenth of the rounds is cut off, in more it is not.
        let mut once = theirs.clone();
        once[3] = 0.1;
        assert!(beside(&once, &ours).expect("rounds").claim);
        for slow in &mut once[..4] {
            *slow = 0.1;
        }
        let crossed = beside(&once, &ours).expect("rounds");
        assert!(!crossed.claim && crossed.low < 1.0 && crossed.high > 1.0);
        assert_eq!(beside(&[], &ours), None);
        assert_eq!(beside(&[1.0], &[-1.0]), None);
        assert!(median(&[]).is_nan());
    }
}
