//! One row of the table: a model planned, run, certified by its own releases, and scored on the test part.

use dpopt::certify::{ReleasedWindow, WindowPlan};
use dpopt::data::tabular::{EncodedTable, LabelRange, Schema, read_table};
use dpopt::linalg::{Design, Row as Features};
use dpopt::nonconvex::{
    Budget, DP_SGD, ExtraFacts, GOLDSTEIN, GOLDSTEIN_SAMPLED, GOLDSTEIN_ZO, GlmRun, Limits,
    NOISY_GD, NoObserver, PublicFacts, Solver, Value,
};
use dpopt::oracle::{Activation, Glm, Network, PrivateData, PublicData, Quantile};
use dpopt::privacy::selection::{BaseMeasure, QuantileBins, QuantileSum, Target};
use dpopt::privacy::{Adjacency, ClipNorm, Curator, Delta, Epsilon, Event, Spend};

use crate::options::Options;
use crate::{Failure, timed};

const DELTA: f64 = 1e-6;
/// Error probability of the certificates.
const FAILURE: f64 = 0.05;
/// Records of a quick run.
const FEW: usize = 20_000;
/// Bins of the private quantile: the years from 0 to 90.
const BINS: usize = 91;
/// A plan from values alone that asks for more is not run: some hours.
const MOST_VALUES: f64 = 1e11;
/// Seed of the hidden weights at the start: public, from nowhere.
const START: u64 = 0;

/// Census-Income with the age as the label.
pub(crate) struct Census {
    private: PrivateData,
    /// The labels of the training part again, for the private quantile.
    labels: Vec<f32>,
    test: PublicData,
    range: LabelRange,
}

impl Census {
    pub(crate) fn read(options: &Options) -> Result<Self, Failure> {
        let schema = Schema::load(&options.schema)?;
        let range = schema
            .label()
            .range()
            .ok_or("a label that is a number is needed")?;
        let read = |name: &str| -> Result<EncodedTable, Failure> {
            let table = read_table(options.folder.join(name), &schema)?;
            if options.quick {
                head(table)
            } else {
                Ok(table)
            }
        };
        let (train, test) = (read("train.csv.gz")?, read("test.csv.gz")?);
        let norm = ClipNorm::new(train.row_norm)?;
        let labels = train.labels.clone();
        let relation = Adjacency::ReplaceOne;
        let private = PrivateData::made_up(train.design, train.labels, norm, relation, None)?;
        Ok(Self {
            private: private.with_label_bound(ClipNorm::new(1.0)?),
            labels,
            test: PublicData::new(test.design, test.labels)?,
            range,
        })
    }
}

/// The first rows of a table.
fn head(mut table: EncodedTable) -> Result<EncodedTable, Failure> {
    let mut design = Design::sparse(table.design.columns())?;
    table.labels.truncate(FEW);
    for i in 0..table.labels.len() {
        let mut row = Vec::new();
        table.design.row(i).for_each(|j, x| {
            if x != 0.0 {
                row.push((j as u32, x as f32));
            }
        });
        design.push_row(&row)?;
    }
    table.design = design;
    Ok(table)
}

/// A quantile and a budget on the data.
pub(crate) struct Setting<'a> {
    data: &'a Census,
    pub(crate) tau: f64,
    pub(crate) epsilon: f64,
    budget: Budget,
    loss: Glm,
    options: &'a Options,
}

/// A row.
pub(crate) struct Row {
    pub(crate) model: String,
    pub(crate) solver: String,
    pub(crate) result: Result<Run, String>,
}

/// A run and what it reached.
pub(crate) struct Run {
    /// Mean pinball loss on the test part, in years.
    pub(crate) loss: f64,
    /// Share of the test labels below the prediction, ties counted half.
    pub(crate) coverage: f64,
    /// Radius around the result, and value over L0.
    pub(crate) certificate: Option<(f64, f64)>,
    /// The plan's, over L0.
    pub(crate) bound: Option<f64>,
    pub(crate) steps: u64,
    pub(crate) passes: f64,
    pub(crate) seconds: f64,
}

impl<'a> Setting<'a> {
    pub(crate) fn new(
        data: &'a Census,
        tau: f64,
        epsilon: f64,
        options: &'a Options,
    ) -> Result<Self, Failure> {
        Ok(Self {
            data,
            tau,
            epsilon,
            budget: Budget {
                epsilon: Epsilon::new(epsilon)?,
                delta: Delta::new(DELTA)?,
            },
            loss: Glm::Pinball(Quantile::new(tau)?),
            options,
        })
    }

    pub(crate) fn rows(&self) -> Result<Vec<Row>, Failure> {
        let mut rows = vec![self.constant()?];
        let solvers = [
            &NOISY_GD,
            &DP_SGD,
            &GOLDSTEIN,
            &GOLDSTEIN_SAMPLED,
            &GOLDSTEIN_ZO,
        ];
        let linear = [(None, solvers[0])];
        let units = self.options.units.iter().copied().map(Some);
        let networks = units.flat_map(|units| solvers.map(|solver| (units, solver)));
        for (units, solver) in linear.into_iter().chain(networks) {
            let only = &self.options.only;
            if only.is_empty() || only.iter().any(|name| name == solver.name) {
                rows.push(self.row(units, solver)?);
            }
        }
        Ok(rows)
    }

    /// The private quantile of all labels.
    fn constant(&self) -> Result<Row, Failure> {
        let edges: Vec<f64> = (0..=BINS).map(|year| year as f64 - 0.5).collect();
        let mut sum = QuantileSum::new(QuantileBins::new(&edges)?);
        for label in &self.data.labels {
            sum.add(self.data.range.number(f64::from(*label)));
        }
        let secret = sum.finish(Adjacency::ReplaceOne);
        let target = Target::new((self.tau * 100.0).round() as u32, 100)?;
        let mut curator = self.curator("constant", 0);
        let epsilon = self.budget.epsilon;
        curator.reserve(&Spend::Fixed(Event::ExponentialMechanism { epsilon }))?;
        let (seconds, found) =
            timed(|| curator.quantile(&secret, target, BaseMeasure::Bins, epsilon));
        let age = found?.midpoint();
        let encoded = (age - self.data.range.number(0.0)) / self.data.range.half();
        // As labels are stored, so that ties are ties.
        let encoded = f64::from(encoded as f32);
        let (loss, coverage) = self.score(|_| encoded);
        Ok(Row {
            model: "constant".to_owned(),
            solver: "private quantile".to_owned(),
            result: Ok(Run {
                loss,
                coverage,
                certificate: None,
                bound: None,
                steps: 0,
                passes: 1.0,
                seconds,
            }),
        })
    }

    fn row(&self, units: Option<usize>, solver: &'static Solver) -> Result<Row, Failure> {
        let network = |units| Network::new(units, Activation::Relu, self.loss);
        let network = units.map(network).transpose()?;
        let model = units.map_or("linear".to_owned(), |units| format!("{units} units"));
        let result = self.run(network, solver)?;
        match &result {
            Ok(run) => eprintln!(
                "{} {} {model} {solver}: {:.1} s, {:.3} years, coverage {:.3}, {:?}, {:?}",
                self.tau,
                self.epsilon,
                run.seconds,
                run.loss,
                run.coverage,
                run.certificate,
                run.bound
            ),
            Err(why) => eprintln!("{} {} {model} {solver}: {why}", self.tau, self.epsilon),
        }
        Ok(Row {
            model,
            solver: solver.to_string(),
            result,
        })
    }

    fn run(
        &self,
        network: Option<Network>,
        solver: &'static Solver,
    ) -> Result<Result<Run, String>, Failure> {
        let private = &self.data.private;
        let (norm, bound) = (private.row_norm(), private.label_bound());
        let constants = match network {
            None => self.loss.constants_within(norm, bound),
            Some(network) => network.constants_within(norm, bound),
        };
        let units = network.map_or(1, |network| network.units());
        let (records, dim) = (private.public_records(), private.dim() * units);
        let facts = PublicFacts::glm(records, dim, private.adjacency(), norm, constants)?;
        let mut extra = ExtraFacts::default();
        if solver.needs.goldstein {
            extra = extra.with_goldstein_radius(self.options.radius);
        }
        let limits = Limits::steps(self.options.max_steps);
        let plan = match solver.plan(&facts, &extra, &self.budget, &limits) {
            Ok(plan) => plan,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let values = plan.items().into_iter().find_map(|item| match item.value {
            Value::Number(values) if item.name == "values" => values,
            _ => None,
        });
        if let Some(values) = values.filter(|values| *values > MOST_VALUES) {
            let bound = plan.bound().map_or(f64::NAN, |bound| bound.value);
            return Ok(Err(format!(
                "not run: it would ask for {values:.1e} values, for a bound of {:.4} L0",
                bound / facts.lipschitz
            )));
        }
        let start = network.map(|network| network.start(private.dim(), norm, START));
        let run = GlmRun::new(private, self.loss, self.curator(solver.name, units))
            .of_network(network)
            .with_threads(self.options.threads)
            .starting_at(start.as_deref());
        let (seconds, done) = timed(|| match WindowPlan::of(&*plan, FAILURE) {
            Ok(windows) => {
                let nobody = &mut NoObserver;
                let mut watched = ReleasedWindow::new(windows, nobody);
                let done = run.run(&*plan, &mut watched);
                done.map(|(outcome, _)| (outcome, watched.certificate().ok()))
            }
            Err(_) => run
                .run(&*plan, &mut NoObserver)
                .map(|(outcome, _)| (outcome, None)),
        });
        let (outcome, certificate) = done?;
        let point = &outcome.point;
        let (loss, coverage) = self.score(|row| match network {
            None => row.dot(point),
            Some(network) => network.output(row, point),
        });
        let share = |value: f64| value / facts.lipschitz;
        Ok(Ok(Run {
            loss,
            coverage,
            certificate: certificate
                .map(|window| (window.radius_around(point), share(window.value))),
            bound: plan.bound().map(|bound| share(bound.value)),
            steps: outcome.steps,
            passes: outcome.counts.passes,
            seconds,
        }))
    }

    /// Mean pinball loss in years, and coverage, on the test part.
    fn score(&self, predict: impl Fn(Features<'_>) -> f64) -> (f64, f64) {
        let test = &self.data.test;
        let (mut loss, mut below) = (0.0, 0.0);
        for (i, label) in test.labels().iter().enumerate() {
            let (z, y) = (predict(test.design().row(i)), f64::from(*label));
            loss += self.loss.value(z, y);
            below += if y < z {
                1.0
            } else if y > z {
                0.0
            } else {
                0.5
            };
        }
        let records = test.labels().len() as f64;
        (self.data.range.half() * loss / records, below / records)
    }

    fn curator(&self, name: &str, units: usize) -> Curator {
        let seed = format!("{name} {units} {} {}", self.tau, self.epsilon)
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
                // FNV-1a.
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
        Curator::simulated(Adjacency::ReplaceOne, seed)
    }
}
