//! Audits of the samplers themselves: integer noise on an integer.

use dpopt_privacy::noise::{KeyedStream, Purpose, ReplayKeyForTests, RoundedGaussian, StreamId};

use super::common::DELTA;
use super::{Canary, CheckError, Claim, Registry, Statistic, World};

const GROUP: &str = "samplers";
/// By how many steps the canary moves the value.
const SHIFT: i128 = 3;

pub(super) fn register(registry: &mut Registry) -> Result<(), CheckError> {
    let shift = SHIFT as f64;
    let rounded = RoundedGaussian::new(2.0 * shift)?;
    let gaussian = Statistic::GaussianDp;
    let claim = Claim::gaussian(0.5, DELTA)?;
    let draw = move |stream: &mut KeyedStream| rounded.sample(stream);
    registry.add(canary("rounded-gaussian/canary", claim, gaussian, draw));
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
