//! One row of the table: a model planned, run, certified by its own releases, and scored on the test part.

use dpopt::certify::{ReleasedWindow, WindowPlan};
use dpopt::data::tabular::{EncodedTable, LabelRange};
use dpopt::linalg::Row as Features;
use dpopt::nonconvex::{
    Budget, DP_SGD, DpSgdPlan, ExtraFacts, GOLDSTEIN, GOLDSTEIN_SAMPLED, GOLDSTEIN_ZO,
    GOLDSTEIN_ZO_SAMPLED, GlmRun, Limits, NOISY_GD, NoObserver, Plan, PublicFacts, Solver, Value,
};
use dpopt::oracle::{Activation, Glm, Network, PrivateData, PublicData, Quantile};
use dpopt::privacy::selection::{BaseMeasure, QuantileBins, QuantileSum, Target};
use dpopt::privacy::{ClipNorm, Curator, Delta, Epsilon, Event, SamplingRate, Spend};
use dpopt_benches::census::{Failure, seed};
use dpopt_benches::release::timed;

use crate::options::Options;
use crate::peers::Peers;

pub(crate) const DELTA: f64 = 1e-6;
/// Most steps: plans of as many as the bounds ask for (70,000 at epsilon 1) take hours on all records.
const STEPS: u64 = 2_000;
/// Error probability of the certificates.
pub(crate) const FAILURE: f64 = 0.05;
/// Bins of the private quantile: the years from 0 to 90.
const BINS: usize = 91;
/// A plan from values alone that asks for more is not run: some hours.
const MOST_VALUES: f64 = 1e11;
/// Values that a peer from values alone asks for.
const VALUES: f64 = 1e8;
/// The grid of `benches/peers/quantiles.py`: steps and mean size of a sample; clips over L0; step sizes in units of 1/L0^2, if nothing were
/// clipped.
const SHAPES: [(u64, f64); 2] = [(600, 3e3), (1200, 6e3)];
const CLIPS: [f64; 1] = [0.1];
const RATES: [f64; 4] = [0.1, 0.3, 1.0, 3.0];
/// Seed of the hidden weights at the start: public, from nowhere.
const START: u64 = 0;

/// Census-Income with the age as the label.
pub(crate) struct Census {
    private: PrivateData,
    /// The labels of the training part again, for the private quantile.
    labels: Vec<f32>,
    test: PublicData,
    range: LabelRange,
    peers: Option<Peers>,
}

impl Census {
    pub(crate) fn read(options: &Options) -> Result<Self, Failure> {
        let schema = options.common.schema()?;
        let range = schema
            .label()
            .range()
            .ok_or("a label that is a number is needed")?;
        let [train, test] = options.common.tables(&schema)?;
        let peers = match &options.peers {
            Some((python, script)) => Some(Peers::new(python, script, [&train, &test])?),
            None => None,
        };
        let norm = ClipNorm::new(train.row_norm)?;
        let records = train.labels.len() as u64;
        let EncodedTable { design, labels, .. } = train;
        let relation = options.relation;
        let private = PrivateData::made_up(design, labels.clone(), norm, relation, Some(records))?;
        Ok(Self {
            private: private.with_label_bound(ClipNorm::new(1.0)?),
            labels,
            test: PublicData::new(test.design, test.labels)?,
            range,
            peers,
        })
    }
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

/// What a peer is told.
pub(crate) struct Task {
    pub(crate) model: String,
    pub(crate) tau: f64,
    pub(crate) epsilon: f64,
    pub(crate) lipschitz: f64,
    /// Half of the range of labels, in years.
    pub(crate) half: f64,
    /// How many values a peer from values alone asks for.
    pub(crate) values: f64,
    /// The weights of the units; none for a linear score.
    pub(crate) output: Vec<f64>,
    /// By feature, its units beside each other.
    pub(crate) start: Vec<f64>,
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
    pub(crate) values: f64,
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
            &GOLDSTEIN_ZO_SAMPLED,
        ];
        let only = &self.options.common.only;
        for &units in &self.options.units {
            let network = |units| Network::new(units, Activation::Relu, self.loss);
            let network = (units > 0).then(|| network(units)).transpose()?;
            for solver in solvers {
                if only.is_empty() || only.iter().any(|name| name == solver.name) {
                    rows.push(self.row(network, solver)?);
                }
            }
            if self.options.tuned {
                rows.push(self.tuned(network)?);
            }
            if let Some(peers) = &self.data.peers {
                rows.extend(peers.rows(&self.task(network, VALUES)?)?);
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
        let secret = sum.finish(self.options.relation);
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
                values: 0.0,
                seconds,
            }),
        })
    }

    fn row(&self, network: Option<Network>, solver: &'static Solver) -> Result<Row, Failure> {
        let model = model(network);
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
        let facts = self.facts(network)?;
        let mut extra = ExtraFacts::default();
        if solver.needs.goldstein {
            extra = extra.with_goldstein_radius(self.options.radius);
        }
        if solver.needs.values {
            extra.directions = self.options.directions;
        }
        let limits = Limits::steps(self.options.max_steps.unwrap_or(STEPS));
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
        self.by(network, &*plan).map(Ok)
    }

    /// The best by the test part of DP-SGD over the grid that the peers are tuned over, which is not charged for.
    fn tuned(&self, network: Option<Network>) -> Result<Row, Failure> {
        let facts = self.facts(network)?;
        let mut best: Option<(Row, [f64; 2])> = None;
        for (steps, size) in SHAPES {
            let grid = match best {
                None => CLIPS.map(|clip| RATES.map(|share| [clip, share])).concat(),
                Some((_, best)) => vec![best],
            };
            for [clip, share] in grid {
                let rate = SamplingRate::new(size / facts.records as f64)?;
                let (step, radius) = (
                    share / (clip * facts.lipschitz.powi(2)),
                    clip * facts.lipschitz,
                );
                let plan = DpSgdPlan::with_parameters(
                    &facts,
                    &self.budget,
                    steps,
                    rate,
                    step,
                    0.0,
                    radius,
                )?;
                let run = self.by(network, &plan)?;
                let name = format!("steps {steps}, sample {size}, clip {clip} L0, rate {share:.2}");
                eprintln!("{} dp-sgd {name}: {:.3} years", model(network), run.loss);
                let better = |(row, _): &(Row, [f64; 2])| {
                    row.result.as_ref().is_ok_and(|old| old.loss <= run.loss)
                };
                if !best.as_ref().is_some_and(better) {
                    let row = Row {
                        model: model(network),
                        solver: format!("dp-sgd, tuned: {name}"),
                        result: Ok(run),
                    };
                    best = Some((row, [clip, share]));
                }
            }
        }
        best.map(|(row, _)| row).ok_or("an empty grid".into())
    }

    fn by(&self, network: Option<Network>, plan: &dyn Plan) -> Result<Run, Failure> {
        let private = &self.data.private;
        let units = network.map_or(1, |network| network.units());
        let lipschitz = self.facts(network)?.lipschitz;
        let start = self.start(network);
        let run = GlmRun::new(private, self.loss, self.curator(plan.name(), units))
            .of_network(network)
            .with_threads(self.options.common.threads)
            .starting_at(start.as_deref());
        let (seconds, done) = timed(|| match WindowPlan::of(plan, FAILURE) {
            Ok(windows) => {
                let nobody = &mut NoObserver;
                let mut watched = ReleasedWindow::new(windows, nobody);
                let done = run.run(plan, &mut watched);
                done.map(|(outcome, _)| (outcome, watched.certificate().ok()))
            }
            Err(_) => run
                .run(plan, &mut NoObserver)
                .map(|(outcome, _)| (outcome, None)),
        });
        let (outcome, certificate) = done?;
        let point = &outcome.point;
        let (loss, coverage) = self.score(|row| match network {
            None => row.dot(point),
            Some(network) => network.output(row, point),
        });
        let share = |value: f64| value / lipschitz;
        Ok(Run {
            loss,
            coverage,
            certificate: certificate
                .map(|window| (window.radius_around(point), share(window.value))),
            bound: plan.bound().map(|bound| share(bound.value)),
            steps: outcome.steps,
            passes: outcome.counts.passes,
            values: outcome.counts.values,
            seconds,
        })
    }

    fn facts(&self, network: Option<Network>) -> Result<PublicFacts, Failure> {
        let private = &self.data.private;
        let (norm, bound) = (private.row_norm(), private.label_bound());
        let (constants, units) = match network {
            None => (self.loss.constants_within(norm, bound), 1),
            Some(network) => (network.constants_within(norm, bound), network.units()),
        };
        let (records, dim) = (private.public_records(), private.dim() * units);
        let relation = private.adjacency();
        Ok(PublicFacts::glm(records, dim, relation, norm, constants)?)
    }

    fn start(&self, network: Option<Network>) -> Option<Vec<f64>> {
        let private = &self.data.private;
        network.map(|network| network.start(private.dim(), private.row_norm(), START))
    }

    /// What a peer is told: the same model, start, clip and budget.
    fn task(&self, network: Option<Network>, values: f64) -> Result<Task, Failure> {
        let facts = self.facts(network)?;
        let start = self.start(network);
        Ok(Task {
            model: model(network),
            tau: self.tau,
            epsilon: self.epsilon,
            lipschitz: facts.lipschitz,
            half: self.data.range.half(),
            values,
            output: network.map_or(Vec::new(), |network| network.output_weights()),
            start: start.unwrap_or(vec![0.0; facts.dim]),
        })
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
        let words = format!("{name} {units} {} {}", self.tau, self.epsilon);
        Curator::simulated(self.options.relation, seed(&words))
    }
}

fn model(network: Option<Network>) -> String {
    network.map_or("linear".to_owned(), |network| {
        format!("{} units", network.units())
    })
}
