//! Rows as Markdown and as JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::rows::{Row, Run, Setting};

/// One table with its heading.
pub(crate) fn section(setting: &Setting<'_>, rows: &[Row]) -> String {
    let facts = &setting.facts;
    let mut out = format!(
        "### {}, epsilon {}\n\nn = {}, d = {}, L0 = {:.4}, L1 = {:.4}, F0 = {:.4}; gradient norm at the start: {:.5} (exact), at most {:.4} \
         (by the facts).\nCertificate: noise of standard deviation {:.5} on the released norm.\n\n",
        setting.loss,
        setting.budget.epsilon.get(),
        facts.records,
        facts.dim,
        facts.lipschitz,
        facts.smoothness,
        facts.initial_gap,
        setting.at_start,
        facts.trivial_bound(),
        setting.certificate.noise_std,
    );
    out += "| solver | planned in, ms | bound | steps | passes | seconds | released norm | exact norm | mean loss | test AUC | epsilon in all |\n";
    out += "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n";
    for row in rows {
        // Writing to a `String` can't fail.
        let _ = writeln!(out, "{}", line(row));
    }
    out
}

fn line(row: &Row) -> String {
    let start = format!("| {} | {:.1} |", row.name, row.plan_ms);
    let planned = match &row.result {
        Ok(planned) => planned,
        Err(reason) => return format!("{start} no plan: {reason} | | | | | | | | |"),
    };
    let bound = planned
        .bound
        .map_or("none stated".to_owned(), |bound| format!("{bound:.4}"));
    let note = planned
        .note
        .as_ref()
        .map_or(String::new(), |note| format!(" ({note})"));
    let runs = &planned.runs;
    let cell = |of: fn(&Run) -> f64, digits: usize| spread(runs, of, digits);
    format!(
        "{start} {bound}{note} | {} | {:.1} | {} | {} | {} | {} | {} | {:.4} |",
        planned.steps,
        planned.passes,
        cell(|run| run.seconds, 1),
        cell(|run| run.released, 5),
        cell(|run| run.exact, 5),
        cell(|run| run.loss, 4),
        cell(|run| run.auc, 4),
        planned.epsilon,
    )
}

/// The least and the largest of the runs; one number where they agree or there is one run.
fn spread(runs: &[Run], of: fn(&Run) -> f64, digits: usize) -> String {
    let mut values: Vec<f64> = runs.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    // Norms far below their usual size keep two digits.
    let text = |value: &f64| {
        if value.abs() < 10f64.powi(2 - digits as i32) && digits > 4 {
            format!("{value:.1e}")
        } else {
            format!("{value:.digits$}")
        }
    };
    match (values.first().map(text), values.last().map(text)) {
        (Some(least), Some(most)) if least != most => format!("{least} to {most}"),
        (Some(least), _) => least,
        _ => "not run".to_owned(),
    }
}

/// The same with all digits.
pub(crate) fn json(setting: &Setting<'_>, rows: &[Row]) -> Value {
    let row = |row: &Row| {
        let run = |run: &Run| {
            json!({"seconds": run.seconds, "released_norm": run.released, "exact_norm": run.exact,
                   "mean_loss": run.loss, "test_auc": run.auc})
        };
        let planned = row.result.as_ref().ok();
        json!({
            "solver": row.name,
            "planning_milliseconds": row.plan_ms,
            "no_plan": row.result.as_ref().err(),
            "bound": planned.and_then(|planned| planned.bound),
            "steps": planned.map(|planned| planned.steps),
            "passes": planned.map(|planned| planned.passes),
            "epsilon_with_certificate": planned.map(|planned| planned.epsilon),
            "note": planned.and_then(|planned| planned.note.as_ref()),
            "runs": planned.map(|planned| planned.runs.iter().map(run).collect::<Vec<_>>()),
        })
    };
    json!({
        "loss": setting.loss.to_string(),
        "epsilon": setting.budget.epsilon.get(),
        "delta": setting.budget.delta.get(),
        "exact_norm_at_start": setting.at_start,
        "certificate_noise": setting.certificate.noise_std,
        "rows": rows.iter().map(row).collect::<Vec<_>>(),
    })
}
