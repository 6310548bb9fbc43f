//! A period of prefix sums on the lattice: exact sums, exact noise, one charge.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use zeroize::Zeroizing;

use super::blocks::{BLOCK, over_blocks};
use super::correlated::{Correlated, Recurrence};
use super::exact::{self, Response, Scale, Source};
use super::nodes::{Independent, Tree};
use super::{Participation, PrefixError, PrefixNoise, normals};
use crate::adjacency::Adjacency;
use crate::curator::{Account, Curator, Refused, Seat};
use crate::event::Event;
use crate::lattice::Bound;
use crate::noise::{Key, NoiseError, Purpose, RoundedGaussian, StreamId};
use crate::sensitive::{Access, Reads, Sensitive, Vector};

/// Digits of 64 bits with which the exact path starts.
const FIRST_LIMBS: usize = 2;

/// An open period: takes one private sum a step and returns the prefix sum with noise.
///
/// # Privacy
/// The running sum without noise and the noise itself live here only, are overwritten when this
/// is dropped, and can be neither read, copied, printed nor written out. What the period costs
/// was paid when it was opened, or is paid by each slice at its first step; stopping early is
/// allowed at any time. The argument is in `docs/privacy/prefix-sums.md`.
///
/// ```
/// use dpopt_privacy::{
///     Adjacency, Bound, ClipNorm, Curator, LatticeSum, NoiseMultiplier, Participation,
///     PrefixKind, PrefixNoise, Spend, Touched,
/// };
///
/// // Four steps on disjoint slices, each record in one of them.
/// let z = NoiseMultiplier::new(2.0)?;
/// let noise = PrefixNoise::new(PrefixKind::Toeplitz, 4, Participation::Single)?;
/// let mut curator = Curator::protected(Adjacency::ReplaceOne)?;
/// let share = dpopt_privacy::Event::ParallelComposed { events: vec![noise.event(z)?] };
/// curator.reserve(&Spend::Fixed(share))?;
/// curator.open_pool(400, 0)?;
///
/// let bound = Bound::new(ClipNorm::new(1.0)?, 3)?;
/// let mut period = curator.prefix(noise.kind(), bound, noise.len(), z, noise.participation())?;
/// for _ in 0..4 {
///     let slice = curator.take_slice(100)?;
///     let mut sum = LatticeSum::new(bound);
///     for _record in slice.positions() {
///         sum.add_scaled(1.0, &[0.1, -0.2, 0.3]);
///     }
///     let step = sum.finish(Adjacency::ReplaceOne, Touched::Slice(slice));
///     let prefix_sum = period.push(step, &mut curator)?;
///     assert_eq!(prefix_sum.len(), 3);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail
/// fn copy(period: &dpopt_privacy::Prefix) -> dpopt_privacy::Prefix { period.clone() }
/// ```
///
/// ```compile_fail
/// fn print(period: dpopt_privacy::Prefix) { println!("{period:?}"); }
/// ```
pub struct Prefix {
    terms: Terms,
    /// The exact prefix sum, in lattice steps.
    sum: Zeroizing<Vec<i128>>,
    /// The stream of each step so far.
    steps: Vec<StreamId>,
    /// For each slice that took part: how often, and the last step.
    took_part: BTreeMap<u64, (u64, u64)>,
    noise: Noise,
    /// Whether the noise of a step failed half-way.
    broken: bool,
    /// In an audit: its number on the tape.
    replay: Option<(Seat, u64)>,
}

/// The public terms of a period.
pub(crate) struct Terms {
    pub(crate) noise: PrefixNoise,
    pub(crate) bound: Bound,
    /// What a record's part costs.
    pub(crate) event: Event,
    /// Standard deviation of the unit noise, in lattice steps.
    pub(crate) scale: RoundedGaussian,
    /// The curator that opened it.
    pub(crate) curator: u64,
}

/// A step that asks to be taken.
struct Step {
    bound: Bound,
    adjacency: Adjacency,
    access: Access,
}

/// A step that may be taken.
struct Granted {
    /// The slice it reads, where it reads one.
    slice: Option<u64>,
    /// Who pays for it now.
    payer: Option<Account>,
}

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

impl Noise {
    fn new(terms: &Terms) -> Self {
        let dim = terms.bound.dim();
        let blocks = 0..dim.div_ceil(BLOCK);
        match (terms.noise.nodes(), terms.noise.factor()) {
            (Some(nodes), _) => Noise::Tree(blocks.map(|_| Tree::new(nodes)).collect()),
            (None, Some(factor)) => Noise::Correlated {
                blocks: blocks.map(|_| Correlated::new()).collect(),
                recurrence: Recurrence::new(&factor, terms.noise.worst_unit_variance()),
                response: Response::new(FIRST_LIMBS),
                scale: Scale::new(terms.scale.scale()),
            },
            (None, None) => Noise::Independent(
                blocks
                    .map(|block| Independent::new(BLOCK.min(dim - block * BLOCK)))
                    .collect(),
            ),
        }
    }

    /// The noise of the last of `steps`, in lattice steps.
    fn next(
        &mut self,
        key: &Key,
        steps: &[StreamId],
        scale: RoundedGaussian,
        threads: NonZeroUsize,
        out: &mut [i128],
    ) -> Result<(), NoiseError> {
        let Some(&id) = steps.last() else {
            return Ok(());
        };
        let t = steps.len() as u64;
        match self {
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
                let mut w = Zeroizing::new(vec![0_i128; out.len()]);
                normals::fill(key, id, recurrence.fraction_bits(), threads, &mut w)?;
                let error = recurrence.advance();
                let mut open: Vec<Vec<usize>> = vec![Vec::new(); blocks.len()];
                {
                    let recurrence = &*recurrence;
                    let blocks = blocks
                        .iter_mut()
                        .zip(w.chunks(BLOCK))
                        .zip(out.chunks_mut(BLOCK))
                        .zip(&mut open)
                        .collect();
                    type Part<'a> = (
                        ((&'a mut Correlated, &'a [i128]), &'a mut [i128]),
                        &'a mut Vec<usize>,
                    );
                    over_blocks(threads, blocks, |_, (((block, w), out), open): Part<'_>| {
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

impl Prefix {
    pub(crate) fn new(terms: Terms) -> Self {
        Self {
            sum: Zeroizing::new(vec![0; terms.bound.dim()]),
            steps: Vec::new(),
            broken: false,
            replay: None,
            took_part: BTreeMap::new(),
            noise: Noise::new(&terms),
            terms,
        }
    }

    /// The public numbers of the noise.
    #[must_use]
    pub fn noise(&self) -> &PrefixNoise {
        &self.terms.noise
    }

    /// The bound that every step must have.
    #[must_use]
    pub fn bound(&self) -> Bound {
        self.terms.bound
    }

    /// Steps taken.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps.len() as u64
    }

    /// Standard deviation of the noise in prefix sum `step`, counted from 1, in each coordinate
    /// and in the units of the sum (rounding adds at most half a lattice step); none beyond the
    /// period.
    #[must_use]
    pub fn standard_deviation(&self, step: u64) -> Option<f64> {
        let relative = self.terms.noise.variance(step)?.sqrt() / self.terms.noise.sensitivity();
        Some(relative * self.terms.scale.scale() * self.terms.bound.step())
    }

    /// Takes the next sum and releases the sum of all so far, with noise.
    ///
    /// # Formula
    /// step · (S_t + N_t), with S_t the exact sum in lattice steps. For the Toeplitz kinds
    /// N_t = round(s (B w)_t), with w standard normal and s the scale of the unit noise; for the
    /// others the N_t come from rounded Gaussians of scale s on steps or nodes.
    ///
    /// # Shapes
    /// One number per coordinate, in the units of the sums.
    ///
    /// # Privacy
    /// On all records the step was paid for when the period was opened; a slice pays here, at the
    /// first step it takes part in.
    ///
    /// # Errors
    /// [`Refused`]: a step after the last, another bound or adjacency, other records than the
    /// participation says, a slice that took part before, a slice of another pool, another
    /// curator, a reservation that does not pay. Nothing is released or added then.
    pub fn push(
        &mut self,
        sum: Sensitive<Vector>,
        curator: &mut Curator,
    ) -> Result<Vec<f64>, Refused> {
        let released = self.take(sum, curator);
        curator.noted(released)
    }

    /// The period of an audited run.
    pub(crate) fn replayed(mut self, seat: &Seat, number: u64) -> Self {
        self.replay = Some((seat.clone(), number));
        self
    }

    fn take(&mut self, sum: Sensitive<Vector>, curator: &mut Curator) -> Result<Vec<f64>, Refused> {
        let step = Step {
            bound: sum.bound,
            adjacency: sum.adjacency,
            access: sum.access,
        };
        let Granted { slice, payer } = self.grant(step, curator)?;
        let id = curator.stream_id(Purpose::Noise)?;
        curator.key().check_release(id, self.sum.len())?;
        // Charged first: from here on nothing can fail.
        if let Some(account) = payer {
            curator.charge(&self.terms.event, account)?;
        }
        self.steps.push(id);
        if let Some(slice) = slice {
            let entry = self.took_part.entry(slice).or_default();
            *entry = (entry.0 + 1, self.steps.len() as u64);
        }
        for (total, &x) in self.sum.iter_mut().zip(&sum.payload.sum) {
            *total = total.wrapping_add(i128::from(x));
        }
        let mut noisy = Zeroizing::new(vec![0; self.sum.len()]);
        self.broken = true;
        self.noise.next(
            curator.key(),
            &self.steps,
            self.terms.scale,
            curator.threads(),
            &mut noisy,
        )?;
        self.broken = false;
        let step = self.terms.bound.step();
        let released = self.sum.iter().zip(noisy.iter());
        let mut released: Zeroizing<Vec<i128>> =
            Zeroizing::new(released.map(|(s, n)| s.wrapping_add(*n)).collect());
        if let Some((seat, number)) = &self.replay {
            let slices = slice.map(|_| self.took_part.keys().copied().collect());
            let exact = sum.payload.sum.iter().map(|&x| i128::from(x)).collect();
            *released = seat.step(*number, slices, exact, released.to_vec());
        }
        Ok(released.iter().map(|&k| k as f64 * step).collect())
    }

    /// Whether a step within `bound`, over records that are not read yet, would be granted. Charges and draws
    /// nothing.
    ///
    /// # Errors
    /// What [`Prefix::push`] would return, its own streams of noise excepted.
    pub fn check_step(
        &self,
        reads: Reads<'_>,
        bound: Bound,
        curator: &mut Curator,
    ) -> Result<(), Refused> {
        let granted = self.foresee(reads, bound, curator);
        curator.noted(granted)
    }

    fn foresee(
        &self,
        reads: Reads<'_>,
        bound: Bound,
        curator: &mut Curator,
    ) -> Result<(), Refused> {
        let access = match reads {
            Reads::All => Access::All,
            Reads::Slice(slice) => Access::Slice {
                pool: slice.pool(),
                slice: slice.number(),
            },
            Reads::NextSlice => {
                let (pool, slice) = curator.next_slice()?;
                Access::Slice { pool, slice }
            }
            Reads::Poisson(_) | Reads::FixedSize { .. } => {
                return Err(PrefixError::WrongRecords {
                    expected: self.expected(),
                }
                .into());
            }
        };
        let step = Step {
            bound,
            adjacency: curator.adjacency(),
            access,
        };
        self.grant(step, curator).map(|_| ())
    }

    /// Who pays for the step; an error where it is refused. Changes nothing.
    fn grant(&self, step: Step, curator: &mut Curator) -> Result<Granted, Refused> {
        if curator.id() != self.terms.curator {
            return Err(PrefixError::OtherCurator.into());
        }
        if step.adjacency != curator.adjacency() {
            return Err(Refused::AdjacencyMismatch {
                sum: step.adjacency,
                curator: curator.adjacency(),
            });
        }
        let len = self.terms.noise.len();
        if self.broken {
            return Err(PrefixError::Broken.into());
        }
        if self.steps() >= len {
            return Err(PrefixError::Finished { len }.into());
        }
        if step.bound != self.terms.bound {
            return Err(PrefixError::OtherBound {
                dim: step.bound.dim(),
                radius: step.bound.radius(),
                period_dim: self.terms.bound.dim(),
                period_radius: self.terms.bound.radius(),
            }
            .into());
        }
        let slice = match self.slice_of(step.access)? {
            Some((pool, slice)) => {
                // First whose it is: other pools number their slices alike.
                let account = curator.account_of(pool, slice)?;
                self.check_turn(slice)?;
                Some((slice, account))
            }
            None => None,
        };
        let payer = slice
            .filter(|(slice, _)| !self.took_part.contains_key(slice))
            .map(|(_, account)| account);
        if let Some(account) = payer {
            curator.check(&self.terms.event, account)?;
        }
        Ok(Granted {
            slice: slice.map(|(slice, _)| slice),
            payer,
        })
    }

    /// What a step is taken over.
    fn expected(&self) -> &'static str {
        match self.terms.noise.participation() {
            Participation::Every => "all records",
            _ => "a slice",
        }
    }

    /// The pool and slice of a step's records; nothing where it reads all of them.
    fn slice_of(&self, access: Access) -> Result<Option<(u64, u64)>, PrefixError> {
        match (self.terms.noise.participation(), access) {
            (Participation::Every, Access::All) => Ok(None),
            (Participation::Every, _) => Err(PrefixError::WrongRecords {
                expected: self.expected(),
            }),
            (_, Access::Slice { pool, slice }) => Ok(Some((pool, slice))),
            _ => Err(PrefixError::WrongRecords {
                expected: self.expected(),
            }),
        }
    }

    /// Whether the slice may take part in the next step.
    fn check_turn(&self, slice: u64) -> Result<(), PrefixError> {
        let noise = &self.terms.noise;
        let (most, apart) = noise.participation().limits(noise.len());
        let step = self.steps() + 1;
        match self.took_part.get(&slice) {
            Some(&(times, last)) if times >= most || step - last < apart => {
                Err(PrefixError::TookPart {
                    slice,
                    times,
                    last,
                    step,
                })
            }
            _ => Ok(()),
        }
    }
}

impl Terms {
    /// Where a period over all records is charged when it is opened.
    pub(crate) fn opening(&self) -> Option<Account> {
        (self.noise.participation() == Participation::Every).then_some(Account::Whole)
    }
}
