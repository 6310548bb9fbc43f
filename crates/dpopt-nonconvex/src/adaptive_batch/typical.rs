//! About the records of a typical run: errors in root mean square, one step of curvature. Rules of thumb throughout; the certificate's margins
//! are those of the theorem.

use dpopt_oracle::Batch;
use dpopt_privacy::PrefixKind;
use dpopt_solver::SecondOrderTargets;

use super::bounds::{fewest, hoeffding};
use super::gradient::{Curvature, Kept, Period, Problem};
use super::schedule::AdaptiveBatchSchedule;

/// theta/gamma. Tuned on ramps: with fewer the walk stops at long gradients, with more it reads more records.
const RATIO: f64 = 2.5;
/// L1 F0 is spent by a path so many times as long as theta asks for: 1 on a ramp without curvature, 2 in the worst case. A choice.
const PATH: f64 = 1.5;
/// h/lambda, and the share of h^2/(2 rho) that a deviation of the sign may cost. Choices.
const LEFT: f64 = 0.5;
const SIGN: f64 = 0.5;
/// Of what an episode costs in the worst case, what its records pay for. A choice: 0.42 of it was the most that a spectrum took.
const CAP: f64 = 0.5;
/// Of alpha, to try: how long a gradient at a candidate is.
const REACHED: [f64; 7] = [0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9];
/// kappa/L0 to try.
const DRIFTS: [f64; 6] = [0.5, 0.7, 1.0, 1.4, 2.0, 4.0];

/// The schedule of the fewest records, with their number.
pub(super) fn fewest_records(
    of: &Problem<'_>,
    targets: SecondOrderTargets,
    periods: &Period,
) -> Option<(f64, AdaptiveBatchSchedule)> {
    let candidates = of.most_candidates(targets);
    let certificate = (4.0 * candidates / of.failure).ln();
    let curvature = curvature(of, targets, certificate)?;
    let facts = of.facts;
    let (lipschitz, smoothness) = (facts.lipschitz, facts.smoothness);
    let mut best: Option<(f64, AdaptiveBatchSchedule)> = None;
    for reached in REACHED {
        let reached = reached * targets.gradient;
        let gamma = reached / RATIO.hypot(1.0);
        let theta = RATIO * gamma;
        let room = targets.gradient - 2.0 * of.rounding();
        // Sampling makes a mean longer, too.
        let norm_batch = fewest(room, |m| {
            let noise = of.noise(lipschitz, m);
            hoeffding(certificate, lipschitz, m, noise)
                + reached.hypot(lipschitz / m.sqrt())
                + noise
        });
        let Some(norm_batch) = norm_batch else {
            continue;
        };
        for drift in DRIFTS {
            let drift = drift * lipschitz;
            let period = 2.0 + (drift / theta).floor();
            let anchor = fewest(gamma * gamma, |m| {
                let share = lipschitz / m;
                let noise = of.noise(share, 1.0) * periods.worst(period);
                (lipschitz + drift) * share + facts.dim as f64 * noise * noise
            });
            let Some(anchor) = anchor else {
                continue;
            };
            let path =
                PATH * smoothness * facts.initial_gap / (theta * (1.0 - 2.0 / (RATIO * RATIO)));
            let anchors = 1.0 + lipschitz / drift;
            let records = anchor
                + path * (anchors * anchor / lipschitz + 1.0 / theta)
                + (curvature.batch + curvature.sign_batch + anchors * anchor)
                + curvature.batch
                + norm_batch;
            if best.as_ref().is_some_and(|old| old.0 <= records) {
                continue;
            }
            let schedule = AdaptiveBatchSchedule {
                targets,
                step_size: 1.0 / smoothness,
                anchor_batch: anchor as u64,
                variation: Batch::PerLength(smoothness * anchor / lipschitz),
                noise: PrefixKind::Toeplitz,
                period: period as u64,
                drift: drift / smoothness,
                noise_multiplier: 1.0 / of.mu,
                candidate: theta,
                error: gamma,
                hessian_batch: curvature.batch as u64,
                norm_batch: norm_batch as u64,
                sign_batch: curvature.sign_batch as u64,
                certificate_log: certificate,
                operator: curvature.operator,
                sign_error: curvature.sign_error,
                episode: curvature.episode,
                most_candidates: candidates as u64,
                steps: (path / theta).ceil() as u64 + 1,
                records: records.ceil() as u64,
            };
            best = Some((records, schedule));
        }
    }
    best
}

/// What margins take of a curvature that a Hessian of `m` records tells.
fn margin(of: &Problem<'_>, certificate: f64, m: f64) -> (f64, f64) {
    let (bend, dim) = (of.bend(), of.facts.dim as f64);
    let noise = of.noise(of.hessian.frobenius, m);
    let sampled = bend * (2.0 * (2.0 * dim).ln() / m).sqrt();
    (
        hoeffding(certificate, bend, m, noise),
        (2.0 * dim).sqrt() * noise + sampled,
    )
}

/// The same of sampling alone; half of a certificate's failures is that of an episode.
fn sampled(of: &Problem<'_>, certificate: f64, m: f64) -> (f64, f64) {
    let (bend, dim) = (of.bend(), of.facts.dim as f64);
    (
        hoeffding(certificate + 2f64.ln(), bend, m, 0.0),
        bend * (2.0 * (2.0 * dim).ln() / m).sqrt(),
    )
}

fn kept(of: &Problem<'_>, certificate: f64) -> Kept {
    Kept {
        missed: 0.5 * (-certificate).exp(),
        false_exit: of.failure,
        share: CAP,
    }
}

/// The least lambda that a Hessian of `m` records tells, or an episode on them.
pub(super) fn told(of: &Problem<'_>, candidates: f64, m: f64) -> f64 {
    let log = (4.0 * candidates / of.failure).ln();
    let (certificate, rest) = margin(of, log, m);
    let by_hessian = (certificate + rest) / (1.0 - LEFT);
    let by_episode = || of.told_by_episodes(&kept(of, log), &|m| sampled(of, log, m), m);
    match (of.by_hessians(), of.by_episodes()) {
        (true, false) => by_hessian,
        (true, true) => by_hessian.min(by_episode()),
        _ => by_episode(),
    }
}

fn curvature(of: &Problem<'_>, targets: SecondOrderTargets, certificate: f64) -> Option<Curvature> {
    let lipschitz = of.facts.lipschitz;
    let margin = |m: f64| margin(of, certificate, m);
    let sign = |m: f64| (lipschitz / m.sqrt()).hypot(of.noise(lipschitz, m));
    let whole = of
        .by_hessians()
        .then(|| of.curvature(targets, (LEFT, SIGN), margin, sign));
    let kept = kept(of, certificate);
    let sampled = |m: f64| sampled(of, certificate, m);
    let episode = || {
        let told = of.episode(targets, LEFT, (&kept, &sampled))?;
        of.curvature_by_episode(targets, (LEFT, SIGN), (told, &sampled), sign)
    };
    let episode = of.by_episodes().then(episode);
    Curvature::smaller(whole.flatten(), episode.flatten())
}
