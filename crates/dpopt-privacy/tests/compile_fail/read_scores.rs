fn leak(secret: &dpopt_privacy::selection::SensitiveScores) -> i64 {
    secret.sums[0]
}

fn main() {}
