//! The noise of a period of prefix sums, exact and step by step.

use dpopt_lanes::Threads;
use zeroize::Zeroizing;

use super::blocks::{BLOCK, over_blocks};
use super::correlated::{Correlated, Recurrence};
use super::exact::{self, Response, Scale, Source};
use super::nodes::{Independent, Tree};
use super::{PrefixNoise, normals};
use crate::noise::{Key, NoiseError, RoundedGaussian, StreamId};

/// Digits of 64 bits with which the exact path starts.
const FIRST_LIMBS: usize = 2;

/// The noise of a period so far: private, and overwritten when it is dropped.
pub(crate) struct PeriodNoise(Noise);

enum Noise {
    Independent(Vec<Independent>),
    Tree(Vec<Tree>),
    Correlated {
        blocks: Vec<Correlated>,
        recurrence: Recurrence,
        response: Response,
        scale: Scale,
    },
}

impl PeriodNoise {
    /// That of `plan` on sums of dimension `dim`, with unit noise of this scale in steps.
    pub(crate) fn new(plan: &PrefixNoise, dim: usize, scale: RoundedGaussian) -> Self {
        let blocks = 0..dim.div_ceil(BLOCK);
        Self(match (plan.nodes(), plan.factor()) {
            (Some(nodes), _) => Noise::Tree(blocks.map(|_| Tree::new(nodes)).collect()),
            (None, Some(factor)) => Noise::Correlated {
                blocks: blocks.map(|_| Correlated::new()).collect(),
                recurrence: Recurrence::new(&factor, plan.worst_unit_variance()),
                response: Response::new(FIRST_LIMBS),
                scale: Scale::new(scale.scale()),
            },
            (None, None) => Noise::Independent(
                blocks
                    .map(|block| Independent::new(BLOCK.min(dim - block * BLOCK)))
                    .collect(),
            ),
        })
    }

    /// The noise of the last of `steps`, in lattice steps.
    pub(crate) fn next(
        &mut self,
        key: &Key,
        steps: &[StreamId],
        scale: RoundedGaussian,
        threads: &Threads,
        out: &mut [i128],
    ) -> Result<(), NoiseError> {
        let Some(&id) = steps.last() else {
            return Ok(());
        };
        let t = steps.len() as u64;
        match &mut self.0 {
            Noise::Independent(blocks) => {
                let blocks = blocks.iter_mut().zip(out.chunks_mut(BLOCK)).collect();
                over_blocks(
                    threads,
                    blocks,
                    |number, (block, out): (&mut Independent, _)| {
                        block.next(scale, &mut key.stream(id.with_block(number)?)?, out);
                        Ok(())
                    },
                )
            }
            Noise::Tree(blocks) => {
                let blocks = blocks.iter_mut().zip(out.chunks_mut(BLOCK)).collect();
                over_blocks(threads, blocks, |number, (block, out): (&mut Tree, _)| {
                    block.next(t, scale, &mut key.stream(id.with_block(number)?)?, out);
                    Ok(())
                })
            }
            Noise::Correlated {
                blocks,
                recurrence,
                response,
                scale,
            } => {
                key.check_release(id, out.len())?;
                let error = recurrence.advance();
                let mut open: Vec<Vec<usize>> = vec![Vec::new(); blocks.len()];
                {
                    let recurrence = &*recurrence;
                    let places = out.chunks_mut(BLOCK).zip(&mut open);
                    let blocks = blocks.iter_mut().zip(places).collect();
                    type Part<'a> = (&'a mut Correlated, (&'a mut [i128], &'a mut Vec<usize>));
                    over_blocks(threads, blocks, |number, (block, (out, open)): Part<'_>| {
                        let mut w = Zeroizing::new([0; BLOCK]);
                        let w = &mut w[..out.len()];
                        let id = id.with_block(number)?;
                        normals::fill(key, id, recurrence.fraction_bits(), w)?;
                        *open = block.next(w, recurrence, error, *scale, out);
                        Ok(())
                    })?;
                }
                if open.iter().any(|places| !places.is_empty()) {
                    response.extend_to(steps.len(), recurrence.decrements());
                }
                let (recurrence, response) = (&*recurrence, &*response);
                let undecided = open.into_iter().zip(out.chunks_mut(BLOCK)).collect();
                over_blocks(
                    threads,
                    undecided,
                    |number, (places, out): (Vec<usize>, &mut [i128])| {
                        for place in places {
                            let source = Source {
                                key,
                                steps,
                                index: number as usize * BLOCK + place,
                            };
                            out[place] =
                                exact::round(&source, *scale, recurrence.decrements(), response)?;
                        }
                        Ok(())
                    },
                )
            }
        }
    }
}
