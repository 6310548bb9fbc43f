//! Opening a period of prefix sums.

use crate::lattice::Bound;
use crate::noise::RoundedGaussian;
use crate::prefix::{Participation, PrefixKind, PrefixNoise};
use crate::refused::Refused;
use crate::replay::{Facts, ReplayedMechanism, ReplayedReads};
use crate::slice::PoolError;
use crate::units::NoiseMultiplier;

use super::Curator;
use super::period::{Prefix, Terms};

impl Curator {
    /// Opens a period of `len` prefix sums whose steps all have the bound `bound`.
    ///
    /// # Privacy
    /// The period as a whole is a Gaussian mechanism with mu = 1 / noise multiplier, whatever the
    /// kind ([`PrefixNoise::event`] says what to reserve). With [`Participation::Every`] it is
    /// charged here, once; otherwise each slice that takes part is charged at its first step, or, with
    /// [`Participation::Sampled`], for each sample: that is the Gaussian mechanism, and the slice pays for a Poisson sample of it.
    /// Noise is fresh: a restart is another period, and pays again.
    ///
    /// # Errors
    /// [`Refused`]; nothing has been released or charged then. Slices need an adjacency under
    /// which positions stay.
    pub fn prefix(
        &mut self,
        kind: PrefixKind,
        bound: Bound,
        len: u64,
        noise_multiplier: NoiseMultiplier,
        participation: Participation,
    ) -> Result<Prefix, Refused> {
        let slices = participation != Participation::Every;
        if slices && !self.adjacency.record_count_is_public() {
            return Err(PoolError::Adjacency {
                adjacency: self.adjacency,
            }
            .into());
        }
        let noise = PrefixNoise::new(kind, len, participation)?;
        let unit = noise.unit_noise(noise_multiplier)?.get();
        // Rounded up: the product errs by less than one unit in the last place.
        let scale = (unit * bound.sensitivity_in_steps(self.adjacency)).next_up();
        let terms = Terms {
            event: noise.event(noise_multiplier)?,
            noise,
            bound,
            scale: RoundedGaussian::new(scale)?,
            curator: self.id,
        };
        self.note(&format_args!(
            "{kind:?} {len} {participation:?} {scale:?} {bound:?}"
        ));
        let account = terms.opening();
        if let Some(account) = &account {
            self.check(&terms.event, account)?;
        }
        let event = terms.event.clone();
        self.can_draw(bound)?;
        self.turn += 1;
        let mut period = Prefix::new(terms, self.turn);
        if let Some(account) = &account {
            self.charge(&event, account)?;
        }
        if let Some(seat) = &self.replay {
            let noise = period.noise().clone();
            let radius = bound.sensitivity_in_steps(self.adjacency);
            let facts = Facts {
                mechanism: ReplayedMechanism::Prefix {
                    kind,
                    len,
                    participation,
                    steps: 0,
                },
                reads: match participation {
                    Participation::Every => ReplayedReads::All,
                    Participation::Sampled { .. } => ReplayedReads::SampledSteps(Vec::new()),
                    _ => ReplayedReads::Slices(Vec::new()),
                },
                charged: event,
                noise_steps: scale,
                radius_steps: bound.radius() / bound.step(),
                limit: noise.sensitivity() * radius / scale,
            };
            let number = seat.period(facts, &noise);
            period = period.replayed(seat, number);
        }
        Ok(period)
    }
}
