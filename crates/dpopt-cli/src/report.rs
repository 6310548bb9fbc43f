//! The report of a training run: one HTML page that needs nothing else.
//!
//! It is given public values only, in [`ReportInput`]; what it computes from them is
//! post-processing. Every string is escaped.

mod evaluation;
mod input;
mod model;
mod plot;
#[cfg(test)]
mod tests;
mod words;

use dpopt::nonconvex::Stop;
use dpopt_report::{at_least, bars, duration, escape, number, page, pairs, table};

use crate::by_group::{ByGroup, GroupRow};
use crate::no_bound::NoBound;
use crate::trace::Trace;
pub(crate) use input::{PrivacyStatement, ReportInput};
pub(crate) use words::{Assumed, adjacency as neighbours, assumptions, without};

/// Rows of the table that stands in for the plots.
const TABLE_ROWS: usize = 24;

/// Makes the page.
pub(crate) fn render(input: &ReportInput<'_>) -> String {
    let parts = [
        header,
        privacy,
        released,
        certificate,
        plan,
        metrics,
        evaluation::section,
        model::weights,
        model::schema,
        files,
        made,
        footer,
    ];
    let body: String = parts.iter().map(|part| part(input)).collect();
    page(input.title, "", &body)
}

fn plural(count: u64, one: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{} {one}{s}", number(count as f64))
}

fn header(input: &ReportInput<'_>) -> String {
    let privacy = &input.privacy;
    let (epsilon, delta) = (at_least(privacy.epsilon), at_least(privacy.delta));
    let solver = escape(input.solver);
    let releases = plural(input.releases, "release");
    let stop = words::ended(privacy.stop, &releases);
    let mut out = format!(
        "<header>\n<p class=\"kind\">Training report</p>\n<h1>{}</h1>\n",
        escape(input.title)
    );
    if privacy.protected {
        out.push_str(&format!(
            "<p class=\"answer\"><strong>(ε = {epsilon}, δ = {delta})-differentially private</strong> under \
             {} adjacency{}. Solver {solver}; {stop}.</p>\n",
            privacy.adjacency,
            words::conditions(privacy)
        ));
    } else {
        out.push_str(&format!(
            "<div class=\"alarm\" role=\"alert\"><strong>SIMULATION: NO PRIVACY GUARANTEE</strong>\n\
             <p>The noise came from a seed, so anyone who knows or guesses the seed can take it off again. \
             If the records are private, so are the model, its files and this page. Run again without a \
             seed before you publish anything.</p>\n\
             <p>Solver {solver}; {stop}. A protected run of this plan would state ε = {epsilon}, \
             δ = {delta} under {} adjacency; this one states nothing.</p></div>\n",
            privacy.adjacency
        ));
    }
    let would = if privacy.protected {
        ""
    } else {
        " (not guaranteed)"
    };
    let tiles = [
        (format!("Epsilon{would}"), epsilon),
        (format!("Delta{would}"), delta),
        ("Adjacency".to_owned(), privacy.adjacency.to_string()),
        ("Accountant".to_owned(), escape(privacy.accountant)),
        ("Solver".to_owned(), solver),
        ("Loss".to_owned(), escape(input.loss)),
        ("Passes over the records".to_owned(), number(input.passes)),
    ];
    let time = input
        .times
        .map(|times| ("Training time".to_owned(), duration(times.train_seconds)));
    if let Some(nothing) = input.learnt_nothing {
        out.push_str(&format!(
            "<div class=\"alarm\" role=\"alert\"><strong>NOTHING WAS LEARNT</strong>\n<p>This run spent its budget, and {}.</p></div>\n",
            escape(nothing.trim_start_matches("nothing was learnt: "))
        ));
    }
    out.push_str("<dl class=\"tiles\">\n");
    for (name, value) in tiles.into_iter().chain(time) {
        out.push_str(&format!("<div><dt>{name}</dt><dd>{value}</dd></div>\n"));
    }
    out.push_str("</dl>\n</header>\n");
    out
}

fn privacy(input: &ReportInput<'_>) -> String {
    let privacy = &input.privacy;
    let mut out = String::from("<section>\n<h2>Privacy statement</h2>\n");
    if !privacy.protected {
        out.push_str(
            "<p><strong>None.</strong> This was a simulation. What follows is what a protected run of the \
             same plan would state.</p>\n",
        );
    }
    out.push_str(&format!(
        "<p>{}{} is (ε = {}, δ = {})-differentially private, computed by the accountant \
         “{}” and rounded up.</p>\n<h3>Between which data sets</h3>\n<p>{} This relation is called {}.</p>\n",
        if privacy.protected {
            "The run as planned"
        } else {
            "A protected run of this plan"
        },
        words::given_start(privacy),
        at_least(privacy.epsilon),
        at_least(privacy.delta),
        escape(privacy.accountant),
        words::adjacency(privacy.adjacency),
        privacy.adjacency
    ));
    if let Some(spent) = privacy.spent_epsilon.filter(|_| privacy.protected) {
        let theorem = if privacy.spent_theorem.is_empty() {
            String::new()
        } else {
            format!(" Grounds: {}", escape(privacy.spent_theorem))
        };
        out.push_str(&format!(
            "<h3>What was really spent</h3>\n<p>Odometer reading at the end: ε = {} at the same δ. The \
             statement above covers the whole plan and holds in any case.{theorem}</p>\n",
            at_least(spent)
        ));
    } else if privacy.stop == Stop::ByObserver {
        out.push_str(
            "<p class=\"note\">The run was stopped. The statement \
             still names the whole plan, whose cost was reserved before the first release.</p>\n",
        );
    }
    if let Some([chosen, paid]) = &input.tuned {
        out.push_str(&format!(
            "<h3>How settings were chosen</h3>\n<p>This model was {}. {}</p>\n",
            escape(chosen),
            escape(paid)
        ));
    }
    if let Some(left) = input.ledger_budget {
        out.push_str(&format!(
            "<h3>All runs on the ledger</h3>\n<p>This run was charged to a ledger that other runs share: {}.</p>\n",
            escape(left)
        ));
    }
    out.push_str(&format!(
        "<h3>What is protected</h3>\n<p>Every number computed from the protected records: the released \
         gradient estimates, the model, and this report, its plots included.{}</p>\n\
         <h3>What epsilon and delta mean</h3>\n<p>{}</p>\n\
         <p>How well can anybody test which of two neighbouring data sets was used, for instance the one with a \
         certain record in it or the one with that record {}? Even someone who knows both completely, and \
         sees everything that was released, can do no better than this:</p>\n",
        words::exceptions(input),
        words::definition(privacy),
        words::without(privacy.adjacency)
    ));
    out.push_str(&words::tests_table(
        &privacy.attack,
        privacy.all_runs.is_some(),
    ));
    out.push_str("<h3>What was assumed</h3>\n<ul>\n");
    let assumed = Assumed {
        adjacency: privacy.adjacency,
        draft_schema: privacy.draft_schema,
        times: input.times.is_some(),
        on_ledger: input.ledger_budget.is_some(),
    };
    for (name, text) in words::assumptions(assumed) {
        out.push_str(&format!("<li><strong>{name}.</strong> {text}</li>\n"));
    }
    for claim in privacy.rests_on {
        out.push_str(&format!(
            "<li><strong>Claimed, and not enforced.</strong> {}. The guarantee is derived from this: if it fails there is \
             none.</li>\n",
            escape(claim)
        ));
    }
    out.push_str("</ul>\n<h3>What was public</h3>\n");
    if input.public_facts.is_empty() {
        out.push_str("<p>No public facts were listed.</p>\n");
    } else {
        out.push_str(&pairs(
            "",
            "Used without noise: the guarantee protects none of these.",
            &input.public_facts,
        ));
    }
    out.push_str("</section>\n");
    out
}

/// The plots and the table that stands in for them.
fn released(input: &ReportInput<'_>) -> String {
    let trace = input.trace;
    if input.tuned.is_some() {
        return "<section>\n<h2>What was released</h2>\n<p>The weights of the best run, and what its evaluation says. What the runs \
                released on their way was dropped with them.</p>\n</section>\n"
            .to_owned();
    }
    let mut out = format!(
        "<section>\n<h2>What was released</h2>\n<figure>\n<h3>{} and noise level</h3>\n",
        if trace.of_passes() {
            "Length of passes"
        } else {
            "Gradient norm"
        }
    );
    out.push_str(&plot::gradient(
        trace,
        input.bound.ok().map(|bound| bound.value),
        input.trivial_bound,
    ));
    out.push_str("<figcaption>");
    if trace.of_passes() {
        out.push_str(
            "Each release is the point at the end of a pass over a slice of the records, shown by its distance \
             from the point before; no gradient is released.",
        );
    } else {
        out.push_str(
            "A released norm contains its noise: where it stays near the noise level, the gradient \
             itself is smaller than what can be seen.",
        );
    }
    let of_gradients = !trace.of_passes();
    if trace.step.is_empty() {
        out.push_str(" Here there is none.");
    } else if of_gradients {
        match input.bound {
            Ok(bound) => out.push_str(&format!(
                " The proven bound ({}) is on the true {} at the output; it is \
                 drawn against released values only, because the true one is never computed.",
                bound.sense,
                bound.subject()
            )),
            Err(why) => out.push_str(&format!(" A proven bound: {why}.")),
        }
    }
    if let Some(note) = plot::left_out(trace) {
        out.push_str(&format!(" {note}"));
    }
    out.push_str("</figcaption>\n</figure>\n");
    if let (Some(released), Some(noise)) = (trace.released_norm.last(), trace.noise_norm.last()) {
        let ratio = released / noise;
        let mut text = format!(
            "Last release: norm {}, noise level {}",
            number(*released),
            number(*noise)
        );
        if ratio.is_finite() {
            text.push_str(&format!(", ratio {}", number(ratio)));
        }
        out.push_str(&format!("<p>{text}.</p>\n"));
    }
    let budget = input
        .budget
        .as_deref()
        .filter(|b| !b.is_empty() && b.len() == trace.step.len());
    if let Some(spent) = budget {
        out.push_str("<figure>\n<h3>Budget</h3>\n");
        out.push_str(&plot::budget(trace, spent));
        out.push_str(&format!(
            "<figcaption>Share of the plan’s privacy spent after each release{}.</figcaption>\n</figure>\n",
            if input.privacy.protected {
                ""
            } else {
                ", as a protected run would have spent it"
            }
        ));
    }
    out.push_str(&values(trace, budget));
    out.push_str("</section>\n");
    out
}

/// What the releases say of the gradients behind them.
fn certificate(input: &ReportInput<'_>) -> String {
    let body = match input.certificate {
        Ok(certified) => format!(
            "<p>{}{}.</p>\n{}",
            words::capital(&escape(&certified.words())),
            words::subject(certified.window.of),
            pairs("", "From released values alone", &certified.rows())
        ),
        Err(why) => format!("<p>{}.</p>\n", words::capital(&escape(&why.to_string()))),
    };
    let of_result = input.certified.as_ref().map_or(String::new(), |words| {
        format!("<p>By releases at the result: {}.</p>\n", escape(words))
    });
    format!("<section>\n<h2>Certificate</h2>\n{of_result}{body}</section>\n")
}

/// Evenly spaced rows of the trace, the first and the last among them.
fn values(trace: &Trace, budget: Option<&[f64]>) -> String {
    let length = trace
        .step
        .len()
        .min(trace.released_norm.len())
        .min(trace.noise_norm.len())
        .min(trace.anchor.len());
    if length == 0 {
        return String::new();
    }
    let shown = length.min(TABLE_ROWS);
    let summary = if shown < length {
        format!(
            "Values as a table ({shown} of {} releases)",
            number(length as f64)
        )
    } else {
        "Values as a table".to_owned()
    };
    let mut columns = vec!["step", "kind", "released norm", "noise level"];
    columns.extend(budget.map(|_| "spent"));
    let row = |row: usize| {
        let i = if shown == 1 {
            0
        } else {
            row * (length - 1) / (shown - 1)
        };
        let kind = match (trace.anchor[i], trace.of_passes()) {
            (true, _) => "anchor",
            (false, true) => "pass",
            (false, false) => "variation",
        };
        let mut cells = vec![
            trace.step[i].to_string(),
            kind.to_owned(),
            number(trace.released_norm[i]),
            number(trace.noise_norm[i]),
        ];
        let spent = budget.and_then(|b| b.get(i));
        cells.extend(spent.map(|b| format!("{}%", number(100.0 * b))));
        cells
    };
    let rows: Vec<Vec<String>> = (0..shown).map(row).collect();
    let table = table("num trace", "", &columns, &rows);
    format!("<details><summary>{summary}</summary>\n{table}</details>\n")
}

fn plan(input: &ReportInput<'_>) -> String {
    let mut out = format!(
        "<section>\n<h2>Plan</h2>\n<p>Made from public facts alone. Solver: {}{}.</p>\n",
        escape(input.solver),
        match &input.solver_reason {
            Some(reason) => format!(
                ", picked by a public rule: {}",
                escape(reason.trim_end_matches('.'))
            ),
            None => ", as asked for".to_owned(),
        }
    );
    if let Some(planned) = input.planned_bound {
        let (planned, sense, subject) = (at_least(planned.value), planned.sense, planned.subject());
        out.push_str(&match input.bound {
            Ok(bound) => format!(
                "<p>{}: the {subject} at its output is at most {}{} ({sense}).</p>\n",
                match bound.curvature {
                    Some(_) => "What was released at the output certifies it",
                    None => "The run ended as the proof asks",
                },
                at_least(bound.value),
                bound.of_curvature()
            ),
            Err(NoBound::Stop) => format!(
                "<p>A run to the end of this plan would have had a proven bound of {planned} ({sense}) on the {subject}. \
                 This run was stopped, and states none.</p>\n"
            ),
            Err(why) => format!("<p>A bound on the {subject} at the output: {why}.</p>\n"),
        });
    }
    if !input.plan.is_empty() {
        out.push_str(&pairs("", "Everything the plan fixed", &input.plan));
    }
    out.push_str("</section>\n");
    out
}

fn metrics(input: &ReportInput<'_>) -> String {
    let Some(rows) = &input.test_metrics else {
        return String::new();
    };
    format!(
        "<section>\n<h2>Test metrics</h2>\n<p>Computed without noise on test data that was \
         <strong>declared outside the protection</strong>. The guarantee says nothing about those \
         records.</p>\n{}{}</section>\n",
        pairs("", "On data declared outside the protection", rows),
        input.by_group.map_or(String::new(), of_groups)
    )
}

/// Bars of accuracy and of loss, one for each group.
fn of_groups(by_group: &ByGroup) -> String {
    let all = |value: fn(&GroupRow) -> f64| -> Vec<(String, f64)> {
        let rows = by_group.groups.iter();
        rows.map(|row| (row.group.clone(), value(row))).collect()
    };
    let accuracy = all(|row| row.test_accuracy);
    let loss = all(|row| row.test_log_loss);
    bars(
        "Accuracy of each group of the test set",
        &accuracy,
        Some(1.0),
    ) + &bars("Log loss of each group of the test set", &loss, None)
}

fn files(input: &ReportInput<'_>) -> String {
    if input.files.is_empty() {
        return String::new();
    }
    let files = pairs("files", "Written by this run", &input.files);
    format!("<section>\n<h2>Files</h2>\n{files}</section>\n")
}

fn made(input: &ReportInput<'_>) -> String {
    if input.made.is_empty() {
        return String::new();
    }
    let made = pairs("made", "As far as the user wants it told", &input.made);
    format!("<section>\n<h2>How this was made</h2>\n{made}</section>\n")
}

fn footer(input: &ReportInput<'_>) -> String {
    let draft = if input.privacy.draft_schema {
        " The schema is the exception: it is a draft that was read from the records."
    } else {
        ""
    };
    let promise = match (input.privacy.protected, &input.test_metrics) {
        (false, _) => {
            "This page belongs to a simulation: its numbers are not protected, and it must be kept as secret \
             as the records."
        }
        (true, None) => {
            "Nothing on this page was computed from unprotected records: what depends on the data went \
             through the private releases above."
        }
        (true, Some(_)) => {
            "Nothing on this page was computed from unprotected records, except the test metrics, whose \
             records were declared outside the protection; all else that depends on the data went through \
             the private releases above."
        }
    };
    let moment = if input.privacy.stop == Stop::ByObserver {
        " The step at which it stopped is that of a signal, and depends on how long steps took."
    } else {
        ""
    };
    let times = match input.times {
        Some(times) => (
            " The times were measured and stand outside the guarantee.",
            format!(
                "{} in all, {} of it training. ",
                duration(times.seconds),
                duration(times.train_seconds)
            ),
        ),
        None => ("", String::new()),
    };
    format!(
        "<footer>\n<p>{promise}{draft}{moment}{}</p>\n<p>{}Made by dpopt {}. This page loads \
         nothing and runs no script.</p>\n</footer>\n",
        times.0,
        times.1,
        env!("CARGO_PKG_VERSION")
    )
}
