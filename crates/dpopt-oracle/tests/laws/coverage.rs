//! No loss and no query is left out.

use std::path::Path;

/// Losses with a gradient that go through [`crate::losses`].
const LOSSES: [&str; 13] = [
    "CellCounts",
    "ClosureLoss",
    "ConvexGlm",
    "Glm",
    "Joint",
    "MatrixFactorization",
    "MatrixSensing",
    "Mlp",
    "Network",
    "QuadraticLink",
    "Softmax",
    "Tally",
    "Weighted",
];

/// Queries that do so too, or go through [`crate::framed`].
const QUERIES: [&str; 16] = [
    "BallGradient",
    "Curvature",
    "Directional",
    "HessianMatrix",
    "HessianVector",
    "HessianVectorDifference",
    "Linear",
    "MeanOfGradients",
    "RowAverage",
    "Slopes",
    "Smoothed",
    "SmoothedDifference",
    "SmoothedGradient",
    "SubspaceHessian",
    "Value",
    "ValueChange",
];

/// The types that the sources under `folder` implement `what` for, tests left out.
fn implementors(folder: &Path, what: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(implementors(&path, what));
            continue;
        }
        if path.ends_with("laws.rs") || path.ends_with("tests.rs") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let own = text.split("mod tests {").next().unwrap();
        for line in own.lines().filter(|line| line.starts_with("impl")) {
            if let Some((_, name)) = line.split_once(what) {
                let end = name.find(|c: char| !c.is_alphanumeric());
                found.push(name[..end.unwrap_or(name.len())].to_owned());
            }
        }
    }
    found.sort();
    found
}

/// The three forms of the linear query, each of which goes through [`crate::losses`].
#[test]
fn every_linear_query_is_covered() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(folder.join("src/query/linear.rs")).unwrap();
    let found: Vec<&str> = text
        .split("    #[must_use]\n    pub fn ")
        .filter(|part| part.contains("-> Self {"))
        .filter_map(|part| part.split_once('(').map(|(name, _)| name))
        .filter(|name| !name.contains(char::is_whitespace) && *name != "within")
        .collect();
    assert_eq!(found, ["field", "change", "momentum"]);
    let laws = std::fs::read_to_string(folder.join("tests/laws/losses.rs")).unwrap();
    for name in found {
        assert!(laws.contains(&format!("Linear::{name}(")), "{name}");
    }
}

#[test]
fn every_loss_and_every_query_is_covered() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    assert_eq!(
        implementors(&sources.join("loss"), " Differentiable for "),
        LOSSES
    );
    assert_eq!(implementors(&sources, " Query<L> for "), QUERIES);
}
