fn leak(
    secret: &dpopt_privacy::Sensitive<dpopt_privacy::Vector>,
) -> dpopt_privacy::Sensitive<dpopt_privacy::Vector> {
    secret.clone()
}

fn main() {}
