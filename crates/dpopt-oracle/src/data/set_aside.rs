//! Records in two parts that no one record is in both of.

use std::borrow::Cow;
use std::sync::atomic::AtomicBool;

use dpopt_privacy::Part;

use super::PrivateData;
use crate::data_error::DataError;
use crate::records::Records as _;
use crate::seeded;
use crate::shard::{Own, Shard};

impl PrivateData {
    /// These records in two parts: all but `held`, and `held` of them, whose positions are drawn from a public seed
    /// ([`PublicOrder::draw_seed`](dpopt_privacy::PublicOrder::draw_seed)). Each part has a curator of its own.
    ///
    /// # Privacy
    /// Positions are drawn without looking at records, and neighbours differ at one of them, so in one part: what is released of both is
    /// as private as the less private of the two, and the second may depend on what was released of the first. See
    /// `docs/privacy/certificates.md`, "A hold-out beside a run". Under add/remove one record more would shift all later positions.
    ///
    /// # Errors
    /// [`DataError::NoHoldOut`] under add/remove; [`DataError::HoldOut`] unless both parts have records; [`DataError::HoldOutInAFile`];
    /// [`DataError::InOrder`] and [`DataError::OrderTooLate`] as for an order; [`DataError::SetAside`] of records that are such a part;
    /// [`DataError::Exchange`] for another split on one of several ranks.
    pub fn set_aside(mut self, held: u64, seed: u64) -> Result<(Self, Self), DataError> {
        if !self.adjacency.record_count_is_public() {
            return Err(DataError::NoHoldOut(self.adjacency));
        }
        if self.stored.is_some() {
            return Err(DataError::HoldOutInAFile);
        }
        if let Some(order) = self.order {
            return Err(DataError::InOrder { seed: order.seed });
        }
        // Parts of parts of two splits could pass for those of one.
        if let Some(part) = self.part {
            return Err(DataError::SetAside(part));
        }
        if *self.asked.get_mut() {
            return Err(DataError::OrderTooLate);
        }
        let records = self.public_records;
        if held == 0 || held >= records {
            return Err(DataError::HoldOut { held, records });
        }
        if let Some(shard) = &self.shard {
            let split = format_args!("{held} {seed}");
            shard.together.agree_on("who is held out", &split)?;
        }
        let mut order = seeded::order(records as usize, 1, seed);
        let mut rest = order.split_off(held as usize);
        // Each part in the order of the table.
        order.sort_unstable();
        rest.sort_unstable();
        let [left, held_out] = Part::of_split(records, held, seed);
        let own = self.shard.as_ref().map(|shard| &shard.own);
        let part = |positions: &[u32], part| {
            let (places, shard) = match (&self.shard, own) {
                (Some(shard), Some(own)) => {
                    let (places, numbers) = own.among(positions);
                    let of_part = Shard {
                        together: shard.together.clone(),
                        total: positions.len() as u64,
                        own: Own::Listed(numbers),
                        placed: true,
                    };
                    (Cow::Owned(places), Some(of_part))
                }
                _ => (Cow::Borrowed(positions), None),
            };
            let mut records = self.records.only(&places);
            if let Some(of_part) = &shard {
                records.place(&|i| of_part.own.slot(i));
            }
            Self {
                records,
                shard,
                stored: None,
                adjacency: self.adjacency,
                public_records: positions.len() as u64,
                made_up: self.made_up,
                order: None,
                part: Some(part),
                asked: AtomicBool::new(false),
            }
        };
        Ok((part(&rest, left), part(&order, held_out)))
    }
}

#[cfg(test)]
mod tests {
    use dpopt_linalg::Design;
    use dpopt_privacy::{Adjacency, ClipNorm};

    use super::*;

    fn data(records: usize, adjacency: Adjacency) -> PrivateData {
        let rows = (0..records).map(|i| i as f64).collect();
        let labels = (0..records).map(|i| i as f32).collect();
        let norm = ClipNorm::new(1e6).unwrap();
        let declared = (!adjacency.record_count_is_public()).then_some(9);
        PrivateData::new(
            Design::dense(1, rows).unwrap(),
            labels,
            norm,
            adjacency,
            declared,
        )
        .unwrap()
    }

    fn all(data: &PrivateData) -> Vec<u64> {
        let records = data.records();
        let of = |i| records.record(i);
        (0..data.public_records() as usize)
            .map(|i| {
                assert_eq!(of(i).row.dot(&[1.0]), of(i).label);
                of(i).label as u64
            })
            .collect()
    }

    /// Every record is in one part, with its label, and which it is in hangs on the seed alone.
    #[test]
    fn each_record_is_in_one_part() {
        let parts = |seed| data(50, Adjacency::ReplaceOne).set_aside(20, seed).unwrap();
        let (rest, held) = parts(1);
        assert_eq!((rest.public_records(), held.public_records()), (30, 20));
        let mut both = [all(&rest), all(&held)].concat();
        assert!(all(&held).is_sorted() && all(&rest).is_sorted());
        both.sort_unstable();
        assert_eq!(both, (0..50).collect::<Vec<u64>>());
        assert_eq!(all(&parts(1).1), all(&held));
        assert_ne!(all(&parts(2).1), all(&held));
    }

    /// Each record is held out as often as any other: 4000 draws of 3 of 10, deviation 29, five of which are rarer than 1e-5 for ten.
    #[test]
    fn none_is_held_out_more_often() {
        let mut often = [0u32; 10];
        for seed in 0..4000 {
            let (_, held) = data(10, Adjacency::ReplaceOne).set_aside(3, seed).unwrap();
            all(&held).iter().for_each(|i| often[*i as usize] += 1);
        }
        assert!(often.iter().all(|k| k.abs_diff(1200) < 145), "{often:?}");
    }

    #[test]
    fn what_has_no_parts() {
        let of = |adjacency, held| data(5, adjacency).set_aside(held, 1).err();
        for held in [0, 5, 6] {
            let found = of(Adjacency::ReplaceOne, held);
            assert_eq!(found, Some(DataError::HoldOut { held, records: 5 }));
        }
        assert_eq!(
            of(Adjacency::AddRemove, 2),
            Some(DataError::NoHoldOut(Adjacency::AddRemove))
        );
        let ordered = data(5, Adjacency::ReplaceOne).in_random_order(3).unwrap();
        assert_eq!(
            ordered.set_aside(2, 1).err(),
            Some(DataError::InOrder { seed: 3 })
        );
    }

    /// Two splits of a table, and the same split of what they leave: the two parts of it have records in common, and would pass for disjoint.
    #[test]
    fn a_part_has_no_parts() {
        for seed in [1, 2] {
            let (rest, held) = data(50, Adjacency::ReplaceOne).set_aside(10, seed).unwrap();
            for part in [rest, held] {
                let own = part.part().unwrap();
                let again = part.set_aside(3, 9).err();
                assert_eq!(again, Some(DataError::SetAside(own)));
            }
        }
    }
}
