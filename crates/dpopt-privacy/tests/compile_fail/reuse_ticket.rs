// A ticket is used up by the release that it was granted for: a sample pays for a sum or for its norm.
use dpopt_privacy::{Curator, LatticeSum, Ticket};

fn twice(curator: &mut Curator, ticket: Ticket, a: LatticeSum, b: LatticeSum) {
    let _ = curator.redeem(ticket, a);
    let _ = curator.redeem_norm(ticket, b, &[]);
}

fn main() {}
