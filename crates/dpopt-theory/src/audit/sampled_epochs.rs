//! Audits of samples of slices that come again under banded noise, by coins and by allocations: kinds of factors, rates, what must be
//! refused, canaries against the amplified claims, and broken twins.
//!
//! A replay draws the changed record in every step of its slice, and compares with the claim of as many releases that are not sampled;
//! the canary is drawn as it comes, and holds the claim with samples.

use dpopt_nonconvex::{Batches, DpMfPlan, DpMfSchedule};
use dpopt_privacy::{
    Accountant, Adjacency, Allocation, Body, Curator, Event, LatticeSum, Participation, PrefixKind,
    SamplingRate, TunedFactor, Which,
};

use super::common::{DELTA, DIM, RELATIONS, bound, noise};
use super::hostile::on_hostile;
use super::mechanisms::{positions, scored};
use super::plans::{MANY, dp_mf};
use super::solvers::walk;
use super::{Canary, CheckError, Claim, Registry, Statistic, World};

const GROUP: &str = "dp-mf-sampled";
/// Of the canaries.
const RATE: f64 = 0.3;
const MULTIPLIER: f64 = 0.9;
/// Their factor: two bands.
const BAND: f64 = 0.5;

pub(super) fn register(registry: &mut Registry) -> Result<(), CheckError> {
    let flat = PrefixKind::Tuned(TunedFactor::new(4, &[1.0, 1.0, 1.0])?);
    for adjacency in RELATIONS {
        let accepted = adjacency.record_count_is_public();
        let plan = |change: &dyn Fn(&mut DpMfSchedule)| -> Result<DpMfPlan, CheckError> {
            let rate = Some(SamplingRate::new(0.4)?);
            dp_mf(adjacency, DIM, |schedule| {
                schedule.sampling_rate = rate;
                change(schedule);
            })
        };
        let mut add = |what: &str, change: &dyn Fn(&mut DpMfSchedule), fine: bool| {
            let plan = plan(change)?;
            let name = format!("{GROUP}/{what}");
            let target = on_hostile(&name, GROUP, (adjacency, MANY as usize), move |means| {
                Ok(walk(&plan, means))
            });
            registry.add(target.refused_unless(accepted && fine));
            Ok::<(), CheckError>(())
        };
        add("replay-level-bands", &|s| s.factor = flat, true)?;
        // Two steps over the records of each slice.
        let half = SamplingRate::new(0.5)?;
        let allocated = |s: &mut DpMfSchedule| {
            (s.sampling_rate, s.batches) = (Some(half), Batches::Allocated);
        };
        let level = |s: &mut DpMfSchedule| {
            allocated(s);
            s.factor = flat;
        };
        add("replay-allocated-level-bands", &level, true)?;
        let wide = |s: &mut DpMfSchedule| s.factor = PrefixKind::Banded { band: 5 };
        add("refused-bands-that-meet", &wide, false)?;
    }
    for how in [Drawn::ByCoins, Drawn::Allocated] {
        registry.add(canary(how, true)?);
        registry.add(canary(how, false)?.control());
    }
    Ok(())
}

/// How a canary enters steps.
#[derive(Clone, Copy)]
enum Drawn {
    ByCoins,
    Allocated,
}

/// Two cycles of two steps over two slices, the canary in the first; sampled, or read always and charged as a sample.
fn canary(how: Drawn, sampled: bool) -> Result<Canary, CheckError> {
    let adjacency = Adjacency::ReplaceOne;
    let rate = SamplingRate::new(RATE)?;
    let allocation = Allocation::to_one_of(2);
    let event = move |scale: f64| {
        let one = Event::gaussian(noise(MULTIPLIER * scale)?);
        let share = match how {
            Drawn::ByCoins => one.poisson_sampled(rate).repeated(2),
            Drawn::Allocated => allocation.event(one),
        };
        Ok(Event::ParallelComposed {
            events: vec![share],
        })
    };
    let whole = event(1.0)?;
    let claim = Claim::of(&whole, DELTA, adjacency)?;
    let statistic = Statistic::Family {
        event: Box::new(event),
        accountant: Accountant::Pld,
        adjacency,
    };
    let score = scored(whole, adjacency, move |curator: &mut Curator, world| {
        let (kind, apart) = (PrefixKind::Banded { band: 2 }, 2);
        let participation = Participation::Sampled { apart };
        curator.open_pool(2, 0)?;
        let slices = [curator.take_slice(1)?, curator.take_slice(1)?];
        let z = noise(MULTIPLIER)?;
        let mut period = curator.prefix(kind, bound(1)?, 4, z, participation)?;
        let canary = if world == World::In { 1.0 } else { -1.0 };
        let (mut released, mut before, mut seen) = (Vec::new(), 0.0, Vec::new());
        for step in 0..4 {
            let slice = &slices[step % 2];
            let which = match how {
                Drawn::ByCoins => Which::Sampled(slice, rate),
                Drawn::Allocated => Which::AllocatedIn(slice, allocation),
            };
            let ticket = period.grant(which, Body::of(2), curator)?;
            let mut sum = LatticeSum::new(bound(1)?);
            let drawn = !positions(ticket.sample()).is_empty();
            if drawn || (!sampled && step % 2 == 0) {
                sum.add_scaled(1.0, &[if step % 2 == 0 { canary } else { 0.0 }]);
            }
            let prefix = period.redeem(ticket, sum, curator)?[0];
            released.push(prefix - before);
            before = prefix;
            if step % 2 == 1 {
                let row = |t: usize| released[t] + if t > 0 { BAND * released[t - 1] } else { 0.0 };
                let rows = [row(step - 1), row(step)];
                seen.push((rows[0] + BAND * rows[1]) / (1.0 + BAND * BAND));
            }
        }
        let deviation = 2.0 * z.get();
        Ok(match how {
            Drawn::ByCoins => seen.iter().map(|&x| evidence(x, deviation)).sum(),
            Drawn::Allocated => evidence_of_one(&seen, deviation),
        })
    });
    let name = match (how, sampled) {
        (Drawn::ByCoins, true) => "canary",
        (Drawn::ByCoins, false) => "canary-that-is-always-drawn",
        (Drawn::Allocated, true) => "allocated-canary",
        (Drawn::Allocated, false) => "allocated-canary-that-is-always-drawn",
    };
    let name = format!("{GROUP}/{name}/{adjacency}");
    Ok(Canary::new(&name, GROUP, claim, statistic, score).with_runs(100_000, 1_000_000))
}

/// Log of how much likelier a number is where a record of size 1 was drawn than where its opposite was.
fn evidence(x: f64, deviation: f64) -> f64 {
    let of = |centre: f64| {
        let density = |mean: f64| (-0.5 * ((x - mean) / deviation).powi(2)).exp();
        ((1.0 - RATE) * density(0.0) + RATE * density(centre)).ln()
    };
    of(1.0) - of(-1.0)
}

/// Log of how much likelier numbers are where a record of size 1 was in one of them, each as likely, than where its opposite was.
fn evidence_of_one(seen: &[f64], deviation: f64) -> f64 {
    // A density at 1 or -1 over that at 0.
    let square = deviation * deviation;
    let of = |sign: f64| -> f64 {
        let each = seen.iter().map(|x| ((sign * x - 0.5) / square).exp());
        each.sum::<f64>().ln()
    };
    of(1.0) - of(-1.0)
}
