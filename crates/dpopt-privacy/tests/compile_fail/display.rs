fn leak(secret: &dpopt_privacy::Sensitive<dpopt_privacy::Vector>) -> String {
    secret.to_string()
}

fn main() {}
