//! The quick rows of recursive regularisation: claims confirmed, twins caught, bounds kept.

use std::num::NonZeroUsize;

use dpopt_theory::verify::{Registry, Verification};

#[test]
fn recursive_regularisation_keeps_its_rates() {
    let registry = Registry::builtin();
    let report = Verification::new(&registry)
        .only("recursive-gd")
        .only("recursive-sgd")
        .with_threads(NonZeroUsize::new(2).unwrap())
        .run()
        .unwrap();
    for row in &report.rows {
        println!(
            "{:30} raw {:+.3} corrected {:+.3} [{:+.3}, {:+.3}] {:?} {:?} {:?}",
            row.claim.id,
            row.uncorrected,
            row.measured,
            row.ci[0],
            row.ci[1],
            row.status,
            row.why,
            row.data
                .iter()
                .map(|p| (p.x, p.error, p.bound, p.of_bound))
                .collect::<Vec<_>>()
        );
    }
    assert!(report.passed());
}
