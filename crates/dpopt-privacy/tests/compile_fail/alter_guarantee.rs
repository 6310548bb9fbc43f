// A guarantee stays as it was issued.
fn improve(guarantee: &mut dpopt_privacy::Guarantee) {
    guarantee.epsilon = 1e-9;
}

fn main() {}
