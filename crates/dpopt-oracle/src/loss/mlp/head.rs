//! Heads: from the outputs of the last layer and a label to a loss.

use serde::{Deserialize, Serialize};

use crate::loss::Glm;

/// How outputs and label are compared.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Head {
    /// -ln softmax(z)_y for a label y in 0, 1, ..., k - 1; another label is taken for no record.
    Softmax,
    /// (z - y)^2 / 2, one output.
    Squared,
    /// phi(z, y), one output.
    Scalar(Glm),
}

impl Head {
    /// Whether a label can be used with this many outputs.
    pub(super) fn accepts(self, label: f64, outputs: usize) -> bool {
        match self {
            Self::Softmax => label >= 0.0 && label < outputs as f64 && label.fract() == 0.0,
            Self::Squared | Self::Scalar(_) => label.is_finite(),
        }
    }

    /// The loss; the label is one that [`Head::accepts`].
    pub(super) fn value(self, outputs: &[f64], label: f64) -> f64 {
        match self {
            Self::Softmax => {
                let top = largest(outputs);
                let total: f64 = outputs.iter().map(|z| (z - top).exp()).sum();
                let own = outputs.get(label as usize).copied().unwrap_or(f64::NAN);
                total.ln() - (own - top)
            }
            Self::Squared => outputs.iter().map(|z| 0.5 * (z - label).powi(2)).sum(),
            Self::Scalar(phi) => outputs.iter().map(|z| phi.value(*z, label)).sum(),
        }
    }

    /// Replaces outputs by the gradient with respect to them.
    pub(super) fn gradient(self, outputs: &mut [f64], label: f64) {
        match self {
            Self::Softmax => {
                softmax(outputs);
                if let Some(own) = outputs.get_mut(label as usize) {
                    *own -= 1.0;
                }
            }
            Self::Squared => outputs.iter_mut().for_each(|z| *z -= label),
            Self::Scalar(phi) => outputs.iter_mut().for_each(|z| *z = phi.slope(*z, label)),
        }
    }

    /// [`Head::gradient`], and replaces movements of outputs by those of the gradient: the Hessian in the outputs, times them.
    pub(super) fn gradient_and_second(self, outputs: &mut [f64], moves: &mut [f64], label: f64) {
        if let Self::Scalar(phi) = self {
            for (v, z) in moves.iter_mut().zip(&*outputs) {
                *v *= phi.curvature(*z, label);
            }
        }
        if self != Self::Softmax {
            self.gradient(outputs, label);
            return;
        }
        softmax(outputs);
        let mean: f64 = outputs.iter().zip(&*moves).map(|(p, v)| p * v).sum();
        for (v, p) in moves.iter_mut().zip(&*outputs) {
            *v = p * (*v - mean);
        }
        if let Some(own) = outputs.get_mut(label as usize) {
            *own -= 1.0;
        }
    }

    /// Replaces the changes of outputs by that of the gradient, without cancellation.
    pub(super) fn change(self, outputs: &[f64], changes: &mut [f64], label: f64) {
        match self {
            Self::Softmax => {}
            Self::Squared => return,
            Self::Scalar(phi) => {
                for (dz, z) in changes.iter_mut().zip(outputs) {
                    *dz = phi.slope_change(*z, *dz, label);
                }
                return;
            }
        }
        let mut p = outputs.to_vec();
        softmax(&mut p);
        if changes.iter().all(|dz| dz.abs() < 1.0) {
            // p'_j - p_j = p_j (e_j - s) / (1 + s) with e_j = exp(dz_j) - 1 and s = sum_j p_j e_j.
            let s: f64 = p.iter().zip(&*changes).map(|(p, dz)| p * dz.exp_m1()).sum();
            for (dz, p) in changes.iter_mut().zip(&p) {
                *dz = p * (dz.exp_m1() - s) / (1.0 + s);
            }
            return;
        }
        let mut moved: Vec<f64> = outputs
            .iter()
            .zip(&*changes)
            .map(|(z, dz)| z + dz)
            .collect();
        softmax(&mut moved);
        for ((dz, after), before) in changes.iter_mut().zip(&moved).zip(&p) {
            *dz = after - before;
        }
    }
}

fn softmax(outputs: &mut [f64]) {
    let top = largest(outputs);
    let mut total = 0.0;
    for z in outputs.iter_mut() {
        *z = (*z - top).exp();
        total += *z;
    }
    for z in outputs {
        *z /= total;
    }
}

fn largest(outputs: &[f64]) -> f64 {
    outputs.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn softmax_of_three_outputs_is_the_closed_form() {
        // ln 1, ln 2, ln 5: probabilities 1/8, 2/8, 5/8; far shifts change nothing.
        for shift in [0.0, 700.0, -1e3] {
            let outputs = [1f64, 2.0, 5.0].map(|x| x.ln() + shift);
            let value = Head::Softmax.value(&outputs, 1.0);
            assert!((value - 4f64.ln()).abs() < 1e-12);
            let mut gradient = outputs;
            Head::Softmax.gradient(&mut gradient, 2.0);
            for (g, p) in gradient.iter().zip([0.125, 0.25, -0.375]) {
                assert!((g - p).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn a_small_change_is_the_jacobian_times_it() {
        let outputs = [1f64, 2.0, 5.0].map(f64::ln);
        for size in [2f64.powi(-30), 2f64.powi(-900)] {
            let mut changes = [size, 0.0, -size];
            Head::Softmax.change(&outputs, &mut changes, 0.0);
            // (diag p - p p^T)(1, 0, -1): p.v = -1/2.
            for (dz, j) in changes.iter().zip([0.125 * 1.5, 0.25 * 0.5, -0.625 * 0.5]) {
                assert!((dz / size - j).abs() < 1e-8);
            }
        }
        let mut large = [3.0, 0.0, -0.5];
        Head::Softmax.change(&outputs, &mut large, 0.0);
        let mut after = [1f64.ln() + 3.0, 2f64.ln(), 5f64.ln() - 0.5];
        softmax(&mut after);
        for ((dz, after), p) in large.iter().zip(after).zip([0.125, 0.25, 0.625]) {
            assert!((dz - (after - p)).abs() < 1e-14);
        }
    }

    #[test]
    fn labels_that_are_no_class_are_refused() {
        for label in [-1.0, 3.0, 0.5, f64::NAN, f64::INFINITY] {
            assert!(!Head::Softmax.accepts(label, 3));
        }
        assert!(Head::Softmax.accepts(2.0, 3) && Head::Squared.accepts(-1.5, 1));
    }
}
