fn leak(secret: &dpopt_privacy::Sensitive<dpopt_privacy::Vector>) {
    println!("{secret:?}");
}

fn main() {}
