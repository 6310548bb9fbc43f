//! A pass that fails, wherever it does, releases and charges nothing; and few blocks are in memory at a time.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use dpopt_linalg::{Design, Wanted};
use dpopt_privacy::{
    Adjacency, ClipNorm, Curator, Event, NoiseMultiplier, SamplingRate, Spend, Which,
};
use zeroize::Zeroizing;

use super::source::{Blocks, ReadBlock};
use super::{Stored, pass};
use crate::data::PrivateData;
use crate::error::AskError;
use crate::loss::Glm;
use crate::oracle::PrivateMean;
use crate::positions::Places;
use crate::query::Linear;
use crate::records::{Examples, Slots};

const ROWS: usize = 9000;
const BLOCK: usize = 101;
const NEVER: usize = usize::MAX;

/// Rows that are made up as they are read, and a medium that fails at one block.
struct Medium {
    fails_at: AtomicUsize,
    read: AtomicUsize,
    /// Where the entries of buffers lie.
    buffers: Mutex<HashSet<usize>>,
}

impl Medium {
    fn new(fails_at: usize) -> Self {
        Self {
            fails_at: AtomicUsize::new(fails_at),
            read: AtomicUsize::new(0),
            buffers: Mutex::new(HashSet::new()),
        }
    }
}

impl Blocks for &'static Medium {
    fn len(&self) -> usize {
        ROWS
    }

    fn blocks(&self) -> usize {
        ROWS.div_ceil(BLOCK)
    }

    fn block(&self, k: usize) -> Range<usize> {
        (k * BLOCK).min(ROWS)..((k + 1) * BLOCK).min(ROWS)
    }

    fn put_in_order(&mut self, _: u64) -> usize {
        1
    }

    fn place_from(&mut self, _: usize) {}

    fn rows_at(&self, _: &Places<'_>) -> Option<Zeroizing<Vec<u32>>> {
        None
    }

    fn unchanged(&self) -> Result<(), AskError> {
        Ok(())
    }

    fn reader(&self) -> Box<dyn ReadBlock + '_> {
        Box::new(Head(self))
    }
}

struct Head<'m>(&'m Medium);

impl ReadBlock for Head<'_> {
    fn read(
        &mut self,
        k: usize,
        wanted: &Wanted<'_>,
        examples: &mut Examples,
    ) -> Result<(), AskError> {
        if k == self.0.fails_at.load(Ordering::Relaxed) {
            return Err(AskError::Unreadable {
                path: "medium".to_owned(),
                kind: ErrorKind::TimedOut,
            });
        }
        self.0.read.fetch_add(1, Ordering::Relaxed);
        let (design, labels, slots) = examples.buffers();
        design.clear();
        labels.clear();
        for i in wanted.iter() {
            let x = (i as f32).sin();
            design.push_row(&[(0, x), (1, 1.0 - x)]).unwrap();
            labels.push(if i % 3 == 0 { 1.0 } else { -1.0 });
        }
        *slots = Slots::From(0);
        // A vector of a whole block has its last place unless another block is longer.
        if let Some(dpopt_linalg::Row::Dense(x)) = (design.rows() == BLOCK).then(|| design.row(0)) {
            self.0.buffers.lock().unwrap().insert(x.as_ptr() as usize);
        }
        Ok(())
    }
}

fn data(medium: &'static Medium) -> PrivateData {
    let empty = Design::dense(2, vec![]).unwrap();
    let norm = ClipNorm::new(1.0).unwrap();
    let face = Examples::empty(&empty, norm, None);
    let stored: Box<dyn Stored<Examples>> = Box::new(medium);
    PrivateData::stored_elsewhere(face, stored, Adjacency::ReplaceOne, ROWS as u64)
}

#[test]
fn a_block_that_cant_be_read_ends_the_pass_before_anything_is_charged() {
    let z = NoiseMultiplier::new(1.0).unwrap();
    let clip = ClipNorm::new(1.0).unwrap();
    let mut texts = HashSet::new();
    for threads in 1..=4 {
        for fails_at in [0, 1, 2, 44, 88, 89] {
            let medium: &'static Medium = Box::leak(Box::new(Medium::new(fails_at)));
            let data = data(medium);
            let mut curator = Curator::simulated(Adjacency::ReplaceOne, 5);
            curator
                .reserve(&Spend::Fixed(Event::gaussian(z).repeated(1)))
                .unwrap();
            let mut mean = PrivateMean::new(&data, Glm::Logistic, curator)
                .unwrap()
                .with_threads(NonZeroUsize::new(threads).unwrap());
            let query = Linear::field(&[0.1, 0.2], clip);
            let failed = mean.release(&query, Which::All, z).unwrap_err();
            assert!(matches!(
                failed,
                AskError::Unreadable {
                    kind: ErrorKind::TimedOut,
                    ..
                }
            ));
            texts.insert(failed.to_string());
            assert_eq!(mean.counts().releases, 0);
            // The one release that was reserved is still there to be made.
            medium.fails_at.store(NEVER, Ordering::Relaxed);
            mean.release(&query, Which::All, z).unwrap();
            assert!(mean.release(&query, Which::All, z).is_err());
        }
    }
    assert_eq!(texts.len(), 1);
}

#[test]
fn blocks_without_a_drawn_record_are_not_read() {
    let medium: &'static Medium = Box::leak(Box::new(Medium::new(NEVER)));
    let data = data(medium);
    let z = NoiseMultiplier::new(1.0).unwrap();
    let rate = SamplingRate::new(1e-3).unwrap();
    let mut curator = Curator::simulated(Adjacency::ReplaceOne, 5);
    curator
        .reserve(&Spend::Fixed(Event::gaussian(z).poisson_sampled(rate)))
        .unwrap();
    let mut mean = PrivateMean::new(&data, Glm::Logistic, curator).unwrap();
    let query = Linear::field(&[0.1, 0.2], ClipNorm::new(1.0).unwrap());
    mean.release(&query, Which::Poisson(rate), z).unwrap();
    // 9 records are expected in 90 blocks; 40 of them have a probability below 1e-13.
    assert!(medium.read.load(Ordering::Relaxed) < 40);
}

#[test]
fn two_blocks_are_in_memory_for_each_thread() {
    for threads in 1..=4 {
        let medium: &'static Medium = Box::leak(Box::new(Medium::new(NEVER)));
        let data = data(medium);
        let z = NoiseMultiplier::new(1.0).unwrap();
        let mut curator = Curator::simulated(Adjacency::ReplaceOne, 5);
        curator
            .reserve(&Spend::Fixed(Event::gaussian(z).repeated(1)))
            .unwrap();
        let mut mean = PrivateMean::new(&data, Glm::Logistic, curator)
            .unwrap()
            .with_threads(NonZeroUsize::new(threads).unwrap());
        let query = Linear::field(&[0.1, 0.2], ClipNorm::new(1.0).unwrap());
        mean.release(&query, Which::All, z).unwrap();
        assert_eq!(medium.read.load(Ordering::Relaxed), ROWS.div_ceil(BLOCK));
        let places = medium.buffers.lock().unwrap().len();
        assert!(
            places <= pass::BUFFERS * threads,
            "{places}, {threads} threads"
        );
    }
}
