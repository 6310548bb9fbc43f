// Only a curator states a guarantee.
fn forge() -> dpopt_privacy::Guarantee {
    dpopt_privacy::Guarantee {
        epsilon: 0.1,
        delta: dpopt_privacy::Delta::new(1e-6).unwrap(),
        adjacency: dpopt_privacy::Adjacency::AddRemove,
        accountant: dpopt_privacy::Accountant::Gdp,
        event: dpopt_privacy::Event::NoOp,
    }
}

fn main() {}
