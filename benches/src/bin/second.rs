//! The speed table of second derivatives, as JSON: a part of what `cargo xtask bench` runs.
//!
//! One row per loss and query: the median time of a release, and as its target a multiple of that of the clipped gradient, timed in turns
//! in the same run; joint fields of saddle objectives beside those of the logistic loss. Then whole Hessians of a loss with Hessians of rank one, beside a product of the rows with themselves, of which a
//! triangle would take a half; and `sosp`, with the share of its time that it spends in answers of the oracle. `--quick` takes smaller
//! data and fewer repeats, `--only PART` one part: `rows`, `joint`, `plans` (planning times of saddle solvers), `hessian` or `sosp`.
#![allow(clippy::print_stdout, reason = "the table is the product")]

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::time::Instant;

use dpopt::linalg::{Design, Packed};
use dpopt::minimax::{Allowance, SOLVERS, SaddleFacts, SaddleLimits};
use dpopt::nonconvex::{
    Budget, HessianFacts, NoObserver, Plan as _, PublicFacts, SospPlan, SospSettings,
};
use dpopt::oracle::query::{HessianMatrix, HessianVector, HessianVectorDifference, Value};
use dpopt::oracle::{
    Activation, Answer, AskError, AucSaddle, BlockClips, Books, Cell, CellShares, Differentiable,
    EqualOpportunity, Examples, Glm, GroupDro, Head, Joint, Linear, Mlp, Network, Oracle,
    OracleFacts, PrivateData, PrivateMean, QuadraticLink, Query, Question, ScoreSaddle, Scored,
    Segment, TwiceDifferentiable,
};
use dpopt::privacy::{
    Adjacency, ClipNorm, Curator, Delta, Epsilon, Event, NoiseMultiplier, Spend, Which,
};
use serde_json::{Value as Json, json};

/// An error of any kind.
type Failure = Box<dyn std::error::Error>;

const RELATION: Adjacency = Adjacency::ReplaceOne;
const RELEASES: u64 = 1 << 20;

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn now() -> Instant {
    Instant::now()
}

fn numbers(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed;
    move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f64 / f64::from(1u32 << 23) - 1.0
    }
}

/// Rows of about unit length in single precision, labels of 0 and 1.
fn data(records: usize, columns: usize) -> Result<PrivateData, Failure> {
    let data = labelled(records, columns, |i| (i % 2) as f32)?;
    Ok(data.with_label_bound(ClipNorm::new(1.0)?))
}

/// Labels of both classes of four groups.
fn in_cells(records: usize, columns: usize) -> Result<PrivateData, Failure> {
    labelled(records, columns, |i| {
        let (positive, group) = (i.is_multiple_of(2), i / 2 % 4);
        Cell { positive, group }.label()
    })
}

fn labelled(
    records: usize,
    columns: usize,
    label: impl Fn(usize) -> f32,
) -> Result<PrivateData, Failure> {
    let mut number = numbers(1);
    let size = (1.0 / columns as f64).sqrt();
    let rows = (0..records * columns).map(|_| (size * number()) as f32);
    let design = Design::dense32(columns, rows.collect())?;
    let labels = (0..records).map(label).collect();
    let clip = ClipNorm::new(1.0)?;
    Ok(PrivateData::made_up(design, labels, clip, RELATION, None)?)
}

fn means<L: TwiceDifferentiable<Records = Examples>>(
    data: &PrivateData,
    loss: L,
) -> Result<PrivateMean<'_, L>, Failure> {
    let mut curator = Curator::simulated(RELATION, 1);
    let event = Event::gaussian(NoiseMultiplier::new(1.0)?);
    curator.reserve(&Spend::Fixed(event.repeated(RELEASES)))?;
    Ok(PrivateMean::new(data, loss, curator)?)
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Rows of a loss: each query beside the gradient.
fn rows<L: TwiceDifferentiable<Records = Examples>>(
    out: &mut Vec<Json>,
    name: &str,
    data: &PrivateData,
    loss: L,
    repeats: usize,
) -> Result<(), Failure> {
    let mut means = means(data, loss)?;
    let dim = means.dim();
    let mut number = numbers(7);
    let mut draw = || (0..dim).map(|_| 0.3 * number()).collect::<Vec<f64>>();
    let (point, from, direction) = (&draw(), &draw(), &draw());
    let clip = ClipNorm::new(1.0)?;
    let (centre, radius) = (0.5, Some(clip));
    fn time<L: TwiceDifferentiable<Records = Examples>>(
        means: &mut PrivateMean<'_, L>,
        query: &impl Query<L>,
    ) -> Result<f64, Failure> {
        let start = now();
        black_box(means.release(query, Which::All, NoiseMultiplier::new(1.0)?)?);
        Ok(start.elapsed().as_secs_f64())
    }
    let gradient = Linear::field(point, clip);
    let product = HessianVector {
        point,
        direction,
        radius,
    };
    let to = point;
    let change = HessianVectorDifference {
        from,
        to,
        direction,
        radius,
    };
    let value = Value {
        point,
        centre,
        radius: clip,
    };
    let mut times: [Vec<f64>; 4] = Default::default();
    // The first round warms up.
    for round in 0..=repeats {
        let found = [
            time(&mut means, &gradient)?,
            time(&mut means, &product)?,
            time(&mut means, &change)?,
            time(&mut means, &value)?,
        ];
        if round > 0 {
            times
                .iter_mut()
                .zip(found)
                .for_each(|(all, one)| all.push(one));
        }
    }
    let medians = times.each_mut().map(|all| median(all));
    let names = ["gradient", "product", "difference", "value"];
    let most = [None, Some(3.0), Some(5.0), Some(1.3)];
    for (i, (query, most)) in names.into_iter().zip(most).enumerate() {
        let target = most.map(|most: f64| most * medians[0]);
        out.push(json!({
            "id": format!("second/{name}/{query}"),
            "seconds": medians[i],
            "fastest": times[i][0],
            "target": target,
            "met": target.map(|target| medians[i] <= target),
            "repeats": repeats,
            "gradients": medians[i] / medians[0],
        }));
    }
    Ok(())
}

/// One joint field of a saddle objective, and its change, beside those of the logistic loss at as many columns.
fn joint<S: ScoreSaddle>(
    out: &mut Vec<Json>,
    name: &str,
    data: &PrivateData,
    objective: S,
    repeats: usize,
) -> Result<(), Failure> {
    let joint = Joint::new(Scored::with_own_clips(objective, 1.0), 0.5)?;
    fn mean<L: Differentiable<Records = Examples>>(
        data: &PrivateData,
        loss: L,
    ) -> Result<PrivateMean<'_, L>, Failure> {
        let mut curator = Curator::simulated(RELATION, 1);
        let event = Event::gaussian(NoiseMultiplier::new(1.0)?);
        curator.reserve(&Spend::Fixed(event.repeated(RELEASES)))?;
        Ok(PrivateMean::new(data, loss, curator)?)
    }
    /// The field, and its change.
    fn times<L: Differentiable<Records = Examples>>(
        means: &mut PrivateMean<'_, L>,
    ) -> Result<[f64; 2], Failure> {
        let mut number = numbers(7);
        let dim = means.dim();
        let from: Vec<f64> = (0..dim).map(|_| 0.3 * number()).collect();
        let along: Vec<f64> = (0..dim).map(|_| 0.01 * number()).collect();
        let to: Vec<f64> = from.iter().zip(&along).map(|(x, d)| x + d).collect();
        let clip = ClipNorm::new(1.0)?;
        let segment = Segment::new(&from, &to, &along).ok_or("points of one length")?;
        let (field, change) = (
            Linear::field(&from, clip),
            Linear::change(segment, clip, clip),
        );
        let mut found = [0.0; 2];
        for (found, query) in found.iter_mut().zip([&field, &change]) {
            let start = now();
            black_box(means.release(query, Which::All, NoiseMultiplier::new(1.0)?)?);
            *found = start.elapsed().as_secs_f64();
        }
        Ok(found)
    }
    let (mut plain, mut joint) = (mean(data, Glm::Logistic)?, mean(data, joint)?);
    let mut seconds: [Vec<f64>; 4] = Default::default();
    let mut ratios: [Vec<f64>; 2] = Default::default();
    for round in 0..=repeats {
        let [gradient, two_points] = times(&mut plain)?;
        let [pass, difference] = times(&mut joint)?;
        if round > 0 {
            let all = [gradient, two_points, pass, difference];
            seconds.iter_mut().zip(all).for_each(|(s, t)| s.push(t));
            ratios[0].push(pass / gradient);
            ratios[1].push(difference / two_points);
        }
    }
    for (i, what) in ["pass", "difference"].into_iter().enumerate() {
        let beside = median(&mut seconds[i]);
        let of = median(&mut seconds[i + 2]);
        out.push(json!({
            "id": format!("second/joint {what}/{name}"),
            "seconds": of,
            "fastest": seconds[i + 2][0],
            "target": 1.15 * beside,
            "met": of <= 1.15 * beside,
            "repeats": repeats,
            "ratio_of_fastest": seconds[i + 2][0] / seconds[i][0],
            "median_ratio": median(&mut ratios[i]),
        }));
    }
    Ok(())
}

/// A whole Hessian beside the product of the rows with themselves in double precision.
fn hessian(out: &mut Vec<Json>, records: usize, columns: usize) -> Result<(), Failure> {
    let data = data(records, columns)?;
    let mut means = means(&data, Glm::Logistic)?;
    let point = &vec![0.1; columns];
    let radius = ClipNorm::new(1.0)?;
    let query = HessianMatrix { point, radius };
    let start = now();
    black_box(means.release(&query, Which::All, NoiseMultiplier::new(1.0)?)?);
    let seconds = start.elapsed().as_secs_f64();
    const BLOCK: usize = 256;
    let mut number = numbers(3);
    let block: Vec<f64> = (0..BLOCK * columns).map(|_| number()).collect();
    let turned: Vec<f64> = (0..BLOCK * columns)
        .map(|k| block[k % BLOCK * columns + k / BLOCK])
        .collect();
    let (mut product, mut total) = (vec![0.0; columns * columns], vec![0.0; columns * columns]);
    let start = now();
    for _ in 0..records.div_ceil(BLOCK) {
        let packed = Packed::new(BLOCK, columns, |i, j| block[i * columns + j]);
        packed.multiply(&turned, &mut product);
        total.iter_mut().zip(&product).for_each(|(t, p)| *t += p);
    }
    black_box(total);
    let half = 0.5 * start.elapsed().as_secs_f64();
    out.push(json!({
        "id": format!("second/hessian/{records}x{columns}"),
        "seconds": seconds,
        "fastest": seconds,
        "target": 4.0 * half,
        "met": seconds <= 4.0 * half,
        "repeats": 1,
        "half_of_a_product": half,
        "times_that": seconds / half,
    }));
    Ok(())
}

/// An oracle, and the time that it takes for its answers.
struct Timed<O>(O, f64);

impl<O: Oracle> Oracle for Timed<O> {
    fn facts(&self) -> OracleFacts {
        self.0.facts()
    }

    fn books(&mut self) -> &mut Books {
        self.0.books()
    }

    fn answer(&mut self, question: Question<'_>) -> Result<Answer, AskError> {
        let start = now();
        let answer = self.0.answer(question);
        self.1 += start.elapsed().as_secs_f64();
        answer
    }
}

/// `sosp` as it plans.
fn sosp(out: &mut Vec<Json>, records: usize, columns: usize) -> Result<(), Failure> {
    let data = data(records, columns)?;
    let constants = Glm::Welsch.constants_within(1.0, Some(1.0));
    let facts = PublicFacts::glm(records as u64, columns, RELATION, 1.0, constants)?;
    let budget = Budget {
        epsilon: Epsilon::new(1.0)?,
        delta: Delta::new(1e-6)?,
    };
    let plan = SospPlan::new(
        &facts,
        &HessianFacts::of(&constants),
        &budget,
        SospSettings::new(100_000),
    )?;
    let curator = Curator::simulated(RELATION, 1);
    let means = PrivateMean::new(&data, Glm::Welsch, curator)?.with_hessians();
    let mut timed = Timed(means, 0.0);
    let start = now();
    let outcome = plan.run_from(&vec![0.0; columns], &mut timed, &mut NoObserver)?;
    let seconds = start.elapsed().as_secs_f64();
    let share = timed.1 / seconds;
    out.push(json!({
        "id": format!("second/sosp/{records}x{columns}"),
        "seconds": seconds,
        "fastest": seconds,
        "target": seconds * share / 0.9,
        "met": share >= 0.9,
        "repeats": 1,
        "share_in_answers": share,
        "steps": outcome.steps,
        "stop": format!("{:?}", outcome.stop),
    }));
    Ok(())
}

/// Plans of every saddle solver for the sizes of Census-Income, equal opportunity of two groups without clips: most of them say nothing there,
/// and search longest.
fn plans(out: &mut Vec<Json>, repeats: usize) -> Result<(), Failure> {
    let shares = CellShares::new(vec![
        [Some(0.508), Some(0.0133)],
        [Some(0.43), Some(0.0487)],
    ])?;
    let none = BlockClips {
        x: f64::INFINITY,
        y: f64::INFINITY,
    };
    let loss = Scored::new(EqualOpportunity::new(&shares, 1.0)?, none);
    let facts = SaddleFacts::scored(199_523, RELATION, 535, 4.4, &loss);
    let allowance = Allowance::all(&Budget {
        epsilon: Epsilon::new(1.0)?,
        delta: Delta::new(1e-6)?,
    });
    let limits = SaddleLimits::steps(1_000_000);
    for solver in SOLVERS {
        let mut planned = false;
        let mut seconds = Vec::new();
        for _ in 0..repeats {
            let start = now();
            planned = black_box(solver.plan_within(&facts, &allowance, &limits)).is_ok();
            seconds.push(start.elapsed().as_secs_f64());
        }
        let seconds = median(&mut seconds);
        out.push(json!({
            "id": format!("second/plan {solver}"),
            "seconds": seconds,
            "target": 0.05,
            "met": seconds <= 0.05,
            "repeats": repeats,
            "planned": planned,
        }));
    }
    Ok(())
}

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let quick = words.iter().any(|word| word == "--quick");
    let only = words.iter().position(|word| word == "--only");
    let only = only.map(|at| words.get(at + 1).map_or("", String::as_str));
    if only.is_some_and(|part| !["rows", "joint", "plans", "hessian", "sosp"].contains(&part)) {
        return Err("--only rows, joint, plans, hessian or sosp".into());
    }
    let wanted = |part: &str| only.is_none_or(|only| only == part);
    let (repeats, divide) = if quick { (5, 10) } else { (21, 1) };
    let mut out = Vec::new();
    if wanted("rows") {
        all_rows(&mut out, repeats, divide)?;
    }
    if wanted("joint") {
        let cells = in_cells(100_000 / divide, 100)?;
        let shares = CellShares::even(4)?;
        let dro = GroupDro::new(&shares, false, 0.1)?;
        joint(&mut out, "group-dro", &cells, dro, repeats)?;
        let equal = EqualOpportunity::new(&shares, 0.1)?;
        joint(&mut out, "equal-opportunity", &cells, equal, repeats)?;
        joint(&mut out, "auc", &cells, AucSaddle::new(&shares)?, repeats)?;
    }
    if wanted("plans") {
        plans(&mut out, repeats)?;
    }
    if wanted("hessian") {
        hessian(&mut out, 200_000 / divide / divide, 535)?;
    }
    if wanted("sosp") {
        sosp(&mut out, 100_000 / divide, 100)?;
    }
    println!("{}", serde_json::to_string_pretty(&out)?);
    Ok(())
}

/// Rows of every loss.
fn all_rows(out: &mut Vec<Json>, repeats: usize, divide: usize) -> Result<(), Failure> {
    let wide = data(100_000 / divide, 100)?;
    rows(out, "logistic", &wide, Glm::Logistic, repeats)?;
    rows(out, "welsch", &wide, Glm::Welsch, repeats)?;
    let ball = ClipNorm::new(2.0)?;
    let phase = QuadraticLink::phase_retrieval(Glm::Welsch, ball);
    rows(out, "phase-retrieval", &wide, phase, repeats)?;
    let eight = NonZeroUsize::new(8).ok_or("none")?;
    let small = data(20_000 / divide, 49)?;
    let link = QuadraticLink::new(Glm::Logistic, eight, ball);
    rows(out, "link-8", &small, link, repeats)?;
    let network = Network::new(8, Activation::Tanh, Glm::Logistic)?;
    rows(out, "network-8", &small, network, repeats)?;
    let mlp = Mlp::new(&[49, 32, 2], Activation::Tanh, Head::Softmax)?;
    rows(out, "perceptron-32", &small, mlp, repeats)
}
