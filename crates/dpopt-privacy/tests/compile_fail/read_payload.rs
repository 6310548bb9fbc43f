fn leak(secret: &dpopt_privacy::Sensitive<dpopt_privacy::Vector>) -> i64 {
    secret.payload.sum[0]
}

fn main() {}
