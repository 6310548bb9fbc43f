//! What several tests plan with.

use dpopt_linalg::Domain;
use dpopt_minimax::{MeanFacts, SaddleFacts};
use dpopt_oracle::SaddleConstants;
use dpopt_privacy::Adjacency;

/// Constants of one, d1 = d2 = 5.
pub(crate) fn unit(records: u64, adjacency: Adjacency) -> SaddleFacts {
    SaddleFacts {
        records,
        adjacency,
        x_dim: 5,
        domain: Domain::ball(5, 1.0),
        record: SaddleConstants {
            lipschitz_x: 1.0,
            lipschitz_y: 1.0,
            smooth_xx: 1.0,
            smooth_xy: 1.0,
            smooth_yy: 1.0,
            hessian_frobenius: 2.0,
        },
        mean: MeanFacts {
            strong_concavity: 1.0,
            smooth_yy: 1.0,
            smooth_xy: 1.0,
            value_smoothness: 2.0,
            value_gap: 1.0,
            value_hessian_lipschitz: 1.0,
            joint_hessian_lipschitz: 1.0,
        },
        whole: true,
        rarest: None,
    }
}
