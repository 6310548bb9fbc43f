// The integers of a sum, and who was drawn, stay inside.
fn sum(sum: &dpopt_privacy::LatticeSum) -> i64 {
    sum.sum[0]
}

fn choice(ticket: &dpopt_privacy::Ticket<dpopt_privacy::ticket::ForChoice>) -> i64 {
    ticket.terms.scores[0]
}

fn main() {}
