//! Attacks on the boundary: safe code that holds no more than a reference to private data tries to read it through curators whose
//! noise can be repeated.

use std::mem;

use dpopt_linalg::{Design, JlMap, RowFile, RowFileWriter};
use dpopt_oracle::{
    AskError, ConvexGlm, EstimatorError, ExamplesOnDisk, Glm, Linear, Oracle as _, OutputPerturbed,
    Pass, PrivateData, PrivateGradient, PrivateMean,
};
use dpopt_privacy::{
    Adjacency, ChangedRecord, ClipNorm, Curator, Epsilon, Event, Mode, Refused, ReplayForAudits,
    Spend, Which,
};

use crate::common::{clip, z};

const ROWS: [[f64; 2]; 3] = [[0.6, 0.8], [-0.28, 0.96], [1.0, 0.0]];
const RELATION: Adjacency = Adjacency::ReplaceOne;
const LOSS: Glm = Glm::Logistic;

fn design(rows: [[f64; 2]; 3]) -> Design {
    Design::dense(2, rows.concat()).unwrap()
}

fn secret() -> PrivateData {
    PrivateData::new(design(ROWS), vec![1.0; 3], clip(1.0), RELATION, None).unwrap()
}

fn made_up(rows: [[f64; 2]; 3]) -> PrivateData {
    PrivateData::made_up(design(rows), vec![1.0; 3], clip(1.0), RELATION, None).unwrap()
}

/// What the gradient at the origin gives away of each record: for label 1 it is -x/2.
fn three_slices() -> Spend {
    Spend::Fixed(Event::ParallelComposed {
        events: vec![Event::gaussian(z(1.0))],
    })
}

fn query(at: &[f64]) -> Linear<'_> {
    Linear::field(at, clip(1.0))
}

/// One record at a time, with the noise of a seed.
fn slices(data: &PrivateData, seed: u64) -> Result<Vec<Vec<f64>>, EstimatorError> {
    let mut mean = PrivateMean::new(data, LOSS, Curator::simulated(RELATION, seed))?;
    mean.curator_mut().reserve(&three_slices())?;
    let at = [0.0, 0.0];
    (0..3)
        .map(|_| {
            let released = mean.release(&query(&at), Which::Next(1), z(1.0));
            Ok(released.unwrap().unwrap().mean)
        })
        .collect()
}

fn is_refused<T>(outcome: Result<T, EstimatorError>) -> bool {
    matches!(
        outcome.err(),
        Some(EstimatorError::Refused(Refused::NotMadeUp { .. }))
    )
}

/// The attack of a hostile reading: the same seed on the rows and on rows of zeros, subtracted. It works on rows that their owner
/// declared made-up, to seven digits, which is what a simulation is; on others nothing is released.
#[test]
fn the_same_seed_on_zeros_subtracts_no_noise_from_private_rows() {
    let zeros = slices(&made_up([[0.0; 2]; 3]), 7).unwrap();
    let public = slices(&made_up(ROWS), 7).unwrap();
    for ((row, with), without) in ROWS.iter().zip(&public).zip(&zeros) {
        for j in 0..2 {
            let read = -2.0 * (with[j] - without[j]);
            assert!((read - row[j]).abs() < 1e-6, "{read} {}", row[j]);
        }
    }
    let refused = slices(&secret(), 7);
    assert!(is_refused(refused));
}

/// Nor do the curators of a replay, whose tape compares exact sums.
#[test]
fn replays_are_not_made_of_private_rows() {
    let tape = ReplayForAudits::new(RELATION, 1, ChangedRecord::InPlace(0)).unwrap();
    for curator in [tape.recorder(), tape.replayer()] {
        assert!(is_refused(PrivateMean::new(&secret(), LOSS, curator)));
    }
    assert!(PrivateMean::new(&made_up(ROWS), LOSS, tape.recorder()).is_ok());
}

/// An estimator that was made with a protected curator, exchanged for another one through the reference that it hands out.
#[test]
fn a_curator_that_was_exchanged_releases_nothing() {
    let data = secret();
    let at = [0.0, 0.0];
    let all = Spend::Fixed(Event::gaussian(z(1.0)).repeated(8));
    let mut mean = PrivateMean::new(&data, LOSS, Curator::protected(RELATION).unwrap()).unwrap();
    let mut simulated = Curator::simulated(RELATION, 1);
    simulated.reserve(&all).unwrap();
    let protected = mem::replace(mean.curator_mut(), simulated);
    let refused = |outcome: Option<AskError>| {
        assert!(
            matches!(
                outcome,
                Some(AskError::Refused(Refused::NotMadeUp {
                    mode: Mode::Simulated
                }))
            ),
            "{outcome:?}"
        );
    };
    let over = [Which::All, Which::Next(1), Which::FixedSize(1)];
    for over in over {
        let before = mean.counts();
        refused(mean.release(&query(&at), over, z(1.0)).err());
        refused(mean.release_norm(&query(&at), over, z(1.0)).err());
        refused(mean.release_value(&at, 0.0, clip(1.0), over, z(1.0)).err());
        assert_eq!(mean.counts(), before);
    }
    let epsilon = Epsilon::new(1.0).unwrap();
    mean.curator_mut().settle().unwrap();
    mean.curator_mut()
        .reserve(&Spend::Fixed(Event::ExponentialMechanism { epsilon }))
        .unwrap();
    refused(
        mean.select_least_norm(&[(query(&at), &[][..])], epsilon)
            .err(),
    );
    // Nothing of it was charged, and the first curator is as good as ever.
    assert_eq!(mean.curator().spent(), Event::NoOp);
    *mean.curator_mut() = protected;
    mean.curator_mut().reserve(&all).unwrap();
    assert!(mean.release(&query(&at), Which::All, z(1.0)).is_ok());
}

#[test]
fn passes_with_noise_on_their_output_are_no_way_round() {
    let data = secret();
    let loss = || ConvexGlm::new(Glm::Logistic).unwrap();
    let simulated = || Curator::simulated(RELATION, 1);
    assert!(is_refused(OutputPerturbed::new(&data, loss(), simulated())));
    let protected = Curator::protected(RELATION).unwrap();
    let mut passes = OutputPerturbed::new(&data, loss(), protected).unwrap();
    *passes.curator_mut() = simulated();
    passes.books().reserve(&three_slices()).unwrap();
    let pass = Pass {
        start: &[0.0; 2],
        centre: &[0.0; 2],
        modulus: 0.0,
        step_size: 0.1,
        origin: &[0.0; 2],
        radius: 1.0,
        records: 1,
    };
    assert!(matches!(
        passes.pass(&pass, z(1.0)),
        Err(AskError::Refused(Refused::NotMadeUp { .. }))
    ));
    assert_eq!(passes.curator().records_taken(), 0);
}

/// A projection can be made of a reference. It is as private as what it is of.
#[test]
fn projections_inherit() {
    let map = JlMap::identity(2).unwrap();
    let wide = ClipNorm::new(2.0).unwrap();
    let simulated = || Curator::simulated(RELATION, 1);
    for (data, declared) in [(secret(), false), (made_up(ROWS), true)] {
        let projected = data
            .embedded(&map, wide)
            .unwrap()
            .with_label_bound(clip(1.0));
        assert_eq!(projected.is_made_up(), declared);
        let estimator = PrivateGradient::new(&projected, LOSS, simulated());
        assert_eq!(is_refused(estimator), !declared);
    }
}

#[test]
fn records_of_any_shape_and_in_files_are_covered() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.dpr");
    let rows = design(ROWS);
    let mut writer = RowFileWriter::create(&path, &rows, 1.0, "").unwrap();
    writer.push(&rows, &[1.0; 3]).unwrap();
    writer.finish().unwrap();
    let open = || ExamplesOnDisk::new(RowFile::open(&path).unwrap(), clip(1.0));
    let simulated = || Curator::simulated(RELATION, 1);
    let secret = PrivateData::on_disk(open(), RELATION, None).unwrap();
    assert!(is_refused(PrivateMean::new(&secret, LOSS, simulated())));
    let public = PrivateData::made_up_on_disk(open(), RELATION, None).unwrap();
    assert!(PrivateMean::new(&public, LOSS, simulated()).is_ok());
    let own = PrivateData::of(vec![1.0, 2.0], RELATION, None).unwrap();
    assert!(!own.is_made_up());
    assert!(
        PrivateData::made_up_of(vec![1.0, 2.0], RELATION, None)
            .unwrap()
            .is_made_up()
    );
}

/// An inner run of repeat-and-select has noise of the same kind as the curator that selects.
#[test]
fn inner_runs_are_what_the_outer_one_is() {
    use dpopt_privacy::selection::Tuning;
    let data = secret();
    let tuning = Tuning::new(Event::gaussian(z(1.0)), 2.0, 1.0).unwrap();
    let tried = |mut outer: Curator| {
        outer.reserve(&Spend::Fixed(tuning.event())).unwrap();
        let best = outer
            .repeat_and_select(&tuning, |inner| {
                // The estimator owns its curator; what is left in its place is never used.
                let inner = mem::replace(inner, Curator::simulated(RELATION, 0));
                let mean = PrivateMean::new(&data, LOSS, inner);
                let released = mean.is_ok_and(|mut mean| {
                    mean.release(&query(&[0.0, 0.0]), Which::All, z(1.0))
                        .is_ok()
                });
                (released, 0.0)
            })
            .unwrap();
        best.unwrap().value
    };
    assert!(!tried(Curator::simulated(RELATION, 3)));
    assert!(tried(Curator::protected(RELATION).unwrap()));
}
