//! The costs that matter: exact noise, one clipped pass, planning, accounting.
//!
//! Run with `cargo bench -p dpopt-benches`.

use std::hint::black_box;
use std::num::NonZeroUsize;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use dpopt::nonconvex::{ExtraFacts, HessianFacts, KlCondition, Limits, SOLVERS};
use dpopt::prelude::*;
use dpopt::privacy::noise::{Purpose, ReplayKeyForTests, RoundedGaussian, StreamId};
use dpopt::privacy::{Spend, accounting::calibrate};

/// One exact draw, per coordinate of a release.
fn noise(c: &mut Criterion) {
    let mut group = c.benchmark_group("rounded-gaussian");
    let key = ReplayKeyForTests::from_seed(1);
    let mut out = vec![0i128; 1000];
    group.throughput(Throughput::Elements(out.len() as u64));
    for scale in [0.5, 1000.25, 2f64.powi(34)] {
        let sampler = RoundedGaussian::new(scale).unwrap();
        group.bench_function(BenchmarkId::from_parameter(scale), |b| {
            let mut stream = key.stream(StreamId::new(Purpose::Noise, 0));
            b.iter(|| sampler.fill(&mut stream, black_box(&mut out)));
        });
    }
    group.finish();
}

/// A sparse problem of the shape of Census-Income: 20 entries in a row of 500 features.
fn data(records: usize) -> PrivateData {
    let mut design = Design::sparse(500).unwrap();
    let mut labels = Vec::new();
    let mut state = 1u64;
    for _ in 0..records {
        let row: Vec<(u32, f32)> = (0..20)
            .map(|group| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (group * 25 + ((state >> 33) % 25) as u32, 0.5)
            })
            .collect();
        design.push_row(&row).unwrap();
        labels.push(if state >> 63 == 0 { 1.0 } else { -1.0 });
    }
    let norm = ClipNorm::new(4.0).unwrap();
    PrivateData::made_up(design, labels, norm, Adjacency::ReplaceOne, None).unwrap()
}

/// One full-batch release: inner products, clipping, exact sum, noise.
fn pass(c: &mut Criterion) {
    let records = 100_000;
    let data = data(records);
    let mut group = c.benchmark_group("full-batch-release");
    group.throughput(Throughput::Elements(records as u64));
    group.sample_size(20);
    for threads in [1, 2] {
        group.bench_function(BenchmarkId::new("threads", threads), |b| {
            let mut curator = Curator::simulated(Adjacency::ReplaceOne, 1);
            let multiplier = NoiseMultiplier::new(10.0).unwrap();
            let event = Event::gaussian(multiplier).repeated(1 << 40);
            let _ = curator.reserve(&Spend::Fixed(event));
            let mut estimator = PrivateGradient::new(&data, Glm::Logistic, curator)
                .unwrap()
                .with_threads(NonZeroUsize::new(threads).unwrap());
            let point = vec![0.01; data.dim()];
            b.iter(|| black_box(estimator.refresh(&point, multiplier).unwrap().noise_std));
        });
    }
    group.finish();
}

fn planning(c: &mut Criterion) {
    let constants = Glm::Logistic.constants(4.0);
    let facts = PublicFacts::glm(100_000, 500, Adjacency::ReplaceOne, 4.0, constants).unwrap();
    let budget = Budget {
        epsilon: Epsilon::new(1.0).unwrap(),
        delta: Delta::new(1e-6).unwrap(),
    };
    let mut group = c.benchmark_group("plan");
    group.sample_size(20);
    let extra = ExtraFacts::default()
        .with_radius(1.0)
        .with_kl(KlCondition::polyak_lojasiewicz(1.0).unwrap())
        .with_hessian(HessianFacts::of(&constants));
    let limits = Limits::steps(100_000);
    for solver in SOLVERS {
        group.bench_function(BenchmarkId::from_parameter(solver), |b| {
            // A plan that says nothing takes as long.
            b.iter(|| black_box(solver.plan(&facts, &extra, &budget, &limits).is_ok()));
        });
    }
    group.finish();
}

fn accounting(c: &mut Criterion) {
    let delta = Delta::new(1e-5).unwrap();
    let event = |z| {
        Event::gaussian(z)
            .poisson_sampled(SamplingRate::new(0.01).unwrap())
            .repeated(1000)
    };
    let one = event(NoiseMultiplier::new(1.0).unwrap());
    let mut group = c.benchmark_group("dp-sgd-epsilon");
    group.sample_size(20);
    for accountant in [Accountant::Rdp, Accountant::Pld] {
        group.bench_function(BenchmarkId::from_parameter(accountant), |b| {
            b.iter(|| {
                black_box(
                    accountant
                        .epsilon(&one, delta, Adjacency::AddRemove)
                        .unwrap(),
                )
            });
        });
        group.bench_function(BenchmarkId::new("calibrate", accountant), |b| {
            b.iter(|| {
                let target = Epsilon::new(1.0).unwrap();
                black_box(
                    calibrate::noise_multiplier(
                        accountant,
                        target,
                        delta,
                        Adjacency::AddRemove,
                        event,
                    )
                    .unwrap(),
                )
            });
        });
    }
    group.finish();
}

criterion_group!(benches, noise, pass, planning, accounting);
criterion_main!(benches);
