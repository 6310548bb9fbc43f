// A step of a period costs nothing of its own: its ticket is none for a release.
use dpopt_privacy::ticket::{ForClaim, ForStep};
use dpopt_privacy::{Curator, LatticeSum, Ticket};

fn step(curator: &mut Curator, ticket: Ticket<ForStep>, sum: LatticeSum) {
    let _ = curator.redeem(ticket, sum);
}

fn claim(curator: &mut Curator, ticket: Ticket<ForClaim>, sum: LatticeSum) {
    let _ = curator.redeem(ticket, sum);
}

fn main() {}
