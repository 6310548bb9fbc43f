//! A pass over records on several ranks: the point goes from rank to rank, in the order of the positions.

use zeroize::Zeroizing;

use super::{OutputPerturbed, Terms};
use crate::error::AskError;
use crate::loss::ConvexSmooth;
use crate::oracle::Pass;
use crate::positions::{Places, Positions};
use crate::shard::{Own, Shard};

impl<L: ConvexSmooth> OutputPerturbed<'_, L> {
    /// Each rank makes the steps of the records that it has, and hands the point and the average on to all. **Secret** as they are, they
    /// cross the wire without noise, as sums of records do: ranks trust each other.
    ///
    /// A rank has a run of positions, or, after a public order, many short ones: each of them is a round.
    pub(super) fn walk_over_ranks(
        &self,
        shard: &Shard,
        (pass, terms, places): (&Pass<'_>, &Terms, Places<'_>),
        (point, average): (&mut Vec<f64>, &mut Vec<f64>),
    ) -> Result<(), AskError> {
        let Positions::Range(range) = places.without_order() else {
            return Ok(());
        };
        let mut at = range.start;
        while at < range.end {
            // How far this rank comes from here without another's records: zero, where the next record is not its own.
            let own = shard.own.run(at, range.end);
            let ends = shard
                .together
                .of_each("whose records come next", own as u64)
                .map_err(dpopt_privacy::Refused::from)?;
            // One rank has the next record; a position that two have, or none, is nobody's run.
            let mut owners = ends.iter().enumerate().filter(|(_, run)| **run > 0);
            let (Some((rank, &run)), None) = (owners.next(), owners.next()) else {
                return Err(AskError::NotOneOwner {
                    position: at as u64,
                });
            };
            let end = at + run as usize;
            if rank == shard.together.rank() {
                let here = shard.own.here(Positions::Range(at..end).into());
                let shares = terms.shares.iter().skip(at - range.start);
                let over = here.places().without_order();
                self.steps(pass, terms, over.iter().zip(shares), (point, average));
            }
            let mut words: Zeroizing<Vec<u64>> = Zeroizing::new(
                point
                    .iter()
                    .chain(average.iter())
                    .map(|x| x.to_bits())
                    .collect(),
            );
            shard
                .together
                .of_rank(rank, "a point between two ranks", &mut words)
                .map_err(dpopt_privacy::Refused::from)?;
            let all = point.iter_mut().chain(average.iter_mut());
            all.zip(words.iter())
                .for_each(|(x, word)| *x = f64::from_bits(*word));
            at = end;
        }
        Ok(())
    }
}

impl Own {
    /// Neighbouring positions from `at` to below `end` that are all here.
    fn run(&self, at: usize, end: usize) -> usize {
        match self {
            Own::Range(range) if range.contains(&at) => range.end.min(end) - at,
            Own::Range(_) => 0,
            Own::Listed(list) => {
                let from = list.partition_point(|&slot| (slot as usize) < at);
                let next = list[from..].iter().zip(at..end);
                next.take_while(|(slot, position)| **slot as usize == *position)
                    .count()
            }
        }
    }
}
