//! What the tests of both halves of the zoo ask of a probe.

use dpopt_theory::{Audited, Finding, ProbeReport};

/// No constant is refuted, and each of these is attained to its share.
pub(crate) fn audit(name: &str, report: &ProbeReport, least: &[(Audited, f64)]) {
    let refuted: Vec<&Finding> = report.refuted().collect();
    assert!(refuted.is_empty(), "{name}: {refuted:?}");
    for &(audited, share) in least {
        let attained = report.about(audited).map(Finding::attained);
        assert!(attained >= Some(share), "{name}: {audited:?} {attained:?}");
    }
}
