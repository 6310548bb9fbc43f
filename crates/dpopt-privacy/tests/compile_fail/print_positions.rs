// Who was drawn is secret: the positions of a sample don't print.
fn poisson(sample: &dpopt_privacy::PoissonSample) {
    println!("{:?}", sample.secret_positions());
}

fn fixed_size(sample: &dpopt_privacy::FixedSizeSample) {
    println!("{:?}", sample.secret_positions());
}

fn main() {}
