//! What an attacker can do: `dpopt account --curve`, and the table of a report.

use std::fmt::Write as _;

use dpopt::privacy::accounting::AccountingError;
use dpopt::privacy::accounting::curves::{CurvePoint, PrivacyCurve, gdp_true_positive_rate};
use dpopt::privacy::accounting::gdp;
use dpopt::privacy::accounting::group::{self, Group};
use dpopt::privacy::{Accountant, Adjacency, Delta, Epsilon, Event, Mu};
use serde::Serialize;

use crate::beside::up;
use crate::evaluated::Evaluated;
use crate::statement::Statement;

/// False positive rates that are reported.
const RATES: [f64; 4] = [0.001, 0.01, 0.1, 0.5];
/// Every so many points of the curve are printed for people.
const STRIDE: usize = 8;

/// Upper bounds on delta and on the success of an attacker who knows all records but one.
#[derive(Debug, Serialize)]
pub(crate) struct CurveReport {
    /// Upper bounds on delta.
    curve: Vec<CurvePoint>,
    attack: Attack,
}

/// Each number is an upper bound: no attacker does better.
#[derive(Debug, Serialize)]
struct Attack {
    /// Largest true positive rate minus false positive rate: delta at epsilon 0.
    advantage: f64,
    /// Probability of guessing right one of two inputs that were equally likely.
    success: f64,
    rates: Vec<Rates>,
}

#[derive(Debug, Serialize)]
struct Rates {
    false_positive_rate: f64,
    true_positive_rate: f64,
    /// Probability that an accused record was there, where it was there with probability 1/2.
    posterior: f64,
}

impl CurveReport {
    pub(crate) fn new(
        accountant: Accountant,
        event: &Event,
        adjacency: Adjacency,
    ) -> Result<Self, AccountingError> {
        let curve = PrivacyCurve::of(accountant, event, adjacency)?;
        let at = |rate: f64| Rates {
            false_positive_rate: rate,
            true_positive_rate: curve.true_positive_rate(rate),
            posterior: curve.posterior(0.5, rate),
        };
        Ok(Self {
            attack: Attack {
                advantage: curve.advantage(),
                success: curve.success(0.5),
                rates: RATES.into_iter().map(at).collect(),
            },
            curve: curve.points().to_vec(),
        })
    }

    /// For people.
    pub(crate) fn text(&self) -> String {
        let mut out = "\n   epsilon  delta (at most)\n".to_owned();
        for CurvePoint { epsilon, delta } in self.curve.iter().step_by(STRIDE) {
            let _ = writeln!(out, "{:>10}  {}", up(*epsilon), exponent_up(*delta));
        }
        let _ = writeln!(
            out,
            "\nNo attacker who knows all records but one guesses whether it is the one or the other\n\
             of two possibilities, equally likely before, right with probability above {} (advantage {}).\n\n\
             false positive rate  true positive rate (at most)",
            up(self.attack.success),
            up(self.attack.advantage)
        );
        for rates in &self.attack.rates {
            let rate = rates.false_positive_rate;
            let _ = writeln!(out, "{rate:>19}  {}", up(rates.true_positive_rate));
        }
        out
    }
}

/// Sizes of the groups of records in a report: one record, and two that a person might have.
pub(crate) const GROUPS: [u32; 3] = [1, 2, 5];
/// False positive rates in a report.
const REPORTED: [f64; 5] = [0.001, 0.01, 0.05, 0.1, 0.25];

/// At which parts of a group's epsilon its delta is asked for.
const OF_GROUPS: [f64; 5] = [0.0, 0.2, 0.4, 0.6, 0.8];

/// Powers of ten below delta at which epsilon is asked for.
const DEEPER: i32 = 20;

/// How well a test can tell two data sets that differ in one record, or in a few. All numbers bound the attacker from above.
#[derive(Debug, Clone)]
pub(crate) struct AttackTable {
    pub(crate) rows: Vec<AttackRow>,
    /// For each of [`GROUPS`].
    pub(crate) groups: Vec<GroupPrivacy>,
    /// For each of [`GROUPS`]: the largest probability of naming the right one of two data sets that were equally likely before.
    pub(crate) guesses: Vec<f64>,
    pub(crate) grounds: Grounds,
}

/// The largest true positive rates at one false positive rate, for each of [`GROUPS`].
#[derive(Debug, Clone)]
pub(crate) struct AttackRow {
    pub(crate) false_positives: f64,
    pub(crate) true_positives: Vec<f64>,
}

/// What holds between data sets that differ in so many records.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct GroupPrivacy {
    pub(crate) records: u32,
    pub(crate) epsilon: f64,
    pub(crate) delta: f64,
}

/// What a table was computed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Grounds {
    /// The run is mu-GDP: its trade-off curve is that of one Gaussian, and that of k records the one with k mu.
    Gaussian,
    /// The accountant's curve of delta over epsilon.
    Curve,
    /// That, and for groups their own dominating pairs.
    Groups,
    /// Epsilon and delta alone.
    Pair,
}

impl AttackTable {
    /// The table of what was reserved. `epsilon` and `delta` are those of the statement.
    pub(crate) fn of(
        accountant: Accountant,
        event: &Event,
        adjacency: Adjacency,
        epsilon: f64,
        delta: Delta,
    ) -> Self {
        if accountant == Accountant::Gdp {
            return Self::of_stated(accountant, epsilon, delta);
        }
        match PrivacyCurve::of(accountant, event, adjacency) {
            Ok(curve) => {
                // For groups the best point is one with a far smaller delta.
                let deeper = (0..=DEEPER).filter_map(|j| {
                    let point = Delta::new(delta.get() * 0.1f64.powi(j)).ok()?;
                    let epsilon = accountant.epsilon(event, point, adjacency).ok()?;
                    Some(CurvePoint {
                        epsilon,
                        delta: point.get(),
                    })
                });
                let points: Vec<CurvePoint> = deeper.collect();
                let mut table = Self::of_curve(&curve, &points, epsilon, delta, Grounds::Curve);
                for at in 1..GROUPS.len() {
                    table.tighten(at, event, adjacency, delta);
                }
                table
            }
            Err(_) => Self::of_pair(epsilon, delta),
        }
    }

    /// With what the dominating pair of a group says, where it is known and says more.
    fn tighten(&mut self, at: usize, event: &Event, adjacency: Adjacency, delta: Delta) {
        let Ok(group) = Group::new(u64::from(GROUPS[at])) else {
            return;
        };
        let Ok(whole) = group::interval(event, group, delta, adjacency) else {
            return;
        };
        let epsilon = whole.upper;
        let mut points = vec![CurvePoint {
            epsilon,
            delta: delta.get(),
        }];
        points.extend(OF_GROUPS.iter().filter_map(|share| {
            let epsilon = share * epsilon;
            let delta = group::delta_interval(event, group, epsilon, adjacency);
            Some(CurvePoint {
                epsilon,
                delta: delta.ok()?.upper.min(1.0),
            })
        }));
        let Ok(curve) = PrivacyCurve::from_points(points) else {
            return;
        };
        for row in &mut self.rows {
            let power = curve.true_positive_rate(row.false_positives);
            row.true_positives[at] = row.true_positives[at].min(power);
        }
        self.guesses[at] = self.guesses[at].min(curve.success(0.5));
        if epsilon < self.groups[at].epsilon {
            self.groups[at] = GroupPrivacy {
                records: GROUPS[at],
                epsilon,
                delta: delta.get(),
            };
            self.grounds = Grounds::Groups;
        }
    }

    /// The table of all that a run released, in its report and in an explanation of its model alike.
    ///
    /// Of a run that went on from earlier ones it is that of all runs on their ledger. Of a run beside an evaluation of held-out records a
    /// record is in one of the two parts, so the least private curve of the two bounds both: an evaluation is one Gaussian release with no
    /// more than the run's epsilon, hence the curve of the larger mu where the run is Gaussian too, and otherwise the pair that both keep
    /// to. `event`: what the run released, where it is at hand.
    pub(crate) fn of_run(
        statement: &Statement,
        evaluation: Option<&Evaluated>,
        event: Option<&Event>,
    ) -> Self {
        let Statement {
            accountant,
            epsilon,
            delta,
            adjacency,
            all_runs,
            ..
        } = *statement;
        if let Some(all) = all_runs {
            return Self::of_pair(all.epsilon, all.delta);
        }
        let beside = evaluation.filter(|of| of.is_beside_the_run());
        let Some(beside) = beside.map(|of| &of.privacy) else {
            return match event {
                Some(event) => Self::of(accountant, event, adjacency, epsilon, delta),
                None => Self::of_stated(accountant, epsilon, delta),
            };
        };
        let gaussian = [accountant, beside.accountant] == [Accountant::Gdp; 2];
        let larger = epsilon.max(beside.epsilon);
        match gaussian && beside.delta == delta {
            true => Self::of_stated(Accountant::Gdp, larger, delta),
            false => Self::of_pair(larger, delta),
        }
    }

    /// The table of what a statement says by itself, where its events are not at hand.
    fn of_stated(accountant: Accountant, epsilon: f64, delta: Delta) -> Self {
        match stated_mu(epsilon, delta) {
            Some(mu) if accountant == Accountant::Gdp => Self::gaussian(mu, delta),
            _ => Self::of_pair(epsilon, delta),
        }
    }

    /// Where nothing but the pair is known. A pair that is none promises nothing.
    pub(crate) fn of_pair(epsilon: f64, delta: Delta) -> Self {
        let point = CurvePoint {
            epsilon,
            delta: delta.get(),
        };
        let curve = PrivacyCurve::from_points(vec![point]);
        let nothing = || PrivacyCurve::from_points(Vec::new());
        match curve.or_else(|_| nothing()) {
            Ok(curve) => Self::of_curve(&curve, curve.points(), epsilon, delta, Grounds::Pair),
            Err(_) => Self {
                rows: Vec::new(),
                groups: Vec::new(),
                guesses: Vec::new(),
                grounds: Grounds::Pair,
            },
        }
    }

    fn gaussian(mu: f64, delta: Delta) -> Self {
        let of_group = |records: u32| Mu::new(f64::from(records) * mu).ok();
        Self::with(
            |records, rate| of_group(records).map_or(1.0, |mu| gdp_true_positive_rate(mu, rate)),
            |records| GroupPrivacy {
                records,
                epsilon: of_group(records).map_or(f64::INFINITY, |mu| gdp::epsilon(mu, delta)),
                delta: delta.get(),
            },
            |records| {
                // The advantage is delta at an epsilon of 0.
                let advantage = of_group(records).map(|mu| gdp::log_delta(mu.get(), 0.0).exp());
                advantage.map_or(1.0, |advantage| {
                    (0.5 + 0.5 * advantage * (1.0 + 1e-9)).min(1.0)
                })
            },
            Grounds::Gaussian,
        )
    }

    /// # Formula
    /// A test whose false positive rate is a has true positive rate T(a) at most between neighbours. Between data sets that
    /// are k steps apart it has T(T(...a)), k times: the rate on each data set of the chain bounds that on the next. Where
    /// (eps, delta') holds between neighbours, (k eps, delta' (e^(k eps) - 1)/(e^eps - 1)) does over k steps.
    fn of_curve(
        curve: &PrivacyCurve,
        points: &[CurvePoint],
        epsilon: f64,
        delta: Delta,
        grounds: Grounds,
    ) -> Self {
        let stated = CurvePoint {
            epsilon,
            delta: delta.get(),
        };
        Self::with(
            |records, rate| {
                let step = |rate: f64, _| curve.true_positive_rate(rate).min(1.0);
                (0..records).fold(rate, step)
            },
            |records| {
                let of = |point: &CurvePoint| by_lemma(point, records);
                let fits = |found: &GroupPrivacy| found.delta <= delta.get();
                let least = points.iter().map(of).filter(fits);
                let least = least.min_by(|a, b| a.epsilon.total_cmp(&b.epsilon));
                match least {
                    _ if records == 1 => of(&stated),
                    Some(least) => least,
                    None => of(&stated),
                }
            },
            |records| {
                let of = |point: &CurvePoint| guess(&by_lemma(point, records));
                let all = points.iter().chain([&stated]).map(of);
                let own = (records == 1).then(|| curve.success(0.5));
                all.chain(own).fold(1.0, f64::min)
            },
            grounds,
        )
    }

    fn with(
        power: impl Fn(u32, f64) -> f64,
        group: impl Fn(u32) -> GroupPrivacy,
        guess: impl Fn(u32) -> f64,
        grounds: Grounds,
    ) -> Self {
        let row = |rate| AttackRow {
            false_positives: rate,
            true_positives: GROUPS.map(|records| power(records, rate)).to_vec(),
        };
        Self {
            rows: REPORTED.map(row).to_vec(),
            groups: GROUPS.map(group).to_vec(),
            guesses: GROUPS.map(guess).to_vec(),
            grounds,
        }
    }
}

/// What k records have where one has this point.
fn by_lemma(point: &CurvePoint, records: u32) -> GroupPrivacy {
    let k = f64::from(records);
    let CurvePoint { epsilon, delta } = *point;
    if records == 1 {
        return GroupPrivacy {
            records,
            epsilon,
            delta,
        };
    }
    // (e^(k eps) - 1)/(e^eps - 1) as a sum: nothing cancels, and at 0 it is k.
    let factor: f64 = (0..records).map(|i| (f64::from(i) * epsilon).exp()).sum();
    GroupPrivacy {
        records,
        epsilon: k * epsilon,
        // A little more than the roundings.
        delta: (delta * factor * (1.0 + 1e-12)).min(1.0),
    }
}

/// (1 + advantage)/2, with the advantage (e^eps - 1 + 2 delta)/(e^eps + 1) at most; 1 where the pair promises nothing.
fn guess(of: &GroupPrivacy) -> f64 {
    // tanh(eps/2) = (e^eps - 1)/(e^eps + 1), and 2/(e^eps + 1) = 1 - tanh(eps/2): nothing overflows.
    let half = (0.5 * of.epsilon).tanh();
    let advantage = half + of.delta * (1.0 - half);
    if advantage >= 0.0 {
        ((0.5 + 0.5 * advantage) * (1.0 + 1e-12)).min(1.0)
    } else {
        1.0
    }
}

/// mu of a mu-GDP run with this statement, rounded up: epsilon was, and the rest is more than any rounding.
fn stated_mu(epsilon: f64, delta: Delta) -> Option<f64> {
    let mu = gdp::mu_for(Epsilon::new(epsilon).ok()?, delta).ok()?;
    Some(mu.get() * (1.0 + 1e-9))
}

/// Three significant digits, never below the value.
fn exponent_up(value: f64) -> String {
    if !(value > 0.0) {
        return "0".to_owned();
    }
    // Adding half a unit of the last digit shown turns rounding to nearest into rounding up.
    let unit = 10f64.powi(value.log10().floor() as i32 - 2);
    format!("{:.2e}", (value + 0.5 * unit).min(1.0))
}

#[cfg(test)]
mod tests {
    use dpopt::privacy::{Accountant, Adjacency, Delta, Event, NoiseMultiplier, SamplingRate};

    use super::{AttackTable, Grounds, Group, exponent_up, group, up};

    fn delta() -> Delta {
        Delta::new(1e-6).unwrap()
    }

    fn row(table: &AttackTable, rate: f64) -> &[f64] {
        let found = table.rows.iter().find(|row| row.false_positives == rate);
        &found.unwrap().true_positives
    }

    /// Standard normal quantiles and probabilities from tables: Phi^-1(.01) = -2.326348, Phi(-2.326348 + mu).
    #[test]
    fn a_gaussian_run_has_the_table_of_its_curve() {
        // mu = 0.24, for a record, 2 and 5: Phi(-2.086348) = .018474, Phi(-1.846348) = .032421, Phi(-1.126348) = .130009.
        let noise = NoiseMultiplier::new(1.0 / 0.24).unwrap();
        let event = Event::gaussian(noise);
        let (accountant, epsilon) =
            Accountant::least(&event, delta(), Adjacency::ReplaceOne).unwrap();
        let table = AttackTable::of(accountant, &event, Adjacency::ReplaceOne, epsilon, delta());
        assert_eq!(table.grounds, Grounds::Gaussian);
        for (found, wanted) in row(&table, 0.01)
            .iter()
            .zip([0.018_474, 0.032_421, 0.130_009])
        {
            assert!((found - wanted).abs() < 2e-6, "{found} {wanted}");
        }
        // From the pair alone an attacker would seem to do better.
        let pair = AttackTable::of_pair(epsilon, delta());
        assert!(row(&pair, 0.01)[0] > 1.3 * row(&table, 0.01)[0]);
        // k records have k mu, whose epsilon is more than k times as large.
        let epsilons: Vec<f64> = table.groups.iter().map(|group| group.epsilon).collect();
        assert!((epsilons[0] / epsilon - 1.0).abs() < 1e-7, "{epsilons:?}");
        assert!(epsilons[1] > 2.0 * epsilons[0] && epsilons[2] > 5.0 * epsilons[0]);
        let large = Event::gaussian(NoiseMultiplier::new(1.0 / (5.0 * 0.24)).unwrap());
        let (_, by_hand) = Accountant::least(&large, delta(), Adjacency::ReplaceOne).unwrap();
        assert!((epsilons[2] / by_hand - 1.0).abs() < 1e-7, "{epsilons:?}");
    }

    #[test]
    fn a_sampled_run_has_the_curves_of_its_accountant_and_of_its_groups() {
        let noise = NoiseMultiplier::new(1.0).unwrap();
        let rate = SamplingRate::new(0.01).unwrap();
        let event = Event::gaussian(noise).poisson_sampled(rate).repeated(100);
        let relation = Adjacency::AddRemove;
        let (accountant, epsilon) = Accountant::least(&event, delta(), relation).unwrap();
        let table = AttackTable::of(accountant, &event, relation, epsilon, delta());
        assert_eq!(table.grounds, Grounds::Groups);
        for found in &table.groups[1..] {
            // Tight, and below what the lemma says of the same run.
            let group = Group::new(u64::from(found.records)).unwrap();
            let ends = group::interval(&event, group, delta(), relation).unwrap();
            let lemma = group::by_lemma(&event, group, delta(), relation).unwrap();
            assert!(found.epsilon >= ends.lower && found.epsilon <= ends.upper * (1.0 + 1e-9));
            assert!(found.epsilon < 0.95 * lemma, "{found:?} {lemma}");
        }
        let pair = AttackTable::of_pair(epsilon, delta());
        for rate in [0.001, 0.01, 0.05, 0.1, 0.25] {
            let (found, loose) = (row(&table, rate), row(&pair, rate));
            assert!(
                found[0] < loose[0] && found[0] >= rate,
                "{found:?} {loose:?}"
            );
            assert!(found[0] < found[1] && found[1] < found[2], "{found:?}");
        }
        for group in &table.groups {
            // No better than the text book's bound at the same delta.
            assert!(group.delta <= 1e-6, "{group:?}");
            assert!(group.epsilon >= f64::from(group.records) * epsilon * (1.0 - 1e-12));
        }
    }

    /// (1, 0): T(a) = min(e a, 1 - (1 - a)/e); twice: e^2 a for small a. (1, d) for k = 2: (2, d (1 + e)).
    #[test]
    fn groups_follow_the_chain_of_neighbours() {
        let e = std::f64::consts::E;
        let pair = AttackTable::of_pair(1.0, Delta::new(1e-6).unwrap());
        let found = row(&pair, 0.01);
        assert!((found[0] - (0.01 * e + 1e-6)).abs() < 1e-9);
        assert!((found[1] - (0.01 * e * e + 1e-6 * (1.0 + e))).abs() < 1e-9);
        let two = pair.groups[1];
        assert!((two.epsilon - 2.0).abs() < 1e-12);
        assert!((two.delta / (1e-6 * (1.0 + e)) - 1.0).abs() < 1e-9);
    }

    /// Of (1, 0) the best guess is e/(1 + e), of two records e^2/(1 + e^2). Of mu = 1 it is Phi(1/2) = .691462, of two records
    /// Phi(1) = .841345 (tables).
    #[test]
    fn guesses_are_those_of_the_curve() {
        let tiny = Delta::new(1e-12).unwrap();
        let pair = AttackTable::of_pair(1.0, tiny);
        for (found, k) in pair.guesses.iter().zip([1.0f64, 2.0, 5.0]) {
            let wanted = k.exp() / (1.0 + k.exp());
            assert!((found - wanted).abs() < 1e-9, "{found} {wanted}");
        }
        let event = Event::gaussian(NoiseMultiplier::new(1.0).unwrap());
        let relation = Adjacency::ReplaceOne;
        let epsilon = Accountant::Gdp.epsilon(&event, delta(), relation).unwrap();
        let table = AttackTable::of_stated(Accountant::Gdp, epsilon, delta());
        assert_eq!(table.grounds, Grounds::Gaussian);
        for (found, wanted) in table.guesses.iter().zip([0.691_462, 0.841_345]) {
            assert!((found - wanted).abs() < 2e-6, "{found} {wanted}");
        }
        let other = AttackTable::of_stated(Accountant::Rdp, epsilon, delta());
        assert_eq!(other.grounds, Grounds::Pair);
        assert!(other.guesses[0] > table.guesses[0]);
    }

    #[test]
    fn nonsense_is_read_as_no_promise() {
        for epsilon in [f64::NAN, f64::INFINITY, -1.0] {
            let table = AttackTable::of_pair(epsilon, delta());
            assert!(table.rows.iter().all(|row| row.true_positives == [1.0; 3]));
            assert!(table.guesses.iter().all(|guess| *guess == 1.0));
        }
    }

    #[test]
    fn what_is_shown_is_never_too_small() {
        for value in [1e-9, 1.2345e-5, 1.0051e-3, 0.1234, 0.9999, 1.0, 3.3e-300] {
            let shown: f64 = exponent_up(value).parse().unwrap();
            assert!(shown >= value && shown <= 1.011 * value, "{value} {shown}");
            assert!(up(value) >= value);
        }
        assert_eq!(exponent_up(0.0), "0");
    }
}
