// A caller must not be able to state a sensitivity of its own.
fn forge(bound: dpopt_privacy::Bound) -> dpopt_privacy::Sensitive<dpopt_privacy::Vector> {
    dpopt_privacy::Sensitive {
        payload: dpopt_privacy::Vector { sum: vec![1] },
        bound,
        adjacency: dpopt_privacy::Adjacency::AddRemove,
        access: anything(),
    }
}

fn anything() -> ! {
    loop {}
}

fn main() {}
