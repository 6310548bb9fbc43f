// The integers behind a payload need a token that only the crate has, also where a bound brings the method into scope.
fn leak<P: dpopt_privacy::Payload>(payload: &P) -> Vec<i128> {
    payload.integers()
}

fn leak_with_a_token<P: dpopt_privacy::Payload>(payload: &P) -> Vec<i128> {
    payload.integers(dpopt_privacy::sensitive::sealed::Inside(()))
}

fn main() {}
