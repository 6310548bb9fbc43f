// A caller must not be able to state a sensitivity of its own.
fn forge(bound: dpopt_privacy::Bound) -> dpopt_privacy::LatticeSum {
    dpopt_privacy::LatticeSum {
        bound,
        sum: vec![1],
    }
}

fn main() {}
