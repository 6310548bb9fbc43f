fn ticket(secret: &dpopt_privacy::Ticket) -> dpopt_privacy::Ticket {
    secret.clone()
}

fn sample(secret: &dpopt_privacy::Sample) -> dpopt_privacy::Sample {
    secret.clone()
}

fn sum(secret: &dpopt_privacy::LatticeSum) -> dpopt_privacy::LatticeSum {
    secret.clone()
}

fn main() {}
