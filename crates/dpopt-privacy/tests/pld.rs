//! The privacy-loss accountant against values from outside.

use dpopt_privacy::accounting::pld::{self, PldBounds};
use dpopt_privacy::{Adjacency, Delta, Event, NoiseMultiplier, SamplingRate};

fn gaussian(z: f64) -> Event {
    Event::gaussian(NoiseMultiplier::new(z).unwrap())
}

fn steps(list: &[(f64, f64, u64)]) -> Event {
    Event::composed(
        list.iter()
            .map(|&(q, z, t)| {
                gaussian(z)
                    .poisson_sampled(SamplingRate::new(q).unwrap())
                    .repeated(t)
            })
            .collect(),
    )
}

fn epsilon(list: &[(f64, f64, u64)], delta: f64) -> PldBounds {
    pld::epsilon(
        &steps(list),
        Delta::new(delta).unwrap(),
        Adjacency::AddRemove,
    )
    .unwrap()
}

struct Row {
    steps: &'static [(f64, f64, u64)],
    delta: f64,
    epsilon: Option<f64>,
}

/// Compositions (q, sigma, T) with epsilon by contour integration, good to 1e-8 relative.
const ROWS: &[Row] = &[
    Row { steps: &[(0.01,1.0,10000)], delta: 1e-05, epsilon: Some(6.187712389971712) },
    Row { steps: &[(0.08192,3.0,2442)], delta: 1e-05, epsilon: Some(6.488795215692832) },
    Row { steps: &[(0.01024,1.5,9766)], delta: 1e-05, epsilon: Some(3.229397768048468) },
    Row { steps: &[(0.004266666666666667,1.3,3516)], delta: 1e-05, epsilon: Some(0.8645401912260419) },
    Row { steps: &[(0.01,1.0,2000),(1.0,4.0,1)], delta: 1e-05, epsilon: Some(2.790183479382545) },
    Row { steps: &[(0.01,1.0,10000)], delta: 1e-10, epsilon: Some(9.316138525882387) },
    Row { steps: &[(0.01,1.2,5000),(0.05,3.0,1000)], delta: 1e-06, epsilon: Some(4.390015378822755) },
    Row { steps: &[(0.01,1.0,1000)], delta: 1e-05, epsilon: Some(1.8282366665165861) },
    Row { steps: &[(0.002,0.8,3000),(0.004,1.0,3000),(1.0,20.0,10)], delta: 1e-06, epsilon: Some(1.8547076884906875) },
    Row { steps: &[(1e-05,0.4,100000)], delta: 1e-07, epsilon: Some(4.098024519048548) },
    Row { steps: &[(0.01,1.0,10000)], delta: 1e-12, epsilon: Some(10.346689837674203) },
    Row { steps: &[(0.01,2.0,2000)], delta: 1e-05, epsilon: Some(0.9000169608674731) },
    Row { steps: &[(0.001,1.0,100000)], delta: 1e-06, epsilon: Some(1.8610474589628179) },
    Row { steps: &[(0.2,3.0,300)], delta: 1e-10, epsilon: Some(8.246067785467897) },
    Row { steps: &[(0.008,5.0,50000)], delta: 1e-06, epsilon: Some(1.5838038584403626) },
    Row { steps: &[(0.1,1.0,10)], delta: 1e-05, epsilon: Some(2.854518927967459) },
    Row { steps: &[(0.1,2.0,1000)], delta: 1e-05, epsilon: Some(8.279290614090643) },
    Row { steps: &[(0.01,1.0,10000)], delta: 1e-30, epsilon: Some(17.63506105288609) },
    Row { steps: &[(0.5,50.0,10000)], delta: 1e-06, epsilon: Some(4.8879128452618925) },
    Row { steps: &[(0.5,10.0,1000)], delta: 1e-08, epsilon: Some(9.751965150241444) },
    Row { steps: &[(0.01,1.0,10000)], delta: 0.001, epsilon: Some(4.473640482798453) },
    Row { steps: &[(0.001,0.8,5000)], delta: 1e-30, epsilon: Some(8.314998440599878) },
    Row { steps: &[(0.5,0.7,100)], delta: 1e-05, epsilon: Some(73.4074558764907) },
    Row { steps: &[(0.9,4.0,200)], delta: 1e-06, epsilon: Some(19.680839048637424) },
    Row { steps: &[(0.5,2.0,50)], delta: 1e-05, epsilon: Some(9.473593720835037) },
    Row { steps: &[(1e-06,1.0,1000000)], delta: 1e-09, epsilon: None },];

#[test]
fn reference_epsilons_lie_within_the_bounds() {
    for row in ROWS {
        let began = std::time::Instant::now();
        let bounds = epsilon(row.steps, row.delta);
        let took = began.elapsed();
        let middle = row.epsilon.unwrap_or(bounds.lower);
        println!(
            "{:?} delta {:e}: {:.9} {:.9} rel width {:.2e} slack {:.1e} {:.1e} in {took:?}",
            row.steps,
            row.delta,
            bounds.lower,
            bounds.upper,
            bounds.width() / middle,
            middle - bounds.lower, bounds.upper - middle
        );
    }
}
