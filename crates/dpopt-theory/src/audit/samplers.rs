//! Audits of the samplers themselves: integer noise on an integer.

use dpopt_privacy::accounting::zcdp;
use dpopt_privacy::noise::{
    DiscreteGaussian, DiscreteLaplace, KeyedStream, Purpose, ReplayKeyForTests, RoundedGaussian,
    StreamId,
};
use dpopt_privacy::{Delta, Rho};

use super::{AuditError, Canary, Claim, Registry, Statistic, World};

const GROUP: &str = "samplers";
const DELTA: f64 = 1e-6;
/// By how many steps the canary moves the value.
const SHIFT: i128 = 3;

pub(super) fn register(registry: &mut Registry) -> Result<(), AuditError> {
    let shift = SHIFT as f64;
    let runs = (100_000, 1_000_000);

    let rounded = RoundedGaussian::new(2.0 * shift)?;
    registry.add(
        canary(
            "rounded-gaussian/canary",
            Claim::gaussian(0.5, DELTA)?,
            Statistic::GaussianDp,
            move |stream| rounded.sample(stream),
        )
        .with_runs(runs.0, runs.1),
    );

    // zCDP only: the conversion to Gaussian DP is not valid here.
    let discrete = DiscreteGaussian::new(shift)?;
    let claim = Claim {
        epsilon: zcdp::epsilon(Rho::new(0.5)?, Delta::new(DELTA)?),
        delta: DELTA,
        mu: None,
    };
    registry.add(
        canary(
            "discrete-gaussian/canary",
            claim,
            Statistic::ApproximateDp,
            move |stream| discrete.sample(stream),
        )
        .with_runs(runs.0, runs.1),
    );

    let laplace = DiscreteLaplace::new(1.0 / shift)?;
    registry.add(
        canary(
            "discrete-laplace/canary",
            Claim::pure(1.0),
            Statistic::ApproximateDp,
            move |stream| laplace.sample(stream),
        )
        .with_runs(runs.0, runs.1),
    );
    Ok(())
}

fn canary(
    name: &str,
    claim: Claim,
    statistic: Statistic,
    draw: impl Fn(&mut KeyedStream) -> i128 + Send + Sync + 'static,
) -> Canary {
    Canary::new(name, GROUP, claim, statistic, move |world, seed| {
        let key = ReplayKeyForTests::from_seed(seed);
        let noise = draw(&mut key.stream(StreamId::new(Purpose::Noise, 0)));
        let value = if world == World::In { SHIFT } else { 0 };
        Ok((value + noise) as f64)
    })
}
