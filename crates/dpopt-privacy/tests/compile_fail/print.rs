// Neither sums nor tickets print, and who was drawn does not either.
fn sum(secret: &dpopt_privacy::LatticeSum) {
    println!("{secret:?}");
}

fn shown(secret: &dpopt_privacy::LatticeSum) -> String {
    secret.to_string()
}

fn ticket(secret: &dpopt_privacy::Ticket) {
    println!("{secret:?}");
}

fn drawn(secret: dpopt_privacy::SecretPositions<'_>) {
    println!("{secret:?}");
}

fn main() {}
