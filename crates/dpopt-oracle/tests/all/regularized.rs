//! A regulariser adds its exact gradient to what is released, and nothing to what is spent.

use dpopt_linalg::Design;
use dpopt_oracle::{Glm, PrivateData, PrivateGradient, Regularized, Regularizer, Scale};
use dpopt_privacy::{Adjacency, ClipNorm, Curator, Event, Spend};

use crate::common::z;

fn estimator(data: &PrivateData) -> PrivateGradient<'_> {
    let curator = Curator::simulated(data.adjacency(), 12);
    PrivateGradient::new(data, Glm::Welsch, curator).unwrap()
}

/// Two curators with one seed draw the same noise: the estimates differ by the gradient of R alone,
/// in whole.
#[test]
fn the_estimates_differ_by_the_gradient_of_the_term() {
    let design = Design::dense(2, (0..40).map(|k| f64::from(k).sin()).collect()).unwrap();
    let bound = ClipNorm::new(1.0).unwrap();
    let data =
        PrivateData::made_up(design, vec![0.5; 20], bound, Adjacency::ReplaceOne, None).unwrap();
    let weight = Scale::new(0.25).unwrap();
    let spend = Spend::Fixed(Event::gaussian(z(0.5)).repeated(3));
    for term in [Regularizer::Ridge(weight), Regularizer::Nonconvex(weight)] {
        let (mut plain, mut inner) = (estimator(&data), estimator(&data));
        let mut with = Regularized::new(term);
        assert_eq!(with.regularizer(), term);
        plain.reserve(&spend).unwrap();
        inner.reserve(&spend).unwrap();
        let points = [[0.0, 0.0], [0.5, -2.0], [0.5, -2.0], [1e-3, 4.0]];
        for (k, point) in points.iter().enumerate() {
            let (a, b) = if k == 0 {
                let a = plain.refresh(point, z(0.5)).unwrap();
                (a, with.plus(inner.refresh(point, z(0.5)).unwrap(), point))
            } else {
                let a = plain.advance(point, z(0.5)).unwrap();
                (a, with.plus(inner.advance(point, z(0.5)).unwrap(), point))
            };
            for j in 0..2 {
                let w = point[j];
                let expected = match term {
                    Regularizer::Ridge(_) => 0.25 * w,
                    _ => 0.25 * 2.0 * w / (1.0 + w * w).powi(2),
                };
                let added = b.gradient[j] - a.gradient[j];
                assert!(
                    (added - expected).abs() < 1e-14,
                    "{term:?} {k} {j}: {added}"
                );
            }
            assert_eq!((a.noise_std, a.release_std), (b.noise_std, b.release_std));
            // What a norm is shifted by.
            let shift = with.shift(point, &[1.0, 0.0]);
            let mut expected = vec![1.0, 0.0];
            term.add_gradient(point, &mut expected);
            assert_eq!(shift, expected);
        }
        assert_eq!(plain.counts(), inner.counts());
        // The point that did not move cost nothing: an anchor and two variations.
        assert_eq!(inner.counts().releases, 3);
        let spent = inner.settle().unwrap().to_string();
        assert_eq!(spent, plain.settle().unwrap().to_string());
    }
}
