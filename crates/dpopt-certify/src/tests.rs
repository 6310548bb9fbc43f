//! Certificates of generalised linear means against difference quotients and closed forms.

use dpopt_linalg::{Design, LanczosSettings, dot, norm};
use dpopt_oracle::{ClosureLoss, Glm, PublicData, PublicRecords, QuadraticLink, Softmax};
use dpopt_privacy::ClipNorm;
use proptest::prelude::*;

use super::*;
use crate::problem::Problem;
use crate::random::Normals;

fn glm(data: &PublicData, loss: Glm) -> GlmMean<'_> {
    GlmMean::new(data, loss).unwrap()
}

fn by(method: EigenMethod) -> SecondOrderSettings {
    SecondOrderSettings {
        method,
        ..SecondOrderSettings::default()
    }
}

fn spectral(objective: &impl Curved, point: &[f64]) -> SecondOrder {
    second_order(objective, point, &by(EigenMethod::Auto)).unwrap()
}

fn data(rows: &[[f64; 3]], labels: &[f32]) -> PublicData {
    let design = Design::dense(3, rows.iter().flatten().copied().collect()).unwrap();
    PublicData::new(design, labels.to_vec()).unwrap()
}

fn rows() -> impl Strategy<Value = (Vec<[f64; 3]>, Vec<f32>, [f64; 3])> {
    (1usize..12).prop_flat_map(|n| {
        (
            prop::collection::vec(prop::array::uniform3(-1.0..1.0f64), n),
            prop::collection::vec(prop_oneof![Just(-1.0f32), Just(1.0f32)], n),
            prop::array::uniform3(-2.0..2.0f64),
        )
    })
}

proptest! {
    #[test]
    fn certificates_are_derivatives_of_the_mean_loss((rows, labels, point) in rows()) {
        let data = data(&rows, &labels);
        for loss in Glm::SMOOTH {
            let value = |w: &[f64]| first_order(&glm(&data, loss), w).unwrap().value;
            let shifted = |j: usize, h: f64| {
                let mut w = point;
                w[j] += h;
                w
            };
            let h = 1e-5;
            let numeric: Vec<f64> = (0..3)
                .map(|j| (value(&shifted(j, h)) - value(&shifted(j, -h))) / (2.0 * h))
                .collect();
            let exact = first_order(&glm(&data, loss), &point).unwrap().gradient_norm;
            prop_assert!((norm(&numeric) - exact).abs() < 1e-8);

            let second = spectral(&glm(&data, loss), &point);
            prop_assert!((second.gradient_norm - exact).abs() < 1e-15);
            prop_assert!((norm(&second.direction) - 1.0).abs() < 1e-12);
            // The second difference along the direction is the eigenvalue.
            let along = |t: f64| {
                let w: Vec<f64> =
                    point.iter().zip(&second.direction).map(|(w, v)| w + t * v).collect();
                value(&w)
            };
            let t = 1e-3;
            let numeric = (along(t) - 2.0 * along(0.0) + along(-t)) / (t * t);
            prop_assert!((numeric - second.least_eigenvalue).abs() < 1e-4, "{loss}");
            // And no direction has less curvature.
            let curvature = |v: &[f64]| -> f64 {
                rows.iter().zip(&labels).map(|(x, y)| {
                    loss.curvature(dot(x, &point), f64::from(*y)) * dot(x, v).powi(2)
                }).sum::<f64>() / rows.len() as f64
            };
            for v in [[1.0, 0.0, 0.0], [0.0, 0.6, 0.8], [0.48, 0.6, -0.64]] {
                prop_assert!(curvature(&v) >= second.least_eigenvalue - 1e-12);
            }
        }
    }
}

#[test]
fn sparse_and_dense_agree() {
    let rows: [[f64; 3]; 3] = [[0.5, 0.0, -0.25], [0.0, 0.0, 0.0], [0.0, 1.0, 0.125]];
    let dense = data(&rows, &[1.0, -1.0, -1.0]);
    let mut design = Design::sparse(3).unwrap();
    design.push_row(&[(0, 0.5), (2, -0.25)]).unwrap();
    design.push_row(&[]).unwrap();
    design.push_row(&[(1, 1.0), (2, 0.125)]).unwrap();
    let sparse = PublicData::new(design, vec![1.0, -1.0, -1.0]).unwrap();
    let w = [0.3, -0.7, 1.1];
    let (a, b) = (
        spectral(&glm(&dense, Glm::Sigmoid), &w),
        spectral(&glm(&sparse, Glm::Sigmoid), &w),
    );
    assert!((a.least_eigenvalue - b.least_eigenvalue).abs() < 1e-15);
    assert!((a.gradient_norm - b.gradient_norm).abs() < 1e-15);
}

#[test]
fn a_saddle_is_seen() {
    // Two antipodal Welsch records at distance 2 from the point: zero gradient, curvature -3 e^-2.
    let data = data(&[[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]], &[2.0, -2.0]);
    let at = spectral(&glm(&data, Glm::Welsch), &[0.0; 3]);
    assert!(at.gradient_norm < 1e-16);
    assert!((at.least_eigenvalue + 3.0 * (-2f64).exp()).abs() < 1e-15);
    assert!((at.direction[0].abs() - 1.0).abs() < 1e-12);
}

#[test]
fn what_can_not_be_certified_is_an_error() {
    let one = data(&[[1.0, 0.0, 0.0]], &[1.0]);
    let objective = glm(&one, Glm::Logistic);
    assert_eq!(
        first_order(&objective, &[0.0; 2]).err(),
        Some(CertificateError::Dimension {
            objective: 3,
            point: 2
        })
    );
    assert_eq!(
        first_order(&objective, &[f64::NAN, 0.0, 0.0]).err(),
        Some(CertificateError::NotFinite("point"))
    );
    let empty = PublicData::new(Design::sparse(3).unwrap(), vec![]).unwrap();
    assert_eq!(
        GlmMean::new(&empty, Glm::Logistic).err(),
        Some(CertificateError::NoRecords)
    );
    let bad = PublicData::new(
        Design::dense(3, vec![f64::NAN, 0.0, 0.0]).unwrap(),
        vec![1.0],
    )
    .unwrap();
    let bad = glm(&bad, Glm::Logistic);
    assert!(first_order(&bad, &[0.0; 3]).is_err());
    assert!(second_order(&bad, &[0.0; 3], &by(EigenMethod::Dense)).is_err());
    assert!(second_order(&bad, &[0.0; 3], &by(EigenMethod::Lanczos)).is_err());
    let dim = MAX_HESSIAN_DIM + 1;
    let mut wide = Design::sparse(dim).unwrap();
    wide.push_row(&[(0, 1.0)]).unwrap();
    let wide = PublicData::new(wide, vec![1.0]).unwrap();
    let wide = glm(&wide, Glm::Logistic);
    assert_eq!(
        second_order(&wide, &vec![0.0; dim], &by(EigenMethod::Dense)).err(),
        Some(CertificateError::TooManyDimensions {
            dim,
            limit: MAX_HESSIAN_DIM
        })
    );
    assert!(first_order(&wide, &vec![0.0; dim]).is_ok());
    // phi''(0) = 1/4 on one coordinate, 0 on all others: the least is 0.
    let found = spectral(&wide, &vec![0.0; dim]);
    assert!(found.least_eigenvalue.abs() < 1e-15 && found.method == EigenMethod::Lanczos);
}

/// Rows of normals, with labels that a plane decides.
fn rows_of(dim: usize, count: usize, seed: u64) -> (Design, Vec<f32>) {
    let mut random = Normals::new(seed);
    let entries = random.vector(dim * count);
    let labels = entries
        .chunks_exact(dim)
        .map(|x| if x[0] > 0.2 { 1.0 } else { -1.0 })
        .collect();
    (Design::dense(dim, entries).unwrap(), labels)
}

#[test]
fn products_and_the_dense_spectrum_agree() {
    for (dim, seed) in [(3, 1), (40, 2), (150, 3)] {
        let (design, labels) = rows_of(dim, 200, seed);
        let data = PublicData::new(design, labels).unwrap();
        for loss in Glm::SMOOTH {
            let objective = glm(&data, loss);
            let point = Normals::new(seed + 10).vector(dim);
            let dense = second_order(&objective, &point, &by(EigenMethod::Dense)).unwrap();
            let found = second_order(&objective, &point, &by(EigenMethod::Lanczos)).unwrap();
            let error = (dense.least_eigenvalue - found.least_eigenvalue).abs();
            // Saturated records leave eigenvalues crowded at 0: the bound says so where it is not
            // converged, and holds in any case.
            assert!(error <= found.beyond + 1e-14, "{loss} {dim} {error:e}");
            assert!(error < 1e-6, "{loss} {dim} {error:e}");
            // Room for all directions: exact, at the price of memory.
            let mut wide = by(EigenMethod::Lanczos);
            wide.lanczos.basis = dim.max(4);
            let full = second_order(&objective, &point, &wide).unwrap();
            assert!(full.converged && full.products <= dim + 1);
            assert!((dense.least_eigenvalue - full.least_eigenvalue).abs() < 1e-12);
            assert!(found.interval().0 <= dense.least_eigenvalue);
        }
    }
}

/// The mean of any loss, against the one for generalised linear losses and against quotients.
#[test]
fn means_of_any_loss() {
    let (design, labels) = rows_of(6, 40, 5);
    let wide = ClipNorm::new(100.0).unwrap();
    let records = PublicRecords::new(design.clone(), labels.clone(), wide).unwrap();
    let data = PublicData::new(design, labels).unwrap();
    let point = Normals::new(8).vector(6);
    let general = MeanLoss::new(&records, &Glm::Sigmoid).unwrap();
    let special = glm(&data, Glm::Sigmoid);
    let (a, b) = (spectral(&general, &point), spectral(&special, &point));
    assert!((a.least_eigenvalue - b.least_eigenvalue).abs() < 1e-14);
    assert!((a.gradient_norm - b.gradient_norm).abs() < 1e-14);

    let phase = QuadraticLink::phase_retrieval(Glm::Welsch, ClipNorm::new(100.0).unwrap());
    let general = MeanLoss::new(&records, &phase).unwrap();
    check_against_quotients(&general, &point);
    let softmax = Softmax::new(3).unwrap();
    let general = MeanLoss::new(&records, &softmax).unwrap();
    check_against_quotients(&general, &Normals::new(9).vector(Objective::dim(&general)));
    let none = PublicRecords::of(Vec::<f64>::new());
    let closure = ClosureLoss::new(
        1,
        dpopt_oracle::Constants::new(1.0, 1.0, 1.0, dpopt_oracle::Convexity::Nonconvex),
        |_: &f64, _: &[f64]| 0.0,
        |_: &f64, _: &[f64], _: &mut [f64]| (),
    );
    assert!(MeanLoss::new(&none, &closure).is_err());
}

fn check_against_quotients(objective: &impl Curved, point: &[f64]) {
    let h = 1e-5;
    let dim = point.len();
    let shifted = |j: usize, h: f64| {
        let mut w = point.to_vec();
        w[j] += h;
        w
    };
    let gradient_of = |w: &[f64]| {
        let mut out = vec![0.0; dim];
        objective.gradient(w, &mut out);
        out
    };
    let gradient = gradient_of(point);
    for j in 0..dim {
        let (up, down) = (shifted(j, h), shifted(j, -h));
        let quotient = (objective.value(&up) - objective.value(&down)) / (2.0 * h);
        assert!((quotient - gradient[j]).abs() < 1e-7);
        let mut unit = vec![0.0; dim];
        unit[j] = 1.0;
        let mut column = vec![0.0; dim];
        objective.hessian_vector(point, &unit, &mut column);
        for (i, (a, b)) in gradient_of(&up).iter().zip(gradient_of(&down)).enumerate() {
            assert!(((a - b) / (2.0 * h) - column[i]).abs() < 1e-6);
            let matrix = objective.hessian(point);
            assert!((matrix[i.max(j) * dim + i.min(j)] - column[i]).abs() < 1e-12);
        }
    }
}

/// sum a_j (1 - cos w_j): Hessian diag(a_j cos w_j) in closed form.
struct Cosines(Vec<f64>);

impl Problem for Cosines {
    fn dim(&self) -> usize {
        self.0.len()
    }
    fn constants(&self) -> ProblemConstants {
        let smoothness = self.0.iter().fold(0.0, |a, x| x.abs().max(a));
        let gap = self.0.iter().map(|a| (-2.0 * a).max(0.0)).sum();
        ProblemConstants::first_order(norm(&self.0), smoothness, gap)
    }
    fn value(&self, w: &[f64]) -> f64 {
        self.0.iter().zip(w).map(|(a, w)| a * (1.0 - w.cos())).sum()
    }
    fn gradient(&self, w: &[f64], out: &mut [f64]) {
        for (out, (a, w)) in out.iter_mut().zip(self.0.iter().zip(w)) {
            *out = a * w.sin();
        }
    }
}

impl Curved for Cosines {
    fn hessian_vector(&self, w: &[f64], v: &[f64], out: &mut [f64]) {
        for (i, out) in out.iter_mut().enumerate() {
            *out = self.0[i] * w[i].cos() * v[i];
        }
    }
}

#[test]
fn a_hundred_thousand_dimensions_in_closed_form() {
    let dim = 100_000;
    let problem = Cosines((0..dim).map(|i| 1.0 + (i as f64 * 0.1).sin()).collect());
    let mut point: Vec<f64> = (0..dim)
        .map(|i| if i % 2 == 0 { 0.3 } else { 1.4 })
        .collect();
    // One coordinate at the top of its cosine: a saddle.
    point[777] = std::f64::consts::PI;
    let exact = -problem.0[777];
    let found = second_order(&problem, &point, &SecondOrderSettings::default()).unwrap();
    assert!(found.converged);
    assert!((found.least_eigenvalue - exact).abs() < 1e-9);
    assert!(found.direction[777].abs() > 1.0 - 1e-9);
    let (low, high) = found.interval();
    assert!(low <= exact && exact <= high + 1e-12 && high - low < 1e-6);
}

#[test]
fn verdicts_need_their_bounds() {
    let problem = Cosines(vec![1.0, 1.0, -0.5]);
    // At 0: gradient 0, least eigenvalue -0.5.
    let at = spectral(&problem, &[0.0; 3]);
    assert_eq!(at.is_sosp(0.01, 1.0), Verdict::No);
    assert_eq!(at.is_sosp(0.3, 1.0), Verdict::Yes);
    // The gradient decides alone.
    let at = spectral(&problem, &[1.0, 0.0, std::f64::consts::PI]);
    assert_eq!(at.is_sosp(0.5, 1.0), Verdict::No);
    assert_eq!(at.is_sosp(0.9, 1.0), Verdict::Yes);
    // Few products can't tell.
    let problem = Cosines((0..2000).map(|i| i as f64 / 2000.0).collect());
    let settings = SecondOrderSettings {
        lanczos: LanczosSettings {
            max_products: 5,
            ..LanczosSettings::default()
        },
        ..SecondOrderSettings::default()
    };
    let at = second_order(&problem, &vec![0.0; 2000], &settings).unwrap();
    assert!(!at.converged);
    assert_eq!(at.is_sosp(1e-6, 1.0), Verdict::Undecided);
}

#[test]
fn the_excess_under_a_kl_condition() {
    // r^tau/tau has gamma = tau^(1/tau - 1), kappa = tau/(tau - 1), tight everywhere.
    for tau in [1.5, 2.0, 3.0, 11.0f64] {
        let kl = KlCondition::new(tau.powf(1.0 / tau - 1.0), tau / (tau - 1.0)).unwrap();
        for r in [1e-3f64, 0.5, 2.0] {
            let ratio = kl.ratio(r.powf(tau) / tau, r.powf(tau - 1.0));
            assert!((ratio - 1.0).abs() < 1e-12, "{tau} {r} {ratio}");
        }
    }
    let kl = KlCondition::new(2.0, 2.0).unwrap();
    assert_eq!((kl.excess_bound(0.5), kl.ratio(0.0, 0.0)), (1.0, 0.0));
    assert_eq!(kl.ratio(1.0, 0.0), f64::INFINITY);
    assert!(KlCondition::new(0.0, 2.0).is_err() && KlCondition::new(1.0, 0.5).is_err());
}
