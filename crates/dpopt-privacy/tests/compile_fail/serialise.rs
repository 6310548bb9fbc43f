fn leak(secret: &dpopt_privacy::LatticeSum) -> String {
    serde_json::to_string(secret).unwrap()
}

fn main() {}
