fn leak(secret: &dpopt_privacy::Sensitive<dpopt_privacy::Vector>) -> String {
    serde_json::to_string(secret).unwrap()
}

fn main() {}
