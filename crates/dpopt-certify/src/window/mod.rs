//! Certificates for nothing: what the releases of a run say of the mean gradient over a window of its points.

mod error;
mod plan;
mod stated;
#[cfg(test)]
mod tests;
mod watch;

pub use error::WindowError;
pub use plan::{WindowPlan, WindowTerms};
pub use stated::{WindowCertificate, WindowSlack, WindowSubject};
pub use watch::ReleasedWindow;
