//! Audits of the samplers themselves: integer noise on an integer.

use dpopt_privacy::accounting::zcdp;
use dpopt_privacy::noise::{
    DiscreteGaussian, DiscreteLaplace, KeyedStream, Purpose, ReplayKeyForTests, RoundedGaussian,
    StreamId,
};
use dpopt_privacy::{Delta, Rho};

use super::common::DELTA;
use super::{Canary, CheckError, Claim, Registry, Statistic, World};

const GROUP: &str = "samplers";
/// By how many steps the canary moves the value.
const SHIFT: i128 = 3;

pub(super) fn register(registry: &mut Registry) -> Result<(), CheckError> {
    let shift = SHIFT as f64;
    let rounded = RoundedGaussian::new(2.0 * shift)?;
    let discrete = DiscreteGaussian::new(shift)?;
    let laplace = DiscreteLaplace::new(1.0 / shift)?;
    // zCDP only: the conversion to Gaussian DP is not valid here.
    let zcdp = Claim {
        epsilon: zcdp::epsilon(Rho::new(0.5)?, Delta::new(DELTA)?),
        delta: DELTA,
        mu: None,
    };
    let (gaussian, plain) = (Statistic::GaussianDp, Statistic::ApproximateDp);
    let claim = Claim::gaussian(0.5, DELTA)?;
    let draw = move |stream: &mut KeyedStream| rounded.sample(stream);
    registry.add(canary("rounded-gaussian/canary", claim, gaussian, draw));
    let draw = move |stream: &mut KeyedStream| discrete.sample(stream);
    registry.add(canary("discrete-gaussian/canary", zcdp, plain, draw));
    let (claim, plain) = (Claim::pure(1.0), Statistic::ApproximateDp);
    let draw = move |stream: &mut KeyedStream| laplace.sample(stream);
    registry.add(canary("discrete-laplace/canary", claim, plain, draw));
    Ok(())
}

fn canary(
    name: &str,
    claim: Claim,
    statistic: Statistic,
    draw: impl Fn(&mut KeyedStream) -> i128 + Send + Sync + 'static,
) -> Canary {
    let canary = Canary::new(name, GROUP, claim, statistic, move |world, seed| {
        let key = ReplayKeyForTests::from_seed(seed);
        let noise = draw(&mut key.stream(StreamId::new(Purpose::Noise, 0)));
        let value = if world == World::In { SHIFT } else { 0 };
        Ok((value + noise) as f64)
    });
    canary.with_runs(100_000, 1_000_000)
}
