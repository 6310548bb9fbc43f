// The price of one sample does not pay for another.
use dpopt_privacy::Ticket;

fn swap(cheap: Ticket, dear: Ticket) -> Ticket {
    Ticket {
        sample: dear.sample,
        ..cheap
    }
}

fn main() {}
