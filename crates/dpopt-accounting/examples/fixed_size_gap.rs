//! How far the accounting of samples of fixed size under replace-one is from what an adversary attains who chooses the data anew at each step.
//!
//! `cargo run --release -p dpopt-accounting --example fixed_size_gap` prints, for the settings of `docs/privacy/accounting.md`, the noise
//! multiplier at which delta is 1e-5 at epsilon 1: of one pair for all steps, of the better of the two attained pairs at each step given what was
//! released, of any of five places of the record between, and of the composed bound. All but the last by backward induction on a
//! lattice of the loss; estimates, for two lattices, and no bounds.
#![allow(clippy::print_stdout, reason = "an example shows its numbers")]

use dpopt_accounting::accounting::calibrate;
use dpopt_accounting::{Accountant, Adjacency, Delta, Epsilon, Event};
use realfft::num_complex::Complex;
use realfft::{FftError, RealFftPlanner};

const EPSILON: f64 = 1.0;
const DELTA: f64 = 1e-5;

fn density(x: f64, mean: f64) -> f64 {
    (-0.5 * (x - mean).powi(2)).exp() / std::f64::consts::TAU.sqrt()
}

/// The loss of `(1-q) N(y) + q N(0)` against `(1-q) N(y) + q N(mu)` under the first, split between lattice points so that the mean of its
/// exponential stays.
struct Kernel {
    first: i64,
    masses: Vec<f64>,
}

impl Kernel {
    fn new(q: f64, mu: f64, y: f64, h: f64) -> Self {
        let (low, high, n) = (-10.0 - mu, 10.0 + mu, 40_000);
        let width = (high - low) / f64::from(n);
        let points: Vec<(f64, f64)> = (0..n)
            .map(|i| {
                let x = low + width * (f64::from(i) + 0.5);
                let p = (1.0 - q) * density(x, y) + q * density(x, 0.0);
                let other = (1.0 - q) * density(x, y) + q * density(x, mu);
                ((p / other).ln(), p * width)
            })
            .filter(|(loss, mass)| loss.is_finite() && *mass > 1e-15)
            .collect();
        let place = |loss: f64| (loss / h).floor() as i64;
        let first = points.iter().map(|p| place(p.0)).min().unwrap_or(0);
        let last = points.iter().map(|p| place(p.0)).max().unwrap_or(0);
        let mut masses = vec![0.0; (last - first + 2) as usize];
        for (loss, mass) in points {
            let cell = place(loss);
            let above = loss - cell as f64 * h;
            // Of Q: mass e^{-loss}.
            let share = (-above).exp_m1() / (-h).exp_m1();
            masses[(cell - first) as usize] += mass * (1.0 - share);
            masses[(cell - first) as usize + 1] += mass * share;
        }
        Self { first, masses }
    }
}

/// delta at epsilon after so many steps, of which each has the kernel that is best from where it stands; by fast Fourier transforms.
fn delta(kernels: &[Kernel], steps: u64, h: f64, reach: f64) -> Result<f64, FftError> {
    let n = (reach / h) as i64;
    let below = kernels.iter().map(|k| -k.first).max().unwrap_or(0).max(0);
    let above = kernels.iter().map(|k| k.first + k.masses.len() as i64);
    let above = above.max().unwrap_or(0).max(0);
    let (inner, length) = (
        below as usize..(below + 2 * n + 1) as usize,
        (below + 2 * n + 1 + above) as usize,
    );
    let size = length.next_power_of_two();
    let mut planner = RealFftPlanner::<f64>::new();
    let (forward, inverse) = (
        planner.plan_fft_forward(size),
        planner.plan_fft_inverse(size),
    );
    let spectrum = |mut input: Vec<f64>| -> Result<Vec<Complex<f64>>, FftError> {
        let mut out = forward.make_output_vec();
        forward.process(&mut input, &mut out)?;
        Ok(out)
    };
    let mut spectra = Vec::new();
    for kernel in kernels {
        let mut input = vec![0.0; size];
        for (k, mass) in (kernel.first..).zip(&kernel.masses) {
            input[k.rem_euclid(size as i64) as usize] += mass / size as f64;
        }
        spectra.push(spectrum(input)?);
    }
    // Far below nothing is lost, far above all is.
    let mut value = vec![0.0; size];
    for (i, value) in value.iter_mut().enumerate().take(length) {
        let loss = (i as i64 - below - n) as f64 * h;
        *value = if i < inner.start {
            0.0
        } else {
            -(EPSILON - loss).min(0.0).exp_m1()
        };
    }
    let mut out = inverse.make_output_vec();
    for _ in 0..steps {
        let before = spectrum(value.clone())?;
        let mut best = vec![0.0; size];
        for kernel in &spectra {
            let mut both: Vec<Complex<f64>> = before
                .iter()
                .zip(kernel)
                .map(|(v, m)| v * m.conj())
                .collect();
            if let Some(first) = both.first_mut() {
                first.im = 0.0;
            }
            if let Some(last) = both.last_mut() {
                last.im = 0.0;
            }
            inverse.process(&mut both, &mut out)?;
            for (best, out) in best.iter_mut().zip(&out) {
                *best = f64::max(*best, *out);
            }
        }
        value[inner.clone()].copy_from_slice(&best[inner.clone()]);
    }
    Ok(value[inner.start + n as usize])
}

/// The noise multiplier with this delta; `mu = 1/z`.
fn multiplier(
    q: f64,
    steps: u64,
    places: &[f64],
    (cells, composed): (f64, f64),
) -> Result<f64, FftError> {
    let (mut low, mut high) = (0.85 * composed, composed);
    for _ in 0..8 {
        let z = 0.5 * (low + high);
        let mu = 1.0 / z;
        let deviation = q * (mu * mu).exp_m1().sqrt();
        let h = deviation / cells;
        let kernels: Vec<Kernel> = places
            .iter()
            .map(|share| Kernel::new(q, mu, share * mu, h))
            .collect();
        let reach = 1.5 + 4.0 * deviation * (steps as f64).sqrt();
        if delta(&kernels, steps, h, reach)? > DELTA {
            low = z;
        } else {
            high = z;
        }
    }
    Ok(high)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let records = 100_000_i32;
    println!("m, steps, cells: attained by one, by two in turn, by any of five, composed bound");
    for (sample, steps) in [(1000, 1000), (200, 5000), (1000, 10_000)] {
        let q = f64::from(sample) / f64::from(records);
        let event = |noise_multiplier| {
            let gaussian = Event::gaussian(noise_multiplier);
            Event::SampledWithoutReplacement {
                source_dataset_size: u64::from(records as u32),
                sample_size: u64::from(sample as u32),
                event: Box::new(gaussian),
            }
            .repeated(steps)
        };
        let composed = calibrate::noise_multiplier(
            Accountant::Pld,
            Epsilon::new(EPSILON)?,
            Delta::new(DELTA)?,
            Adjacency::ReplaceOne,
            event,
        )?;
        for cells in [3.0, 6.0] {
            let of = |places: &[f64]| multiplier(q, steps, places, (cells, composed.get()));
            let one = of(&[0.0])?.max(of(&[1.0])?);
            let (two, any) = (of(&[0.0, 1.0])?, of(&[0.0, 0.25, 0.5, 0.75, 1.0])?);
            println!(
                "{sample}, {steps}, {cells}: {one:.3}, {two:.3}, {any:.3}, {:.3}",
                composed.get()
            );
        }
    }
    Ok(())
}
