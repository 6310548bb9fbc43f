//! Pairs of MNIST images that show the same digit, or different ones.

use std::path::Path;

use dpopt::data::formats::read_idx;
use dpopt::linalg::{Design, norm};
use dpopt::oracle::{PrivateData, PublicData, PublicRecords};
use dpopt::privacy::{Adjacency, ClipNorm};

use crate::Failure;

/// Side of an image, and of its pooled version.
const SIDE: usize = 28;
const POOLED: usize = 7;
/// Pixels of a pooled image.
pub(crate) const FEATURES: usize = POOLED * POOLED;
/// Bound on the norm of a difference: the median is a little above it.
pub(crate) const ROW_NORM: f64 = 3.0;
/// Largest value of a pooled pixel.
const WHITE: f64 = 2.0;
/// Images that pairs to train on are made of, and those of the test.
const TRAINING: usize = 50_000;
const TEST: usize = 10_000;
/// Pairs to train on.
const PAIRS: usize = 22_548;
/// Seeds of the public orders.
const ORDER: u64 = 1;
const TEST_ORDERS: std::ops::Range<u64> = 100..108;

/// Differences, and +1 for pairs of different digits and -1 for those of the same.
struct Pairs {
    rows: Vec<f64>,
    labels: Vec<f32>,
}

/// The training pairs, as records to be protected and as public ones, and those of the test.
pub(crate) struct Data {
    pub(crate) private: PrivateData,
    pub(crate) public: PublicRecords,
    pub(crate) test: PublicData,
}

impl Data {
    pub(crate) fn read(folder: &Path) -> Result<Self, Failure> {
        let images = read_idx(folder.join("train-images-idx3-ubyte.gz"))?.into_design(1.0)?;
        let labels = read_idx(folder.join("train-labels-idx1-ubyte.gz"))?.into_labels()?;
        if images.columns() != SIDE * SIDE || labels.len() != TRAINING + TEST {
            return Err("not the images of MNIST".into());
        }
        let pooled: Vec<Vec<f64>> = (0..labels.len()).map(|i| pool(&images, i)).collect();
        let train = Pairs::among(0..TRAINING, &pooled, &labels, ORDER, PAIRS / 2);
        let mut test = Pairs {
            rows: Vec::new(),
            labels: Vec::new(),
        };
        // The same images paired in other orders: more pairs, and so a steadier area.
        for order in TEST_ORDERS {
            let images = TRAINING..TRAINING + TEST;
            let more = Pairs::among(images, &pooled, &labels, order, TEST / 5);
            test.rows.extend(more.rows);
            test.labels.extend(more.labels);
        }
        let (bound, one) = (ClipNorm::new(ROW_NORM)?, ClipNorm::new(1.0)?);
        let design = || Design::dense(FEATURES, train.rows.clone());
        let private = PrivateData::made_up(
            design()?,
            train.labels.clone(),
            bound,
            Adjacency::ReplaceOne,
            None,
        )?;
        Ok(Self {
            private: private.with_label_bound(one),
            public: PublicRecords::new(design()?, train.labels.clone(), bound)?,
            test: PublicData::new(Design::dense(FEATURES, test.rows)?, test.labels)?,
        })
    }
}

/// Means of four by four pixels, from 0 to [`WHITE`].
fn pool(images: &Design, i: usize) -> Vec<f64> {
    let cell = SIDE / POOLED;
    let mut pooled = vec![0.0; FEATURES];
    images.row(i).for_each(|at, x| {
        let (row, column) = (at / SIDE / cell, at % SIDE / cell);
        pooled[row * POOLED + column] += x * WHITE / (255.0 * (cell * cell) as f64);
    });
    pooled
}

impl Pairs {
    /// Disjoint pairs of these images in a public random order: the first ones are taken two by two until so many pairs differ, the
    /// others wait for the next of their digit, for as many pairs that are the same.
    fn among(
        images: std::ops::Range<usize>,
        pooled: &[Vec<f64>],
        digits: &[f32],
        order: u64,
        each: usize,
    ) -> Self {
        let order = shuffled(images, order);
        let mut pairs = Pairs {
            rows: Vec::new(),
            labels: Vec::new(),
        };
        let mut rest = order.as_slice();
        while pairs.labels.len() < each
            && let [a, b, left @ ..] = rest
        {
            if digits[*a] != digits[*b] {
                pairs.push(&pooled[*a], &pooled[*b], 1.0);
            }
            rest = left;
        }
        let mut waiting: [Option<usize>; 10] = [None; 10];
        for &b in rest {
            if pairs.labels.len() == 2 * each {
                break;
            }
            let place = &mut waiting[digits[b] as usize % 10];
            match place.take() {
                Some(a) => pairs.push(&pooled[a], &pooled[b], -1.0),
                None => *place = Some(b),
            }
        }
        pairs
    }

    fn push(&mut self, a: &[f64], b: &[f64], label: f32) {
        let mut row: Vec<f64> = a.iter().zip(b).map(|(a, b)| a - b).collect();
        let size = norm(&row);
        if size > ROW_NORM {
            let factor = ROW_NORM / size;
            row.iter_mut().for_each(|x| *x *= factor);
        }
        self.rows.extend(row);
        self.labels.push(label);
    }
}

/// Fisher and Yates, from a seed.
fn shuffled(images: std::ops::Range<usize>, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = images.collect();
    let mut state = seed;
    for i in (1..order.len()).rev() {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        order.swap(i, ((z ^ (z >> 31)) % (i as u64 + 1)) as usize);
    }
    order
}
