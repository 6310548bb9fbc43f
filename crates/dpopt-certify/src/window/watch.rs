//! Watches a run and keeps its best window.

use std::ops::ControlFlow;

use dpopt_linalg::{distance, norm};
use dpopt_oracle::OracleFacts;
use dpopt_solver::{Covered, Observer, Release, ReleaseKind, Withheld};

use super::error::WindowError;
use super::plan::WindowPlan;
use super::stated::{WindowCertificate, WindowSubject};

/// Most numbers that are kept for the exact radius of a window: 32 MiB.
const MEMORY: usize = 1 << 22;

/// Certifies the windows of a run from its releases, and shows them to another observer.
///
/// It keeps the window of the least value, in memory of a few points; where all points of a window fit beside them the radius is
/// exact.
///
/// # Privacy
/// Everything in it is released: it costs nothing. Which window is kept may depend on the releases, since the claims of all of
/// them hold at once. Of two watchers of one run the probabilities of failure add up.
pub struct ReleasedWindow<'a> {
    inner: &'a mut dyn Observer,
    windows: Windows,
}

impl<'a> ReleasedWindow<'a> {
    /// Watches the run that `plan` was made for; `inner` sees it too.
    pub fn new(plan: WindowPlan, inner: &'a mut dyn Observer) -> Self {
        Self {
            inner,
            windows: Windows::new(plan, MEMORY),
        }
    }

    /// The certificate of the window with the least value.
    ///
    /// # Errors
    /// [`WindowError`] for a run that was not what the plan said, or that ended before its first window did.
    pub fn certificate(self) -> Result<WindowCertificate, WindowError> {
        self.windows.certificate()
    }
}

impl Observer for ReleasedWindow<'_> {
    fn on_release(&mut self, release: &Release<'_>) -> ControlFlow<()> {
        self.windows.take(&Seen {
            step: release.step,
            steps: release.steps,
            kind: release.kind,
            point: release.point,
            vector: release.vector,
            noise_norm: release.noise_norm,
            oracle: release.oracle,
        });
        self.inner.on_release(release)
    }
}

/// The parts of a release that a window uses.
pub(super) struct Seen<'a> {
    pub(super) step: u64,
    pub(super) steps: u64,
    pub(super) kind: ReleaseKind,
    pub(super) point: &'a [f64],
    pub(super) vector: &'a [f64],
    pub(super) noise_norm: f64,
    pub(super) oracle: OracleFacts,
}

pub(super) struct Windows {
    pub(super) plan: WindowPlan,
    /// The step that is due.
    due: u64,
    /// The current window: number of releases, their sum, the sum of their lengths, that of their points.
    len: u64,
    releases: Vec<f64>,
    lengths: f64,
    points: Vec<f64>,
    reach: Reach,
    /// Whether the releases so far were of gradients of the loss.
    covered: Result<Covered, Withheld>,
    best: Option<WindowCertificate>,
    refused: Option<WindowError>,
}

/// Tracks how far the points of a window are from their mean.
enum Reach {
    /// All of them, one after another.
    Points(Vec<f64>),
    /// The first, and how far another is from it.
    Path { first: Vec<f64>, farthest: f64 },
}

impl Reach {
    fn take(&mut self, point: &[f64], opens: bool) {
        match self {
            Reach::Points(points) => {
                if opens {
                    points.clear();
                }
                points.extend_from_slice(point);
            }
            Reach::Path { first, farthest } => {
                if opens {
                    first.copy_from_slice(point);
                    *farthest = 0.0;
                }
                *farthest = farthest.max(distance(first, point));
            }
        }
    }

    /// How far from `mean` a point is at most, and whether one is as far.
    fn radius(&self, mean: &[f64]) -> (f64, bool) {
        match self {
            Reach::Points(points) => {
                let all = points.chunks_exact(mean.len());
                let farthest = all.map(|point| distance(point, mean)).fold(0.0, f64::max);
                (farthest, true)
            }
            Reach::Path { first, farthest } => (farthest + distance(first, mean), false),
        }
    }
}

impl Windows {
    pub(super) fn new(plan: WindowPlan, memory: usize) -> Self {
        let terms = plan.terms();
        let nothing = vec![0.0; terms.dim];
        let covered = plan.as_planned();
        let fits = terms.window.saturating_mul(terms.dim as u64) <= memory as u64;
        Self {
            plan,
            due: 0,
            len: 0,
            releases: nothing.clone(),
            lengths: 0.0,
            points: nothing.clone(),
            reach: if fits {
                Reach::Points(Vec::new())
            } else {
                Reach::Path {
                    first: nothing,
                    farthest: 0.0,
                }
            },
            covered,
            best: None,
            refused: None,
        }
    }

    pub(super) fn take(&mut self, seen: &Seen<'_>) {
        if self.refused.is_some() {
            return;
        }
        match self.check(seen) {
            Err(error) => {
                self.refused = Some(error);
                return;
            }
            Ok(covered) if self.covered.is_ok() => self.covered = covered,
            Ok(_) => {}
        }
        self.due += 1;
        if seen.step < self.plan.first_step() {
            return;
        }
        self.reach.take(seen.point, self.len == 0);
        for (sum, x) in self.releases.iter_mut().zip(seen.vector) {
            *sum += x;
        }
        for (sum, x) in self.points.iter_mut().zip(seen.point) {
            *sum += x;
        }
        self.lengths += norm(seen.vector);
        self.len += 1;
        if self.len == self.plan.terms().window {
            self.end_window();
        }
    }

    /// Refuses what no claim is about; whether the release is one of gradients of the loss.
    fn check(&self, seen: &Seen<'_>) -> Result<Result<Covered, Withheld>, WindowError> {
        let (step, steps) = (seen.step, seen.steps);
        let terms = self.plan.terms();
        // Noises of variations and of running estimates are shared by several steps.
        if seen.kind != ReleaseKind::Anchor {
            let kind = seen.kind;
            return Err(WindowError::Kind { step, kind });
        }
        if (step, steps) != (self.due, terms.releases) {
            return Err(WindowError::Order {
                expected: self.due,
                planned: terms.releases,
                step,
                steps,
            });
        }
        for released in [seen.point.len(), seen.vector.len()] {
            if released != terms.dim {
                let planned = terms.dim;
                return Err(WindowError::Dimension { planned, released });
            }
        }
        // Gradients at a point that is not finite count as zero, and would look like those of a stationary one.
        if !seen.point.iter().chain(seen.vector).all(|x| x.is_finite()) {
            return Err(WindowError::NotFinite { step });
        }
        let covered = match self.plan.covered(&seen.oracle) {
            // Of contributions that are shortened, those as long as they are.
            covered @ (Ok(_) | Err(Withheld::Shortened | Withheld::Constant { .. })) => covered,
            Err(why) => return Err(why.into()),
        };
        // Shorter clips bound contributions whatever they are of.
        let found = seen.oracle.lipschitz;
        if seen.oracle.told && longer(found, terms.lipschitz) && longer(terms.clip, terms.lipschitz)
        {
            let planned = terms.lipschitz;
            return Err(WindowError::LongerGradients { planned, found });
        }
        // Also a deviation that is NaN, or that follows the releases.
        if !self.plan.has_noise(seen.noise_norm) {
            return Err(WindowError::Noise {
                step,
                planned: self.plan.noise_norm(),
                released: seen.noise_norm,
            });
        }
        Ok(covered)
    }

    fn end_window(&mut self) {
        let terms = self.plan.terms();
        let (count, dim) = (self.len as f64, terms.dim as f64);
        let released = norm(&self.releases) / count;
        // Rounding of the sums and of the norm.
        let computed =
            f64::EPSILON * ((count + 4.0) * (self.lengths / count) + (dim + 8.0) * released);
        let mut slack = self.plan.slack();
        slack.rounding += computed;
        let value = released + slack.total();
        let least = self.best.as_ref().map_or(f64::INFINITY, |best| best.value);
        if value < least {
            let point: Vec<f64> = self.points.iter().map(|sum| sum / count).collect();
            let (radius, radius_is_exact) = self.reach.radius(&point);
            self.best = Some(WindowCertificate {
                value,
                released,
                slack,
                radius: radius * (1.0 + (dim + 8.0) * f64::EPSILON),
                radius_is_exact,
                first_step: self.due - self.len,
                window: self.len,
                windows: self.plan.windows(),
                probability: 1.0 - terms.failure,
                of: WindowSubject::of(&self.covered, terms.differentiable),
                population: self.plan.of_population(),
                point,
            });
        }
        self.releases.fill(0.0);
        self.points.fill(0.0);
        (self.len, self.lengths) = (0, 0.0);
    }

    pub(super) fn certificate(self) -> Result<WindowCertificate, WindowError> {
        let window = self.plan.terms().window;
        match self.refused {
            Some(error) => Err(error),
            None => self.best.ok_or(WindowError::NoWindow { window }),
        }
    }
}

/// Whether a length is above another, but for the rounding of both. NaN is.
fn longer(found: f64, planned: f64) -> bool {
    !(found <= planned * (1.0 + 1e-9))
}
