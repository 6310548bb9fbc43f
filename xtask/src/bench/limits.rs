//! What the machine can do at most: measured first in every run.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::child::Answering;
use super::lines::{Limit, Line, numbers};

/// Rates by name, of a second.
pub(crate) type Rates = BTreeMap<String, f64>;

/// Names, units of a second, and what they are.
pub(crate) const RATES: [(&str, &str, &str); 8] = [
    ("read", "GB/s", "a plain read of 400 MB"),
    (
        "read-cache",
        "GB/s",
        "a plain read of 4 MB that stay in the cache",
    ),
    (
        "singles",
        "G/s",
        "fused multiply-adds in single precision, on registers alone",
    ),
    ("doubles", "G/s", "the same in double precision"),
    ("chacha", "GB/s", "ChaCha20, as noise uses it"),
    (
        "gemm",
        "G/s",
        "multiply-adds of a product of matrices by faer, double precision, one thread",
    ),
    (
        "syrk",
        "G/s",
        "multiply-adds of the lower triangle of a product with itself by faer, one thread",
    ),
    (
        "gemm-singles",
        "G/s",
        "multiply-adds of a product by faer in single precision, one thread",
    ),
];

/// Measures all rates on so many threads. Those of faer are of one thread, times the threads.
pub(crate) fn measure(side: &Path, products: &Path, threads: usize) -> Result<Rates, String> {
    let mut rates = Rates::new();
    let mut command = Command::new(side);
    command.args(["limits", &threads.to_string()]);
    let mut own = Answering::start("the limits", &mut command, Duration::from_secs(120))?;
    own.answer()?;
    for name in ["read", "read-cache", "singles", "doubles", "chacha"] {
        let found = own.ask(&format!("time {name}"))?["value"].as_f64();
        rates.insert(name.to_owned(), found.ok_or("a rate without a value")?);
    }
    let output = Command::new(products).stdin(Stdio::null()).output();
    let found = output
        .map_err(|error| error.to_string())
        .and_then(|output| {
            serde_json::from_slice::<Rates>(&output.stdout).map_err(|error| error.to_string())
        });
    match found {
        Ok(found) => rates.extend(
            found
                .into_iter()
                .map(|(name, rate)| (name, rate * threads as f64)),
        ),
        Err(why) => eprintln!("no rates of products: {}: {why}", products.display()),
    }
    Ok(rates)
}

/// The least seconds that a line could take, where a rate bounds it.
pub(crate) fn least(line: &Line, words: &[&str], rates: &Rates) -> Option<f64> {
    match line.limit {
        Limit::Rate(name, amount) => Some(amount(&numbers(&words[1..])) / rates.get(name)?),
        Limit::Work(_) | Limit::None(_) => None,
    }
}

/// Free memory in bytes; none where the system does not say.
pub(crate) fn available() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    available_in(&text)
}

fn available_in(text: &str) -> Option<f64> {
    let line = text
        .lines()
        .find(|line| line.starts_with("MemAvailable:"))?;
    let kib: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(1024.0 * kib)
}

/// Why a line that needs so much memory is not run.
pub(crate) fn too_large(needed: f64, free: Option<f64>) -> Option<String> {
    let free = free.filter(|free| needed > 0.9 * free)?;
    Some(format!(
        "it needs about {:.1} GB of memory, {:.1} are free",
        1e-9 * needed,
        1e-9 * free
    ))
}

#[cfg(test)]
mod tests {
    use super::{RATES, Rates, available_in, least, too_large};
    use crate::bench::lines::{LINES, Limit};

    #[test]
    fn every_limit_has_a_rate_that_is_measured() {
        for line in LINES {
            let words = line.words(false);
            let all: Rates = RATES.map(|(name, ..)| (name.to_owned(), 2.0)).into();
            match line.limit {
                Limit::Rate(name, amount) => {
                    assert!(all.contains_key(name), "{name}");
                    let needed = amount(&super::numbers(&words[1..]));
                    assert_eq!(least(line, &words, &all), Some(needed / 2.0));
                }
                _ => assert_eq!(least(line, &words, &all), None),
            }
        }
    }

    #[test]
    fn a_shape_beyond_the_memory_is_told_with_both_numbers() {
        let free = available_in("MemTotal: 9 kB\nMemAvailable:    1000000 kB\n");
        assert_eq!(free, Some(1.024e9));
        assert_eq!(too_large(5e8, free), None);
        let why = too_large(2e9, free).expect("too large");
        assert!(why.contains("2.0 GB") && why.contains("1.0 are free"));
        assert_eq!(too_large(2e9, None), None);
    }
}
