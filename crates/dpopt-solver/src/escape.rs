//! Perturb and watch: how a walk that knows gradients only tries to leave a point, and what it concludes.

use dpopt_linalg::{distance, dot, norm};
use dpopt_oracle::Books;
use dpopt_privacy::Refused;

/// What is watched for.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum EscapeTest {
    /// The mean squared length of the steps is above this: Xu et al. 2026 (arXiv 2602.01339), Algorithm 2.
    Movement(f64),
    /// A step leads this far from the anchor: Tao et al. 2025 (arXiv 2505.15647), the drift of the model.
    Distance(f64),
}

/// The terms of one try.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EscapeTerms {
    /// r: of the ball that the perturbation is drawn from.
    pub radius: f64,
    /// eta: the step size.
    pub step_size: f64,
    /// Gamma: steps without a break after which the anchor is returned.
    pub steps: u64,
    /// What a break is.
    pub test: EscapeTest,
}

/// What follows from an estimate.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Watched {
    /// A step of this size against it.
    Step(f64),
    /// The anchor is left: a last step of this size, at most the step size, after which the test holds with equality.
    Broken(f64),
    /// Gamma steps were made, the one of this estimate included, and none broke out.
    Stayed,
}

/// A try to leave an anchor on its way. It is made of points and released estimates: all of it is public.
///
/// # Formula
/// From the anchor x_m to x_m + xi, xi uniform in the ball of radius r; then x <- x - eta v. With D_k = eta^2 (||v_1||^2 + ... + ||v_k||^2)
/// over the steps since, without xi, [`EscapeTest::Movement`] breaks at the first k with D_k > k M; the k-th step is then
/// sqrt(k M - D_(k-1)) long, so that the squared lengths add up to k M. As no step before broke, that is at least sqrt M and less than
/// eta ||v_k||. [`EscapeTest::Distance`] breaks where ||x - eta v - x_m|| >= S, and the last step ends on that sphere. (The paper rescales steps
/// that were made already, which cannot be done: `docs/theory/minimax.md`, E9.)
///
/// # Privacy
/// Post-processing; the perturbation is public randomness ([`Books::draw_in_ball`]).
#[derive(Debug, Clone, PartialEq)]
pub struct Escape {
    terms: EscapeTerms,
    anchor: Vec<f64>,
    /// Steps, and D.
    made: u64,
    moved: f64,
}

impl Escape {
    /// From an anchor.
    #[must_use]
    pub fn new(terms: EscapeTerms, anchor: &[f64]) -> Self {
        Self {
            terms,
            anchor: anchor.to_vec(),
            made: 0,
            moved: 0.0,
        }
    }

    /// The point before the perturbation: what is returned where the walk stayed.
    #[must_use]
    pub fn anchor(&self) -> &[f64] {
        &self.anchor
    }

    /// xi.
    ///
    /// # Errors
    /// As [`Books::draw_in_ball`].
    pub fn perturbation(&self, books: &mut Books) -> Result<Vec<f64>, Refused> {
        let mut by = vec![0.0; self.anchor.len()];
        books.draw_in_ball(self.terms.radius, &mut by)?;
        Ok(by)
    }

    /// What follows from the estimate `v` at `at`. After a break, or where the walk stayed, the try is over.
    #[must_use]
    pub fn watch(&mut self, at: &[f64], v: &[f64]) -> Watched {
        let (eta, count) = (self.terms.step_size, self.made + 1);
        let length = norm(v);
        let last = match self.terms.test {
            EscapeTest::Movement(mean) => {
                let (allowed, before) = (count as f64 * mean, self.moved);
                self.moved += (eta * length).powi(2);
                (self.moved > allowed).then(|| (allowed - before).sqrt() / length)
            }
            EscapeTest::Distance(most) => {
                let from: Vec<f64> = at.iter().zip(&self.anchor).map(|(x, y)| x - y).collect();
                let to: Vec<f64> = from.iter().zip(v).map(|(p, v)| p - eta * v).collect();
                (norm(&to) >= most).then(|| onto_sphere(&from, v, most).clamp(0.0, eta))
            }
        };
        if let Some(last) = last {
            return Watched::Broken(last);
        }
        self.made = count;
        if count >= self.terms.steps {
            Watched::Stayed
        } else {
            Watched::Step(eta)
        }
    }

    /// How far a point is from the anchor.
    #[must_use]
    pub fn distance(&self, at: &[f64]) -> f64 {
        distance(at, &self.anchor)
    }
}

/// What a walk does with an estimate.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum NextStep {
    /// A step of its descent: the estimate is not short, and no try is on its way.
    Descend,
    /// None: here is an anchor, and a perturbation follows.
    Perturb,
    /// A step of this size against the estimate.
    Step(f64),
    /// None: the walk stayed. The anchor is the answer.
    Stayed,
}

/// The state machine: descend, perturb where the estimate is shorter than a, watch, and go on or end.
///
/// What a walk has to do: add [`PerturbAndWatch::perturbation`] to its point before a release, ask [`PerturbAndWatch::next`] after it, and keep
/// what it needs of its own at an anchor.
#[derive(Debug, Clone, PartialEq)]
pub struct PerturbAndWatch {
    terms: EscapeTerms,
    target: f64,
    on: Option<Escape>,
    due: bool,
    stayed: bool,
}

impl PerturbAndWatch {
    /// Perturbs at estimates shorter than `target`.
    #[must_use]
    pub fn new(terms: EscapeTerms, target: f64) -> Self {
        Self {
            terms,
            target,
            on: None,
            due: false,
            stayed: false,
        }
    }

    /// The perturbation, if one is due, once.
    ///
    /// # Errors
    /// As [`Books::draw_in_ball`].
    pub fn perturbation(&mut self, books: &mut Books) -> Result<Option<Vec<f64>>, Refused> {
        match &self.on {
            Some(escape) if std::mem::take(&mut self.due) => escape.perturbation(books).map(Some),
            _ => Ok(None),
        }
    }

    /// What follows from the estimate `v` at `at`.
    #[must_use]
    pub fn next(&mut self, at: &[f64], v: &[f64]) -> NextStep {
        let Some(escape) = &mut self.on else {
            if norm(v) < self.target {
                self.on = Some(Escape::new(self.terms, at));
                self.due = true;
                return NextStep::Perturb;
            }
            return NextStep::Descend;
        };
        match escape.watch(at, v) {
            Watched::Step(size) => NextStep::Step(size),
            Watched::Broken(size) => {
                self.on = None;
                NextStep::Step(size)
            }
            Watched::Stayed => {
                self.stayed = true;
                NextStep::Stayed
            }
        }
    }

    /// Whether a try ended where it began: the walk is over.
    #[must_use]
    pub fn stayed(&self) -> bool {
        self.stayed
    }
}

/// The t >= 0 with ||p - t v|| = radius, of a p inside; 0 outside.
fn onto_sphere(p: &[f64], v: &[f64], radius: f64) -> f64 {
    let (along, square) = (dot(p, v), dot(v, v));
    let left = (radius * radius - dot(p, p)).max(0.0);
    (along + (along * along + square * left).sqrt()) / square
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(test: EscapeTest, steps: u64) -> EscapeTerms {
        EscapeTerms {
            radius: 0.25,
            step_size: 0.5,
            steps,
            test,
        }
    }

    /// Numbers from 0 to 1 that look random.
    fn wobble(i: u64) -> f64 {
        let x = ((i as f64 + 1.0) * 12.9898).sin() * 43_758.545;
        x - x.floor()
    }

    /// Walks on these estimates and gives the lengths of the steps and how it ended.
    fn walk(test: EscapeTest, steps: u64, lengths: &[f64]) -> (Vec<f64>, Option<Watched>) {
        let mut escape = Escape::new(terms(test, steps), &[0.0, 0.0]);
        let (mut at, mut made) = (vec![0.0, 0.0], Vec::new());
        for (i, length) in lengths.iter().enumerate() {
            let angle = 6.3 * wobble(i as u64 + 99);
            let v = [length * angle.cos(), length * angle.sin()];
            let watched = escape.watch(&at, &v);
            let size = match watched {
                Watched::Step(size) | Watched::Broken(size) => size,
                Watched::Stayed => 0.0,
            };
            at[0] -= size * v[0];
            at[1] -= size * v[1];
            made.push(size * length);
            if !matches!(watched, Watched::Step(_)) {
                return (made, Some(watched));
            }
        }
        (made, None)
    }

    /// The squared lengths of a broken try add up to k M, its last step is shortened and no other is.
    #[test]
    fn squared_movements_of_a_broken_try_add_up() {
        let mean = 0.04;
        for seed in 0..200 {
            // Below the threshold of 0.4 at first, beyond it later.
            let lengths: Vec<f64> = (0..60)
                .map(|k| (0.2 + 0.01 * k as f64) * (0.5 + wobble(1000 * seed + k)))
                .collect();
            let (made, end) = walk(EscapeTest::Movement(mean), 1000, &lengths);
            let Some(Watched::Broken(last)) = end else {
                panic!("{end:?}")
            };
            let k = made.len();
            let sum: f64 = made.iter().map(|l| l * l).sum();
            assert!((sum - k as f64 * mean).abs() < 1e-12 * k as f64, "{sum}");
            assert!(last < 0.5 && made[k - 1] >= mean.sqrt() * (1.0 - 1e-12));
            for (made, length) in made[..k - 1].iter().zip(&lengths) {
                assert_eq!(*made, 0.5 * length);
            }
        }
    }

    /// At the first step the threshold is one M.
    #[test]
    fn the_first_step_is_compared_with_one_mean() {
        let (_, end) = walk(EscapeTest::Movement(0.04), 10, &[0.401]);
        assert!(matches!(end, Some(Watched::Broken(_))), "{end:?}");
        let (_, end) = walk(EscapeTest::Movement(0.04), 10, &[0.399]);
        assert_eq!(end, None);
    }

    /// Gamma estimates, and not one more or less.
    #[test]
    fn a_walk_that_does_not_move_stays() {
        for steps in [1, 2, 7] {
            for test in [EscapeTest::Movement(0.04), EscapeTest::Distance(9.0)] {
                let (made, end) = walk(test, steps, &[0.3; 20]);
                assert_eq!((made.len() as u64, end), (steps, Some(Watched::Stayed)));
            }
        }
    }

    #[test]
    fn a_broken_drift_ends_on_the_sphere() {
        let mut escape = Escape::new(terms(EscapeTest::Distance(1.0), 100), &[3.0, -1.0]);
        let mut at = vec![3.0, -1.0];
        let v = [-0.3, -0.5];
        let end = loop {
            match escape.watch(&at, &v) {
                Watched::Step(size) => {
                    at[0] -= size * v[0];
                    at[1] -= size * v[1];
                    assert!(escape.distance(&at) < 1.0);
                }
                other => break other,
            }
        };
        let Watched::Broken(size) = end else {
            panic!("{end:?}")
        };
        let at = [at[0] - size * v[0], at[1] - size * v[1]];
        assert!((escape.distance(&at) - 1.0).abs() < 1e-12 && size <= 0.5);
        assert_eq!(escape.anchor(), [3.0, -1.0]);
    }
}
