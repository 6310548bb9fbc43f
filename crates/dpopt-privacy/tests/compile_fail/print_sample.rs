// Who was drawn is secret: neither a sample nor its positions print.
fn sample(ticket: &dpopt_privacy::Ticket) {
    println!("{:?}", ticket.sample());
}

fn positions(ticket: &dpopt_privacy::Ticket) {
    println!("{:?}", ticket.sample().positions());
}

fn count(body: dpopt_privacy::Body) {
    println!("{body:?}");
}

fn main() {}
