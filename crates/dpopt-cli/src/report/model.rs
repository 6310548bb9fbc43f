//! The model itself in a report: its largest weights, and the schema that it reads records by.

use dpopt_report::{escape, number, pairs};

use super::input::ReportInput;

/// Weights that are listed. A tuned constant: half a page.
const LISTED: usize = 12;

/// The largest weights by size, of a model with one weight for each feature.
pub(super) fn weights(input: &ReportInput<'_>) -> String {
    let mut all: Vec<&(String, f64)> = input.weights.iter().collect();
    if all.is_empty() {
        return String::new();
    }
    // A tie keeps the order of the features.
    all.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
    let count = all.len();
    all.truncate(LISTED);
    let rows: Vec<(String, String)> = all
        .iter()
        .map(|(name, weight)| (name.clone(), signed(*weight)))
        .collect();
    format!(
        "<section>\n<h2>Largest weights</h2>\n{}<p class=\"note\">Each is as it was released, with the noise of the whole run in it. \
         <strong>No interval is known</strong>: every step of a run goes on from noise of the steps before, and no theorem says how far \
         from the result without noise that ends. So a weight may be large by noise alone, and none of these is a finding about a \
         feature. Sizes can be compared only between features of one scale.</p>\n</section>\n",
        pairs(
            "weights",
            &format!("{} of {}, by size", rows.len(), number(count as f64)),
            &rows
        )
    )
}

fn signed(weight: f64) -> String {
    if weight < 0.0 {
        format!("−{}", number(-weight))
    } else {
        number(weight)
    }
}

/// The schema as it stands in the file of the model, and its hash.
pub(super) fn schema(input: &ReportInput<'_>) -> String {
    let Some((text, hash)) = &input.schema else {
        return String::new();
    };
    format!(
        "<section>\n<h2>Schema</h2>\n<p>Public, and a part of model.json. SHA-256 of the lines below, a line feed at the end of each: \
         <code>{}</code></p>\n<details><summary>The schema</summary>\n<pre>{}</pre>\n</details>\n</section>\n",
        escape(hash),
        escape(text)
    )
}
