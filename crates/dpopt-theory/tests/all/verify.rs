//! The verification itself: what it must notice, and what its results may not depend on.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use dpopt_theory::verify::{
    Axis, CheckError, Claim, Design, Effort, Expect, Experiment, Measured, Registry, Report,
    Status, Trial, Verification, VerifyError,
};

/// An error that goes as a power of x, with noise from the seed.
struct Power {
    claim: Claim,
    slope: f64,
    bound: Option<f64>,
    fails: fn(u64) -> bool,
    memory: f64,
    points: Vec<f64>,
}

fn power(id: &str, predicted: f64, slope: f64) -> Power {
    Power {
        claim: Claim::new(id, Axis::Records, predicted),
        slope,
        bound: None,
        fails: |_| false,
        memory: 0.0,
        points: vec![1e2, 1e3, 1e4, 1e5],
    }
}

impl Experiment for Power {
    fn claim(&self) -> &Claim {
        &self.claim
    }

    fn design(&self, _: Effort) -> Design {
        Design::new(self.points.clone())
            .with_members(3)
            .with_seeds(4)
    }

    fn trial(&self, trial: &Trial) -> Result<Measured, CheckError> {
        if (self.fails)(trial.seed) {
            return Err("no luck".into());
        }
        let luck = 1.0 + 0.02 * ((trial.seed >> 40) as f64 / (1u64 << 24) as f64 - 0.5);
        let hard = [1.0, 3.0, 2.0][trial.member];
        let power = trial.x.powf(self.slope);
        let measured = Measured::new(hard * power * luck);
        Ok(match self.bound {
            Some(bound) => measured.with_bound(bound * power),
            None => measured,
        })
    }

    fn memory(&self, x: f64) -> f64 {
        self.memory * x
    }
}

fn one(experiment: Power) -> Registry {
    Registry::new().with(experiment).unwrap()
}

fn verdict(experiment: Power) -> (Status, String) {
    let registry = one(experiment);
    let report = Verification::new(&registry).run().unwrap();
    let row = &report.rows[0];
    (row.status, row.why.join("; "))
}

/// A file of this test alone.
fn scratch(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let file = folder.join(format!("verify-{name}-{}.jsonl", std::process::id()));
    let _ = std::fs::remove_file(&file);
    file
}

#[test]
fn a_true_claim_passes_with_the_worst_problem_on_record() {
    let registry = one(power("true", -0.5, -0.5));
    let report = Verification::new(&registry).run().unwrap();
    let row = &report.rows[0];
    assert!(report.passed(), "{:?}", row.why);
    assert!((row.measured + 0.5).abs() < 0.01 && (row.decades - 3.0).abs() < 1e-9);
    assert!(row.ci[0] <= row.measured && row.measured <= row.ci[1]);
    assert_eq!((row.trials, row.points, row.bound_respected), (48, 4, None));
    // The hardest problem has three times the error of the easiest.
    assert!((row.data[0].error / (3.0 * 100f64.powf(-0.5)) - 1.0).abs() < 0.02);
}

#[test]
fn a_wrong_exponent_fails_in_both_directions_unless_an_upper_bound_is_claimed() {
    assert_eq!(verdict(power("slow", -0.5, -0.4)).0, Status::Fail);
    assert_eq!(verdict(power("fast", -0.5, -0.6)).0, Status::Fail);
    for (slope, status) in [(-0.6, Status::Pass), (-0.4, Status::Fail)] {
        let mut at_most = power("at-most", -0.5, slope);
        at_most.claim = at_most.claim.expecting(Expect::AtMost);
        assert_eq!(verdict(at_most).0, status);
    }
}

#[test]
fn a_broken_bound_fails_although_the_exponent_is_right() {
    for (bound, status) in [(3.1, Status::Pass), (2.9, Status::Fail)] {
        let mut bounded = power("bound", -0.5, -0.5);
        bounded.bound = Some(bound);
        let (found, why) = verdict(bounded);
        assert_eq!(found, status, "{why}");
        assert_eq!(why.contains("times the bound"), status == Status::Fail);
    }
    let mut easy = power("easy", -0.5, -0.5);
    (easy.bound, easy.claim) = (Some(30.0), easy.claim.tight(0.6));
    let (status, why) = verdict(easy);
    assert!(status == Status::Fail && why.contains("too easy"), "{why}");
}

#[test]
fn an_interval_that_decides_nothing_fails() {
    let mut wide = power("wide", -0.5, -0.5);
    wide.claim = wide.claim.within(0.05, 1e-4, "");
    let (status, why) = verdict(wide);
    assert!(
        status == Status::Fail && why.contains("decides nothing"),
        "{why}"
    );
}

#[test]
fn a_control_passes_when_it_is_caught_and_fails_when_not() {
    for (slope, status) in [(-0.3, Status::Pass), (-0.5, Status::Fail)] {
        let mut twin = power("twin", -0.5, slope);
        twin.claim = twin.claim.control("broken");
        let (found, why) = verdict(twin);
        assert_eq!(found, status, "{why}");
        assert!(!why.is_empty());
    }
    // A twin that can't even run was not caught by measuring.
    let mut dead = power("dead", -0.5, -0.3);
    dead.claim = dead.claim.control("broken");
    dead.fails = |_| true;
    assert_eq!(verdict(dead).0, Status::Fail);
}

#[test]
fn a_solver_that_fails_on_half_its_seeds_is_reported_and_not_dropped() {
    let mut shaky = power("shaky", -0.5, -0.5);
    shaky.fails = |seed| seed % 2 == 0;
    let registry = one(shaky);
    let report = Verification::new(&registry).run().unwrap();
    let row = &report.rows[0];
    assert!(row.failed > 10 && row.failed < 38, "{}", row.failed);
    assert_eq!(row.status, Status::Fail);
    assert!(row.why[0].contains("no luck"), "{:?}", row.why);
    let failed: usize = row.data.iter().map(|p| p.failed).sum();
    assert_eq!(failed, row.failed);
}

/// Panics and numbers that are none are failures of a trial too.
struct Wild(Claim, f64);

impl Experiment for Wild {
    fn claim(&self) -> &Claim {
        &self.0
    }

    fn design(&self, _: Effort) -> Design {
        Design::new(vec![1.0, 2.0, 3.0])
    }

    fn trial(&self, trial: &Trial) -> Result<Measured, CheckError> {
        assert!(trial.x < 3.0, "beyond");
        Ok(Measured::new(self.1))
    }
}

#[test]
fn panics_and_nan_are_failures_and_zero_has_no_slope() {
    for (value, failed) in [
        (f64::NAN, 3),
        (-1.0, 3),
        (f64::INFINITY, 3),
        (1.0, 1),
        (0.0, 1),
    ] {
        let wild = Wild(Claim::new("wild", Axis::Mu, 0.0), value);
        let registry = Registry::new().with(wild).unwrap();
        let report = Verification::new(&registry).run().unwrap();
        assert_eq!(
            (report.rows[0].failed, report.rows[0].status),
            (failed, Status::Fail)
        );
        // None of it keeps the page or the rows from being written.
        assert!(report.page().contains("wild") && report.table().contains("FAIL"));
        assert!(serde_json::to_string(&report).is_ok());
    }
}

#[test]
fn the_report_depends_on_the_seed_and_not_on_threads() {
    let registry = one(power("same", -0.5, -0.5));
    let run = |threads, seed| {
        Verification::new(&registry)
            .with_threads(NonZeroUsize::new(threads).unwrap())
            .with_seed(seed)
            .run()
            .unwrap()
    };
    assert_eq!(run(1, 7), run(4, 7));
    assert_ne!(run(1, 7).rows[0].measured, run(1, 8).rows[0].measured);
}

#[test]
fn an_interrupted_run_goes_on_where_it_was() {
    let file = scratch("resume");
    let registry = one(power("resumed", -0.5, -0.5));
    let run = || -> Report {
        Verification::new(&registry)
            .with_journal(&file)
            .run()
            .unwrap()
    };
    let whole = run();
    let text = std::fs::read_to_string(&file).unwrap();
    assert_eq!(text.lines().count(), 1 + 48);
    // A crash in the middle of a line.
    let cut = text.len() / 2;
    std::fs::write(&file, &text[..cut]).unwrap();
    assert_eq!(run(), whole);
    // Nothing is left to run: the journal has the header and each trial once.
    let again = std::fs::read_to_string(&file).unwrap();
    assert_eq!(again.lines().count(), 1 + 48);
    assert_eq!(run(), whole);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), again);

    let other = Verification::new(&registry)
        .with_journal(&file)
        .with_seed(1)
        .run();
    assert!(
        matches!(other, Err(VerifyError::OtherJournal { .. })),
        "{other:?}"
    );
    let mut lines: Vec<&str> = again.lines().collect();
    lines[3] = "{}";
    std::fs::write(&file, lines.join("\n") + "\n").unwrap();
    let bad = Verification::new(&registry).with_journal(&file).run();
    assert!(
        matches!(bad, Err(VerifyError::BadJournal { line: 4, .. })),
        "{bad:?}"
    );
    let _ = std::fs::remove_file(&file);
}

#[test]
fn what_can_not_be_decided_is_an_error() {
    let mut short = power("short", -0.5, -0.5);
    short.points.truncate(2);
    let error = |experiment| Verification::new(&one(experiment)).run().unwrap_err();
    assert!(matches!(
        error(short),
        VerifyError::NoData { points: 2, .. }
    ));
    for points in [
        vec![1.0, 1.0, 2.0],
        vec![0.0, 1.0, 2.0],
        vec![1.0, f64::NAN, 2.0],
    ] {
        let mut bad = power("bad", -0.5, -0.5);
        bad.points = points;
        assert!(matches!(error(bad), VerifyError::BadPoint { .. }));
    }
    let mut large = power("large", -0.5, -0.5);
    large.memory = 1e6;
    assert!(matches!(error(large), VerifyError::TooLarge { x: 1e4, .. }));
    let registry = one(power("a/n", -0.5, -0.5));
    match Verification::new(&registry).only("b").run() {
        Err(VerifyError::Unknown { only, known }) => {
            assert_eq!((only.as_str(), known), ("b", vec!["a/n".to_owned()]));
        }
        other => panic!("{other:?}"),
    }
    assert!(Verification::new(&registry).only("a").run().is_ok());
    assert!(matches!(
        Verification::new(&Registry::new()).run(),
        Err(VerifyError::Nothing)
    ));
    let twice = Registry::new()
        .with(power("x", 0.0, 0.0))
        .and_then(|r| r.with(power("x", 0.0, 0.0)));
    assert!(matches!(twice, Err(VerifyError::Twice(_))));
    assert!(matches!(
        Registry::new().with(power("a b", 0.0, 0.0)),
        Err(VerifyError::BadId(_))
    ));
}

/// The hull interval covers the truth: at 5 % error of each trial, in at least 90 % of 200
/// repetitions. At a true coverage of 95 % fewer than 180 happen with probability 0.002.
#[test]
fn the_interval_covers() {
    struct Noisy(Claim);
    impl Experiment for Noisy {
        fn claim(&self) -> &Claim {
            &self.0
        }
        fn design(&self, _: Effort) -> Design {
            Design::new(vec![1e2, 1e3, 1e4, 1e5, 1e6]).with_seeds(4)
        }
        fn trial(&self, trial: &Trial) -> Result<Measured, CheckError> {
            // A sum of twelve uniform numbers from the seed, nearly normal.
            let mut z = -6.0;
            let mut word = trial.seed;
            for _ in 0..12 {
                word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                z += (word >> 11) as f64 / (1u64 << 53) as f64;
            }
            Ok(Measured::new(trial.x.powf(-0.5) * (0.05 * z).exp()))
        }
    }
    let registry = Registry::new()
        .with(Noisy(Claim::new("noisy", Axis::Records, -0.5)))
        .unwrap();
    let covered = (0..200)
        .filter(|&seed| {
            let report = Verification::new(&registry).with_seed(seed).run().unwrap();
            let [low, high] = report.rows[0].ci;
            low <= -0.5 && -0.5 <= high
        })
        .count();
    assert!(covered >= 180, "{covered}");
}
