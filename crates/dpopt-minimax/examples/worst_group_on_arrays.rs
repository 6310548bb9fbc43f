//! The crate alone, on arrays: a linear score for the group that it serves worst, and a certificate of it.
//!
//! `cargo run --release -p dpopt-minimax --example worst_group_on_arrays`
#![allow(clippy::print_stdout, reason = "an example shows its result")]

use std::num::NonZeroUsize;

use dpopt_linalg::Design;
use dpopt_minimax::{
    Budget, GdaPlan, NoObserver, Plan as _, SaddleFacts, SaddleLimits, ScoredCertificatePlan,
};
use dpopt_oracle::{Cell, CellShares, GroupDro, Joint, PrivateData, PrivateMean, Scored};
use dpopt_privacy::{Adjacency, ClipNorm, Curator, Delta, Epsilon};

const RECORDS: u32 = 20_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Two features and a constant; every eighth record is of the second group, where the second feature tells the class.
    let (mut entries, mut labels) = (Vec::new(), Vec::new());
    for i in 0..RECORDS {
        let group = usize::from(i % 8 == 0);
        let positive = (i / 8) % 2 == 0;
        let sign = if positive { 0.4 } else { -0.4 };
        let noise = 0.3 * f64::from(i).sin();
        let (a, b) = if group == 0 {
            (sign, 0.0)
        } else {
            (-0.5 * sign, sign)
        };
        entries.extend([(a + noise) as f32, (b - noise) as f32, 0.5]);
        labels.push(Cell { positive, group }.label());
    }
    let row_norm = ClipNorm::new(1.2)?;
    let design = Design::dense32(3, entries)?;
    let data = PrivateData::new(design, labels, row_norm, Adjacency::ReplaceOne, None)?;

    // Public shares, of each group its negatives and positives; groups with both of their classes.
    let of = |share| [Some(share), Some(share)];
    let shares = CellShares::new(vec![of(7.0 / 16.0), of(1.0 / 16.0)])?;
    let objective = GroupDro::new(&shares, false, 2.0)?;
    let loss = Scored::with_own_clips(objective.clone(), row_norm.get());

    let budget = Budget {
        epsilon: Epsilon::new(2.0)?,
        delta: Delta::new(1e-6)?,
    };
    let certificate =
        ScoredCertificatePlan::new(&budget, Adjacency::ReplaceOne, (0.1, 0.05), None)?;
    let facts = SaddleFacts::scored(
        u64::from(RECORDS),
        Adjacency::ReplaceOne,
        3,
        row_norm.get(),
        &loss,
    );
    let plan = GdaPlan::new(&facts, &certificate.rest, &SaddleLimits::steps(2000))?;

    // Both parts are named before the first release.
    let mut curator = Curator::protected(Adjacency::ReplaceOne)?;
    curator.promise(&[plan.spend(), certificate.spend()])?;
    let scale = plan.schedule().scale;
    let mut means = PrivateMean::new(&data, Joint::new(loss, scale)?, curator)?;
    let outcome = plan.run_from(&plan.start(), &mut means, &mut NoObserver)?;
    let (x, y) = facts.blocks(scale).split(&outcome.point);
    println!("weights {x:.2?}, groups weigh {y:.2?}");

    let at = (&x[..], &y[..], 1.0);
    let one = NonZeroUsize::MIN;
    let (found, curator) = certificate.release(&objective, &data, at, means.into_curator(), one)?;
    if let Some(found) = found {
        println!(
            "gradient norm of the worst weighted loss at most {:.3} (at most {:.3} by the shares alone)",
            found.gradient, found.gradient_by_shares_alone
        );
    }
    println!("{}", curator.guarantee(budget.delta)?.epsilon());
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
