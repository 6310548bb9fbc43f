// A Poisson sample is used up by the sum that was taken over it.
use dpopt_privacy::{Adjacency, LatticeSum, PoissonSample, Sensitive, Touched, Vector};

fn twice(
    a: LatticeSum,
    b: LatticeSum,
    sample: PoissonSample,
) -> (Sensitive<Vector>, Sensitive<Vector>) {
    (
        a.finish(Adjacency::AddRemove, Touched::Poisson(sample)),
        b.finish(Adjacency::AddRemove, Touched::Poisson(sample)),
    )
}

fn main() {}
