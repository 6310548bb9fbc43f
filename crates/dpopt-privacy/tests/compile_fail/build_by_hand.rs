// A caller must not be able to state a price or a sensitivity of its own.
use dpopt_privacy::ticket::ForSum;

fn ticket(sample: dpopt_privacy::Sample, terms: ForSum) -> dpopt_privacy::Ticket {
    dpopt_privacy::Ticket {
        hold: anything(),
        sample,
        terms,
    }
}

fn sum(bound: dpopt_privacy::Bound) -> dpopt_privacy::LatticeSum {
    dpopt_privacy::LatticeSum { bound, sum: vec![1] }
}

fn anything() -> ! {
    loop {}
}

fn main() {}
