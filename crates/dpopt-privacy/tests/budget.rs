//! A shared budget: what it refuses, what it refunds, and what a crash leaves.

use std::io::Write;
use std::path::{Path, PathBuf};

use dpopt_privacy::{
    Adjacency, Bound, BudgetError, BudgetFile, ClipNorm, Curator, Delta, Epsilon, Event,
    FilterKind, LatticeSum, NoiseMultiplier, Refused, SamplingRate, Spend, Touched,
};

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("budget.jsonl")
    }
}

fn open(path: &Path, epsilon: f64, filter: FilterKind) -> Result<BudgetFile, BudgetError> {
    BudgetFile::open_or_create(
        path,
        Epsilon::new(epsilon).unwrap(),
        Delta::new(1e-6).unwrap(),
        Adjacency::ReplaceOne,
        filter,
    )
}

fn curator(path: &Path, epsilon: f64, filter: FilterKind) -> Curator {
    Curator::protected(Adjacency::ReplaceOne)
        .unwrap()
        .with_budget(open(path, epsilon, filter).unwrap())
        .unwrap()
}

/// T releases at multiplier z cost T/z^2 in squared mu; mu(1, 1e-6) = 0.23670 (published value).
fn gaussians(z: f64, count: u64) -> Spend {
    Spend::Fixed(Event::gaussian(NoiseMultiplier::new(z).unwrap()).repeated(count))
}

#[test]
fn a_budget_that_does_not_exist_says_what_it_could_pay() {
    let could_pay = |z: f64, filter| {
        let spend = gaussians(z, 100);
        BudgetFile::could_pay(
            Epsilon::new(1.0).unwrap(),
            Delta::new(1e-6).unwrap(),
            Adjacency::ReplaceOne,
            filter,
            spend.event(),
        )
    };
    let z = 10.0 / 0.2367;
    could_pay(z * 1.0001, FilterKind::Gdp).unwrap();
    assert!(matches!(
        could_pay(z * 0.999, FilterKind::Gdp),
        Err(BudgetError::Exhausted { .. })
    ));
    // The looser measure needs more noise.
    assert!(could_pay(z * 1.0001, FilterKind::Rdp).is_err());
    let folder = Folder::new();
    let file = open(&folder.file(), 1.0, FilterKind::Gdp).unwrap();
    let left = file.epsilon_left(&file.state().unwrap());
    assert!((left - 1.0).abs() < 1e-6, "{left}");
    assert_eq!((file.epsilon().get(), file.delta().get()), (1.0, 1e-6));
    assert_eq!(
        (file.adjacency(), file.filter()),
        (Adjacency::ReplaceOne, FilterKind::Gdp)
    );
}

#[test]
fn a_plan_of_the_same_epsilon_fits_once() {
    let folder = Folder::new();
    let z = 10.0 / 0.2367 * 1.0001;
    let mut first = curator(&folder.file(), 1.0, FilterKind::Gdp);
    first.reserve(&gaussians(z, 100)).unwrap();
    let mut second = curator(&folder.file(), 1.0, FilterKind::Gdp);
    match second.reserve(&gaussians(z, 100)) {
        Err(Refused::Budget(BudgetError::Exhausted {
            cost,
            left,
            capacity,
            ..
        })) => {
            assert!(left < 1e-3 * capacity && cost > left);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn half_and_half_fits_and_the_third_does_not() {
    let folder = Folder::new();
    let z = 0.5f64.sqrt().recip() * 10.0 / 0.2367 * 1.0001;
    for _ in 0..2 {
        curator(&folder.file(), 1.0, FilterKind::Gdp)
            .reserve(&gaussians(z, 100))
            .unwrap();
    }
    assert!(
        curator(&folder.file(), 1.0, FilterKind::Gdp)
            .reserve(&gaussians(z, 1))
            .is_err()
    );
}

#[test]
fn a_settled_run_pays_for_what_it_released() {
    let folder = Folder::new();
    let z = 10.0 / 0.2367 * 1.0001;
    let mut run = curator(&folder.file(), 1.0, FilterKind::Gdp);
    run.reserve(&gaussians(z, 100)).unwrap();
    let bound = Bound::new(ClipNorm::new(1.0).unwrap(), 1).unwrap();
    let secret = LatticeSum::new(bound).finish(Adjacency::ReplaceOne, Touched::All);
    for _ in 0..25 {
        run.release(&secret, NoiseMultiplier::new(z).unwrap())
            .unwrap();
    }
    run.settle().unwrap();
    let state = open(&folder.file(), 1.0, FilterKind::Gdp)
        .unwrap()
        .state()
        .unwrap();
    assert!((state.used / state.capacity - 0.25).abs() < 1e-3);
    assert_eq!((state.runs, state.open), (1, 0));
    // Three quarters are left, so a run of 75 more fits and one of 76 does not.
    assert!(
        curator(&folder.file(), 1.0, FilterKind::Gdp)
            .reserve(&gaussians(z, 76))
            .is_err()
    );
    curator(&folder.file(), 1.0, FilterKind::Gdp)
        .reserve(&gaussians(z, 75))
        .unwrap();
}

#[test]
fn a_run_that_died_has_paid_in_full() {
    let folder = Folder::new();
    {
        let mut run = curator(&folder.file(), 1.0, FilterKind::Gdp);
        run.reserve(&gaussians(60.0, 100)).unwrap();
        // Dropped without settling, as a killed process leaves it.
    }
    let state = open(&folder.file(), 1.0, FilterKind::Gdp)
        .unwrap()
        .state()
        .unwrap();
    assert!((state.used - 100.0 / 3600.0).abs() < 1e-9);
    assert_eq!((state.runs, state.open), (1, 1));
}

#[test]
fn a_half_written_line_is_cut_off_and_the_rest_counts() {
    let folder = Folder::new();
    let mut run = curator(&folder.file(), 1.0, FilterKind::Gdp);
    run.reserve(&gaussians(60.0, 100)).unwrap();
    let whole = std::fs::read(folder.file()).unwrap();
    let last = whole[..whole.len() - 1]
        .iter()
        .rposition(|&b| b == b'\n')
        .unwrap()
        + 1;
    let line = whole[last..].to_vec();
    for cut in 1..line.len() {
        let mut torn = whole.clone();
        torn.extend_from_slice(&line[..cut]);
        std::fs::write(folder.file(), &torn).unwrap();
        let budget = open(&folder.file(), 1.0, FilterKind::Gdp).unwrap();
        assert_eq!(budget.state().unwrap().runs, 1, "cut at {cut}");
    }
    // The next reservation starts on a line of its own.
    let mut next = curator(&folder.file(), 1.0, FilterKind::Gdp);
    next.reserve(&gaussians(60.0, 50)).unwrap();
    next.settle().unwrap();
    let state = open(&folder.file(), 1.0, FilterKind::Gdp)
        .unwrap()
        .state()
        .unwrap();
    assert_eq!((state.runs, state.open), (2, 1));
}

#[test]
fn damage_in_the_middle_is_refused() {
    let folder = Folder::new();
    for _ in 0..2 {
        curator(&folder.file(), 1.0, FilterKind::Gdp)
            .reserve(&gaussians(100.0, 1))
            .unwrap();
    }
    let text = std::fs::read_to_string(folder.file()).unwrap();
    for (from, to) in [
        ("{\"reserve\":{\"id\":0", "{\"reserve\":{\"id\":7"),
        ("{\"reserve\":{\"id\":0", "{\"reverse\":{\"id\":0"),
        ("\"cost\":", "\"cost\":-"),
        ("\"capacity\":0", "\"capacity\":9"),
        ("dpopt-budget-1", "dpopt-budget-9"),
    ] {
        assert!(text.contains(from), "{from} in {text}");
        std::fs::write(folder.file(), text.replacen(from, to, 1)).unwrap();
        assert!(
            matches!(
                open(&folder.file(), 1.0, FilterKind::Gdp).map(|_| ()),
                Err(BudgetError::Corrupt { .. })
            ),
            "{from} -> {to}"
        );
    }
    let mut file = std::fs::File::create(folder.file()).unwrap();
    file.write_all(b"").unwrap();
    assert!(matches!(
        open(&folder.file(), 1.0, FilterKind::Gdp).map(|_| ()),
        Err(BudgetError::Corrupt { line: 1, .. })
    ));
}

#[test]
fn a_settlement_can_not_raise_or_repeat() {
    let folder = Folder::new();
    curator(&folder.file(), 1.0, FilterKind::Gdp)
        .reserve(&gaussians(60.0, 100))
        .unwrap();
    let text = std::fs::read_to_string(folder.file()).unwrap();
    let settle = |cost: f64| {
        format!(
            "{{\"settle\":{{\"id\":0,\"cost\":{cost},\"event\":{{\"class_name\":\"NoOpDpEvent\"}}}}}}\n"
        )
    };
    for extra in [settle(0.5), settle(0.0) + &settle(0.0)] {
        std::fs::write(folder.file(), format!("{text}{extra}")).unwrap();
        assert!(matches!(
            open(&folder.file(), 1.0, FilterKind::Gdp).map(|_| ()),
            Err(BudgetError::Corrupt { .. })
        ));
    }
}

#[test]
fn terms_are_fixed_at_creation() {
    let folder = Folder::new();
    open(&folder.file(), 1.0, FilterKind::Gdp).unwrap();
    assert!(matches!(
        open(&folder.file(), 2.0, FilterKind::Gdp).map(|_| ()),
        Err(BudgetError::OtherTerms { .. })
    ));
    assert!(matches!(
        open(&folder.file(), 1.0, FilterKind::Rdp).map(|_| ()),
        Err(BudgetError::OtherTerms { .. })
    ));
    let other = Curator::protected(Adjacency::AddRemove)
        .unwrap()
        .with_budget(open(&folder.file(), 1.0, FilterKind::Gdp).unwrap());
    assert!(matches!(
        other.err(),
        Some(BudgetError::AdjacencyMismatch { .. })
    ));
}

#[test]
fn sampled_runs_need_the_renyi_filter() {
    let folder = Folder::new();
    let event = Event::gaussian(NoiseMultiplier::new(2.0).unwrap())
        .poisson_sampled(SamplingRate::new(0.001).unwrap());
    let spend = Spend::Fixed(event.repeated(10));
    for filter in [FilterKind::Gdp, FilterKind::Zcdp] {
        let path = folder.0.path().join(format!("{filter:?}"));
        assert!(matches!(
            curator(&path, 1.0, filter).reserve(&spend),
            Err(Refused::Budget(BudgetError::Accounting(_)))
        ));
    }
    let path = folder.0.path().join("rdp");
    curator(&path, 1.0, FilterKind::Rdp)
        .reserve(&spend)
        .unwrap();
}

#[test]
fn what_a_filter_admits_is_within_its_epsilon() {
    // Whatever is admitted in full must have an exact epsilon of at most the budget.
    for filter in [FilterKind::Gdp, FilterKind::Zcdp, FilterKind::Rdp] {
        for epsilon in [0.3, 1.0, 4.0] {
            let folder = Folder::new();
            let mut z = 1.0;
            let admitted = loop {
                let spend = gaussians(z, 10);
                let path = folder.0.path().join(format!("{z}"));
                if curator(&path, epsilon, filter).reserve(&spend).is_ok() {
                    break spend;
                }
                z *= 1.01;
            };
            let exact = dpopt_privacy::Accountant::Gdp
                .epsilon(
                    admitted.event(),
                    Delta::new(1e-6).unwrap(),
                    Adjacency::ReplaceOne,
                )
                .unwrap();
            assert!(exact <= epsilon, "{filter:?} {epsilon}: {exact}");
            assert!(exact > 0.6 * epsilon, "{filter:?} {epsilon}: {exact}");
        }
    }
}

#[test]
fn a_simulation_can_not_be_charged() {
    // Its noise is public, so the budget would promise what does not hold.
    let folder = Folder::new();
    let budget = open(&folder.file(), 1.0, FilterKind::Gdp).unwrap();
    assert!(matches!(
        Curator::simulated(Adjacency::ReplaceOne, 3)
            .with_budget(budget)
            .err(),
        Some(BudgetError::Simulated)
    ));
}

#[test]
fn a_budget_comes_before_the_first_reservation_and_alone() {
    // Otherwise releases go unpaid, and a settlement goes to a file that holds another run under
    // the same number.
    let folder = Folder::new();
    let budget = || open(&folder.file(), 1.0, FilterKind::Gdp).unwrap();
    let mut late = Curator::protected(Adjacency::ReplaceOne).unwrap();
    late.reserve(&gaussians(50.0, 1)).unwrap();
    assert!(matches!(
        late.with_budget(budget()).err(),
        Some(BudgetError::TooLate)
    ));
    let one = Curator::protected(Adjacency::ReplaceOne)
        .unwrap()
        .with_budget(budget())
        .unwrap();
    assert!(matches!(
        one.with_budget(budget()).err(),
        Some(BudgetError::TooLate)
    ));
}

#[test]
fn a_refund_does_not_go_to_another_run() {
    let folder = Folder::new();
    let mut cheap = curator(&folder.file(), 1.0, FilterKind::Gdp);
    cheap.reserve(&gaussians(100.0, 1)).unwrap();
    std::fs::remove_file(folder.file()).unwrap();
    let mut dear = curator(&folder.file(), 1.0, FilterKind::Gdp);
    dear.reserve(&gaussians(50.0, 1)).unwrap();
    let state = || {
        open(&folder.file(), 1.0, FilterKind::Gdp)
            .unwrap()
            .state()
            .unwrap()
    };
    let before = state();
    assert!(cheap.settle().is_err());
    assert_eq!(state(), before);
}
