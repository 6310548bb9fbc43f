//! Second derivatives of objectives of scores.

use dpopt_linalg::dot;

use super::{At, Cell, ScoreSaddle, Scored, split};
use crate::loss::glm::add_multiple;
use crate::loss::saddle::{SaddleRecord, TwiceSaddle};
use crate::loss::traits::Bordered;
use crate::records::Example;

/// Second derivatives of the loss itself, and not of the field that the clips may shorten.
impl<S: ScoreSaddle> TwiceSaddle for Scored<S> {
    fn hessian_vector(
        &self,
        record: Example<'_>,
        x: &[f64],
        y: &[f64],
        direction: &[f64],
        out: &mut [f64],
    ) {
        let of = second(self.objective(), record, x, y);
        let at = direction.len().saturating_sub(of.border.len());
        let (head, behind) = direction.split_at(at);
        let (of_weights, rest) = out.split_at_mut(at);
        let along = record.row.dot(head);
        let slope = of.factor * along + dot(&of.border, behind);
        add_multiple(slope, record.row, of_weights);
        for (k, out) in rest.iter_mut().enumerate() {
            *out += of.border[k] * along;
            for (l, v) in behind.iter().enumerate() {
                let (high, low) = (k.max(l), k.min(l));
                *out += of.corner[high * (high + 1) / 2 + low] * v;
            }
        }
    }

    fn bordered<'r>(
        &self,
        record: SaddleRecord<'r, Self>,
        x: &[f64],
        y: &[f64],
    ) -> Option<Bordered<'r>> {
        Some(second(self.objective(), record, x, y))
    }
}

fn second<'r, S: ScoreSaddle>(
    objective: &S,
    record: Example<'r>,
    x: &[f64],
    y: &[f64],
) -> Bordered<'r> {
    let (weights, extra) = split(x, objective.extra());
    let tail = extra.len() + y.len();
    let (mut border, mut corner) = (vec![0.0; tail], vec![0.0; tail * (tail + 1) / 2]);
    let (score, cell) = (record.row.dot(weights), Cell::of(record.label));
    let factor = objective.second(score, cell, At { extra, y }, &mut border, &mut corner);
    Bordered {
        factor,
        row: record.row,
        border,
        corner,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::laws;
    use crate::loss::{
        AucSaddle, BlockClips, CellShares, EqualOpportunity, GroupDro, Joint, SaddleLoss as _,
    };
    use crate::records::{Examples, Records as _};
    use dpopt_linalg::Design;
    use dpopt_privacy::ClipNorm;

    const ROW_NORM: f64 = 1.5;

    fn shares() -> CellShares {
        CellShares::new(vec![
            [Some(0.5), Some(0.1)],
            [Some(0.25), Some(0.1)],
            [None, Some(0.05)],
        ])
        .unwrap()
    }

    /// Rows of every cell, of nobody's group, and of no cell; dense ones and ones of zeros and ones.
    fn records() -> [Examples; 2] {
        let labels = [-1.0, 1.0, -2.0, 2.0, 3.0, 9.0, f32::NAN];
        let mut ones = Design::one_hot(3, 0.75).unwrap();
        let mut dense = Vec::new();
        for i in 0..labels.len() {
            ones.push_ones(&[(i % 2) as u32, 2]).unwrap();
            dense.extend((0..3).map(|j| ((3 * i + j) as f64 * 1.7).sin() * 0.8));
        }
        [Design::dense(3, dense).unwrap(), ones].map(|design| {
            let norm = ClipNorm::new(ROW_NORM).unwrap();
            Examples::new(design, labels.to_vec(), norm).unwrap()
        })
    }

    fn free<S: ScoreSaddle>(objective: S) -> Scored<S> {
        let none = f64::INFINITY;
        Scored::new(objective, BlockClips { x: none, y: none })
    }

    fn keeps_the_laws<S: ScoreSaddle + Clone>(objective: &S) {
        for records in records() {
            for scale in [0.25, 1.0] {
                let joint = Joint::new(free(objective.clone()), scale).unwrap();
                laws::second_derivatives(&joint, &records, 0.5);
            }
        }
    }

    /// Hessians are symmetric, the slopes of gradients, within their bound, and the same in bordered form.
    #[test]
    fn second_derivatives_of_objectives() {
        keeps_the_laws(&GroupDro::new(&shares(), true, 0.7).unwrap());
        keeps_the_laws(&GroupDro::new(&shares(), false, 2.0).unwrap());
        keeps_the_laws(&EqualOpportunity::new(&shares(), 0.7).unwrap());
        keeps_the_laws(&AucSaddle::new(&shares()).unwrap());
    }

    /// At a score of zero, where h = 1/2, h' = 1/4, h'' = 0: by hand.
    #[test]
    fn second_derivatives_at_zero_by_hand() {
        let cell = |positive, group| Cell { positive, group };
        let close = |found: &[f64], expected: &[f64]| {
            assert_eq!(found.len(), expected.len());
            for (a, b) in found.iter().zip(expected) {
                assert!((a - b).abs() < 1e-14, "{found:?} {expected:?}");
            }
        };
        let y = [0.1, 0.2, 0.3, 0.2, 0.2];
        let (mut border, mut corner) = ([0.0; 5], [0.0; 15]);
        let at = At { extra: &[], y: &y };
        let dro = GroupDro::new(&shares(), true, 0.7).unwrap();
        // The second coordinate, of weight 10: u = 0.2.
        let factor = dro.second(0.0, cell(true, 0), at, &mut border, &mut corner);
        close(&[factor], &[0.2 * 10.0 / 4.0]);
        close(&border, &[1.0, -4.0, 1.0, 1.0, 1.0]);
        close(
            &[corner[0], corner[1], corner[2], corner[5]],
            &[-0.7, 0.0, -0.7, -0.7],
        );

        let (mut border, mut corner) = ([0.0; 3], [0.0; 6]);
        let y = [0.5, -0.25, 0.0];
        let at = At { extra: &[], y: &y };
        let equal = EqualOpportunity::new(&shares(), 0.7).unwrap();
        let factor = equal.second(0.0, cell(true, 2), at, &mut border, &mut corner);
        // 1/pi_+ = 4 and 1/pi_k = 20.
        close(&[factor], &[0.25]);
        close(&border, &[-1.0, -1.0, 4.0]);

        let (mut border, mut corner) = ([0.0; 3], [0.0; 6]);
        let at = At {
            extra: &[0.0; 2],
            y: &[0.0],
        };
        let auc = AucSaddle::new(&shares()).unwrap();
        let factor = auc.second(0.0, cell(false, 0), at, &mut border, &mut corner);
        // p = 1/4: f = p ((h - b)^2 + 2 (1 + theta) h) - p (1 - p) theta^2.
        close(&[factor], &[2.0 * 0.25 / 16.0]);
        close(&border, &[0.0, -0.125, 0.125]);
        close(&corner, &[0.0, 0.0, 0.5, 0.0, 0.0, -0.375]);
    }

    /// No record's blocks are longer than the constants of the point, and those are no more than a few times what is found.
    fn bounds_records<S: ScoreSaddle + Clone>(objective: &S, y: &[f64], extra: &[f64]) {
        let mut sharpest = [0.0f64; 5];
        for records in records() {
            for size in [0.0, 0.5, 3.0] {
                let weights = [0.6 * size, -0.64 * size, 0.48 * size];
                let at = At { extra, y };
                let found = objective.record_at(ROW_NORM, ROW_NORM * size, at);
                let loss = free(objective.clone());
                let x: Vec<f64> = weights.iter().chain(extra).copied().collect();
                for i in 0..records.len() {
                    let (mut of_x, mut of_y) = (vec![0.0; x.len()], vec![0.0; y.len()]);
                    loss.gradient(records.record(i), &x, y, (&mut of_x, &mut of_y));
                    let mut blocks = [0.0f64; 3];
                    for j in 0..x.len() + y.len() {
                        let (mut unit, mut out) = (vec![0.0; x.len() + y.len()], vec![]);
                        unit[j] = 1.0;
                        out.resize(unit.len(), 0.0);
                        loss.hessian_vector(records.record(i), &x, y, &unit, &mut out);
                        for (k, entry) in out.iter().enumerate() {
                            match (k < x.len(), j < x.len()) {
                                (true, true) => blocks[0] += entry * entry,
                                (true, false) => blocks[1] += entry * entry,
                                (false, true) => {}
                                (false, false) => blocks[2] += entry * entry,
                            }
                        }
                    }
                    let here = [
                        (dpopt_linalg::norm(&of_x), found.x),
                        (dpopt_linalg::norm(&of_y), found.y),
                        (blocks[0].sqrt(), found.hessian[0]),
                        (blocks[1].sqrt(), found.hessian[1]),
                        (blocks[2].sqrt(), found.hessian[2]),
                    ];
                    for (sharpest, (size, bound)) in sharpest.iter_mut().zip(here) {
                        assert!(size <= bound * (1.0 + 1e-12), "{size} {bound}");
                        *sharpest = sharpest.max(size / bound);
                    }
                }
            }
        }
        assert!(sharpest.iter().all(|part| *part > 0.3), "{sharpest:?}");
    }

    #[test]
    fn constants_at_a_point_bound_every_record() {
        let dro = GroupDro::new(&shares(), true, 0.7).unwrap();
        bounds_records(&dro, &[0.1, 0.3, 0.2, 0.1, 0.3], &[]);
        let equal = EqualOpportunity::new(&shares(), 0.7).unwrap();
        bounds_records(&equal, &[0.3, -0.9, 0.1], &[]);
        bounds_records(&AucSaddle::new(&shares()).unwrap(), &[0.6], &[-0.1, 0.2]);
    }

    /// Of records whose cells have the shares: how much the mean field and the mean Hessian change with y, how long the field is, how
    /// far below zero curvatures are; against the constants of the mean.
    fn bounds_means<S: ScoreSaddle + Clone>(objective: &S, ys: &[&[f64]], extra: &[f64]) {
        // 20 records of the shares, on rows that point all ways.
        let counts = [(-1.0, 10), (1.0, 2), (-2.0, 5), (2.0, 2), (3.0, 1)];
        let labels: Vec<f32> = counts
            .iter()
            .flat_map(|&(label, count)| vec![label; count])
            .collect();
        let entries: Vec<f64> = (0..60)
            .map(|j| ((j * j) as f64 * 0.7).sin() * 0.8)
            .collect();
        let design = Design::dense(3, entries).unwrap();
        let records = Examples::new(design, labels, ClipNorm::new(ROW_NORM).unwrap()).unwrap();
        let loss = free(objective.clone());
        let x: Vec<f64> = [2.0, -1.5, 0.5].iter().chain(extra).copied().collect();
        let dim = x.len() + ys[0].len();
        let mean = |y: &[f64]| {
            let (mut of_x, mut of_y) = (vec![0.0; x.len()], vec![0.0; y.len()]);
            let mut hessian = vec![vec![0.0; dim]; dim];
            for i in 0..records.len() {
                loss.gradient(records.record(i), &x, y, (&mut of_x, &mut of_y));
                for (j, out) in hessian.iter_mut().enumerate() {
                    let mut unit = vec![0.0; dim];
                    unit[j] = 1.0;
                    loss.hessian_vector(records.record(i), &x, y, &unit, out);
                }
            }
            of_x.iter_mut().for_each(|g| *g /= 20.0);
            hessian.iter_mut().flatten().for_each(|h| *h /= 20.0);
            (of_x, hessian)
        };
        let of = objective.mean_at(ROW_NORM, At { extra, y: ys[0] }, 1.0);
        for pair in ys.windows(2) {
            let ((a, m), (b, n)) = (mean(pair[0]), mean(pair[1]));
            let apart = dpopt_linalg::distance(pair[0], pair[1]);
            assert!(dpopt_linalg::distance(&a, &b) <= of.smooth_xy * apart);
            assert!(dpopt_linalg::norm(&a) <= of.lipschitz);
            let rows = m.iter().zip(&n);
            let change: f64 = rows
                .flat_map(|(m, n)| m.iter().zip(n))
                .map(|(m, n)| (m - n) * (m - n))
                .sum();
            // The Frobenius norm of a matrix of rank d1 is at most sqrt(d1) times its largest eigenvalue.
            let most = of.joint_hessian_lipschitz * apart * (x.len() as f64).sqrt();
            assert!(change.sqrt() <= most);
            for direction in [[1.0, 0.0, 0.0], [0.6, -0.8, 0.0], [0.0, 0.6, 0.8]] {
                let bent: f64 = (0..9)
                    .map(|k| direction[k / 3] * direction[k % 3] * m[k / 3][k % 3])
                    .sum();
                assert!(bent >= -of.concavity - 1e-15);
            }
            for k in x.len()..dim {
                assert!(m[k][k] <= -of.strong_concavity * (1.0 - 1e-12));
            }
        }
    }

    #[test]
    fn constants_of_the_mean_at_a_point() {
        let (even, one) = ([0.2; 5], [0.0, 1.0, 0.0, 0.0, 0.0]);
        let dro = GroupDro::new(&shares(), true, 0.7).unwrap();
        bounds_means(&dro, &[&even, &one, &[0.0, 0.0, 0.4, 0.6, 0.0]], &[]);
        let equal = EqualOpportunity::new(&shares(), 0.7).unwrap();
        bounds_means(&equal, &[&[0.0; 3], &[1.0, -1.0, 1.0], &[-1.0; 3]], &[]);
        let auc = AucSaddle::new(&shares()).unwrap();
        bounds_means(&auc, &[&[-1.5], &[1.5], &[0.0]], &[0.2, -0.3]);
    }
}
