//! What there is to say of a model, section by section.

use dpopt::data::tabular::{ColumnKind, LabelKind, Number, Schema, date_of_day, ten_of};

use dpopt_report::percent_at_least;

use super::document::{Block, Document, Section};
use crate::attack::{AttackTable, GROUPS, Grounds};
use crate::beside::Beside;
use crate::model::{Model, Trained, weighted_chances};
use crate::order;
use crate::report::{Assumed, assumptions, neighbours, without};
use crate::second_order::SecondOrder;
use crate::statement::{rounded_up, scientific};
use crate::told::of_evaluation;

/// Everything that the file of a model tells a reader who decides whether it may be given away.
pub(super) fn document(model: &Model) -> Document {
    Document {
        title: format!(
            "What the model of {:?} promises",
            model.schema.label().column
        ),
        sections: vec![
            section("The promise", promise(model)),
            section("To whom", to_whom(model)),
            section("What the numbers mean", meaning(model)),
            section("What it rests on", rests_on(model)),
            section("What is public", public(&model.schema)),
            section("What is not protected", unprotected(model)),
            section("What was trained", trained(model)),
            section("What was released, and what it cost", released(model)),
            section("What is known of how good it is", quality(model)),
            section("Other runs on the same records", others(model)),
            section("What to ask before it is given away", questions(model)),
        ],
    }
}

fn section(title: &'static str, blocks: Vec<Block>) -> Section {
    Section { title, blocks }
}

fn paragraph(text: impl Into<String>) -> Block {
    Block::Paragraph(text.into())
}

/// The attacks on all that the file says.
pub(super) fn attack(model: &Model) -> AttackTable {
    AttackTable::of_run(&model.privacy, model.evaluation.as_ref(), None)
}

fn promise(model: &Model) -> Vec<Block> {
    vec![
        paragraph(
            "A model learns from records, and what it has learnt can give them away. This one was made with noise that hides what \
             any single record changes. The run stated:",
        ),
        Block::List(model.privacy.words.clone()),
    ]
}

fn to_whom(model: &Model) -> Vec<Block> {
    vec![
        paragraph(
            "To everybody who has one record in the training table. The unit is one line of that table, with all its fields; a \
             person with several lines, a household or a company is no unit by itself.",
        ),
        paragraph(neighbours(model.privacy.adjacency)),
    ]
}

fn meaning(model: &Model) -> Vec<Block> {
    let attack = attack(model);
    let privacy = &model.privacy;
    let adjacency = without(privacy.adjacency);
    let mut blocks = vec![paragraph(format!(
        "Take the table with a certain record in it, and the same table with that record {adjacency}. Somebody knows both completely, \
         sees everything that was released, and has to say which one was used. A test finds at most this:"
    ))];
    let mut columns = vec!["false alarms".to_owned()];
    columns.extend(GROUPS.iter().map(|k| match k {
        1 => "found, one record".to_owned(),
        k => format!("found, {k} records"),
    }));
    let rows = attack.rows.iter().map(|row| {
        let mut cells = vec![percent(row.false_positives)];
        cells.extend(row.true_positives.iter().map(|rate| percent(*rate)));
        cells
    });
    blocks.push(Block::Table(columns, rows.collect()));
    if let Some(guess) = attack.guesses.first() {
        blocks.push(paragraph(format!(
            "If both tables were equally likely before, the right one is named with probability {} at most; without the release it \
             would be 50 %.{}",
            percent(*guess),
            if *guess > 0.95 {
                " That is nearly always: the numbers promise little."
            } else {
                ""
            }
        )));
    }
    let groups = attack.groups.iter().zip(&attack.guesses).skip(1);
    let groups: Vec<String> = groups
        .map(|(group, guess)| {
            format!(
                "{} records: epsilon {}, delta {}, named with probability {} at most",
                group.records,
                rounded_up(group.epsilon),
                exponent(group.delta),
                percent(*guess)
            )
        })
        .collect();
    blocks.push(paragraph(
        "Somebody with several records in the table is protected less:",
    ));
    blocks.push(Block::List(groups));
    blocks.push(paragraph(match attack.grounds {
        Grounds::Gaussian => {
            "These come from the trade-off curve of the run, which is that of one Gaussian release; k records have k times its mu."
        }
        Grounds::Curve | Grounds::Groups => "These come from the accountant's curve of delta over epsilon.",
        Grounds::Pair => {
            "These come from epsilon and delta alone. The run itself may leave an attacker less; its report.html has a table of the \
             best grounds that the run knew."
        }
    }));
    blocks.push(paragraph(
        "Epsilon bounds by which factor, e^epsilon, any outcome can become likelier; delta bounds the probability of outcomes that \
         keep to no factor. Both are rounded up. They stay true whatever somebody knows besides, and whatever is done with the \
         model later.",
    ));
    blocks
}

/// As people write a small number, to two digits and upwards.
fn exponent(of: f64) -> String {
    let unit = 10f64.powi(of.log10().floor() as i32 - 1);
    // What is a multiple but for its rounding stays one.
    let tens = (of / unit * (1.0 - 1e-12)).ceil();
    let shown = format!("{:.1e}", tens * unit);
    shown.replace(".0e", "e")
}

/// A share in per cent, rounded up.
fn percent(share: f64) -> String {
    percent_at_least(share).replace('\u{a0}', " ")
}

fn rests_on(model: &Model) -> Vec<Block> {
    let privacy = &model.privacy;
    let all = assumptions(Assumed {
        adjacency: privacy.adjacency,
        draft_schema: privacy.draft_schema,
        times: false,
        on_ledger: false,
    });
    let mut items: Vec<String> = all.map(|(name, text)| format!("{name}. {text}")).to_vec();
    if privacy.rests_on.is_empty() {
        items.push(
            "Bounds on what a record contributes are enforced by the run and not assumed: wrong constants of a loss cost accuracy, \
             not privacy."
                .to_owned(),
        );
    } else {
        items.push(format!(
            "Claimed, and not enforced: {}.",
            privacy.rests_on.join("; ")
        ));
    }
    vec![Block::List(items)]
}

fn public(schema: &Schema) -> Vec<Block> {
    let mut items = vec![format!(
        "label {:?}: {}",
        schema.label().column,
        match &schema.label().kind {
            LabelKind::Classes(classes) => format!(
                "{}; {:?} counts as positive, and anything else is read as {:?}",
                values(&classes.values),
                classes.positive,
                classes.default
            ),
            LabelKind::Several(several) => format!(
                "{}; anything else is read as {:?}",
                values(&several.values),
                several.default
            ),
            LabelKind::Number(range) => format!(
                "a number from {} to {}; anything else is read as {}",
                range.min, range.max, range.default
            ),
        }
    )];
    items.extend(schema.columns().iter().map(|column| {
        let what = match &column.kind {
            ColumnKind::Number(number) => numeric("a number", number, |x| x.to_string()),
            ColumnKind::Date(number) => numeric("a date", number, |day| date_of_day(day as i64)),
            ColumnKind::Category(category) => {
                format!("{}, or another", values(&category.values))
            }
            ColumnKind::Hash(hashed) => {
                format!(
                    "a text, in one of {} buckets by a public hash",
                    hashed.buckets
                )
            }
            ColumnKind::Ignore => "not used".to_owned(),
        };
        format!("column {:?}: {what}", column.name)
    }));
    if let Some(array) = schema.array() {
        items.push(format!(
            "{} columns of numbers, times {}",
            array.columns, array.scale
        ));
    }
    items.extend(schema.shares().iter().map(|share| {
        let of: Vec<String> = share
            .of
            .iter()
            .map(|(c, v)| format!("{c:?} = {v:?}"))
            .collect();
        format!(
            "share of records with {}: {}",
            of.join(" and "),
            share.share
        )
    }));
    items.push(format!(
        "the longest row that counts in full: {}",
        schema.row_norm()
    ));
    vec![
        paragraph(
            "The schema is in the file of the model, in full. Whoever has the model can read these, and the promise covers none of them:",
        ),
        Block::List(items),
    ]
}

fn numeric(what: &str, of: &Number, shown: impl Fn(f64) -> String) -> String {
    let buckets = match of.bins.len() {
        0 => String::new(),
        edges => format!(", in {} buckets", edges + 1),
    };
    let [min, max, default] = [of.min, of.max, of.default].map(shown);
    format!("{what} from {min} to {max}{buckets}; anything else is read as {default}")
}

fn values(all: &[String]) -> String {
    let named: Vec<String> = all.iter().map(|value| format!("{value:?}")).collect();
    format!("one of {}", ten_of(&named))
}

fn unprotected(model: &Model) -> Vec<Block> {
    let mut items = vec![
        "What many records have in common. Learning that is the purpose, and it may be unwelcome to somebody of whom the table has no \
         record."
            .to_owned(),
        "Records of a test set (--test), where there was one: they were declared outside of the promise, and what was said of them \
         has no noise. This file does not tell whether there was one; the report.html of the run does."
            .to_owned(),
    ];
    if model.privacy.draft_schema {
        items.push(
            "The schema: it is a draft with ranges, categories and label values that were read from the records."
                .to_owned(),
        );
    }
    if model.privacy.adjacency.record_count_is_public() {
        items.push(format!("The number of records, {}.", model.privacy.records));
    }
    items.push(
        "That somebody's record was collected at all, where others can see that, and what the owner of the table does with it otherwise."
            .to_owned(),
    );
    vec![Block::List(items)]
}

fn trained(model: &Model) -> Vec<Block> {
    let loss = model
        .fit()
        .map_or_else(|| model.loss.to_string(), |fit| fit.to_string());
    let mut items = vec![
        format!("solver: {}", model.solver),
        format!("loss: {loss}"),
        format!(
            "{} features of a row, {} weights",
            model.schema.dim(),
            model.point().len()
        ),
    ];
    items.extend(weighted_chances(model));
    if model.is_perceptron() {
        items.push(
            "no bound: the loss of a perceptron whose output weights are trained has no Lipschitz constant, and nothing is proven of \
             how far training came; the promise of privacy does not rest on one, since every contribution is clipped"
                .to_owned(),
        );
    }
    items.extend(
        order::in_words(model.order, model.solver)
            .map(|order| format!("order of the records: {order}")),
    );
    items.extend(
        model
            .start_seed()
            .map(|seed| format!("start: from seed {seed}, which is public")),
    );
    items.extend(
        model
            .objective
            .as_ref()
            .map(|of| format!("objective: {}", of.name)),
    );
    if let Some(told) = &model.tuning {
        items.push(format!("settings: {}", told.words()));
        let all = (1..).zip(&told.candidates);
        items.extend(all.map(|(number, of)| format!("candidate {number}: {of}")));
    }
    items.extend(
        model
            .second_order
            .as_ref()
            .and_then(|found| found.how.as_ref())
            .map(crate::sosp_args::How::words),
    );
    vec![Block::List(items)]
}

fn released(model: &Model) -> Vec<Block> {
    let mut items = vec![
        "The weights, and with them every step of the run: its report.html and events.json belong to it. All of that is within the \
         epsilon and delta above, and events.json lists each release."
            .to_owned(),
    ];
    if let Some(objective) = &model.objective {
        items.push(if objective.shares_released {
            "Shares of groups of records, with noise: paid from the epsilon above.".to_owned()
        } else {
            "No shares of groups: those of the schema were used, which are public.".to_owned()
        });
        items.extend(objective.certified().map(|_| {
            "Numbers for a certificate of the result: paid, or reserved, from the epsilon above.".to_owned()
        }));
    }
    if model.second_order.is_some() {
        items.push(
            "Numbers for a certificate of second order: paid from the epsilon above.".to_owned(),
        );
    }
    if let Some(told) = &model.tuning {
        items[0] = "The weights of the best run and what its evaluation says, and nothing of the other runs. All of that is within the epsilon \
                    and delta above."
            .to_owned();
        items.push(told.paid());
    }
    if let Some(found) = model.evaluation.as_ref().filter(|_| model.tuning.is_some()) {
        items.push(format!("An evaluation. {}", found.of()));
    } else if let Some(found) = &model.evaluation {
        items.push(format!("An evaluation. {}", found.of()));
        items.extend(
            found
                .privacy
                .words
                .first()
                .map(|words| format!("Of the evaluation: {words}")),
        );
        items.extend(found.beside_the_run());
    }
    vec![Block::List(items)]
}

fn quality(model: &Model) -> Vec<Block> {
    let mut blocks = Vec::new();
    if let Some(found) = &model.evaluation {
        blocks.push(paragraph(found.of()));
        let told = &found.evaluation;
        let beside = Beside::rows(&of_evaluation(told, model.is_plain()));
        let rows = told.rows(&found.classes).into_iter().chain(beside);
        let rows = rows.map(|(name, value)| vec![name, value]);
        let columns = ["", "estimate (interval)"].map(str::to_owned);
        blocks.push(Block::Table(columns.to_vec(), rows.collect()));
    }
    blocks.extend(model.second_order.as_ref().map(|found: &SecondOrder| {
        match (found.words(), &found.no_certificate_because) {
            (Some(words), _) => paragraph(words),
            (None, Some(why)) => paragraph(format!("Nothing is certified: {why}.")),
            (None, None) => paragraph("Nothing is certified."),
        }
    }));
    blocks.extend(
        model
            .objective
            .as_ref()
            .and_then(Trained::certified)
            .map(|words| paragraph(format!("Of the result: {words}."))),
    );
    if blocks.is_empty() {
        blocks.push(paragraph(
            "This file holds no evaluation and no certificate. What theory promised of the run stands in its report.html, and a bound \
             there is on how long a gradient is: it says that a search has come to rest, and nothing of errors on new records. Records \
             that nobody trained on say that (dpopt evaluate, which costs privacy of the records that it reads).",
        ));
    } else {
        blocks.push(paragraph(
            "A certificate is of how long a gradient is, or of how the loss bends: it says that a search has come to rest. It does not \
             say that predictions are right, and neither says how a group of people fares that was not looked at.",
        ));
    }
    blocks
}

fn others(model: &Model) -> Vec<Block> {
    vec![paragraph(match model.privacy.all_runs {
        Some(all) => format!(
            "This run started where earlier runs on a ledger had ended. All runs on that ledger together are ({}, \
             {})-differentially private, and the table of attacks above is for all of them. dpopt ledger show lists them.",
            rounded_up(all.epsilon),
            scientific(all.delta)
        ),
        None => "The file of a model knows of its own run only, and not whether that was charged to a ledger. If the same records \
                 were used before (to choose settings, for another label, for last month's model) the costs add up. The owner's \
                 ledger says to how much (dpopt ledger show); runs that are on no ledger are known to nobody but who made them."
            .to_owned(),
    })]
}

fn questions(model: &Model) -> Vec<Block> {
    let mut items = vec![
        "Is one line of the table what a person would want protected, or do persons have several?",
        "Who wrote the schema, and from what? Ranges and categories that were looked up in the records are not covered.",
        "Were settings tried out on the same records before this run, and is each of those runs on the ledger?",
        "Which other models, statistics or extracts were made of the same records?",
        "Is the best success of an attacker above acceptable, for one record and for the most that a person has?",
        "Was there a test set without protection, and did those persons agree?",
        "Which errors does the model make, and for whom, on records that it was not trained on?",
    ];
    if model.privacy.draft_schema {
        items.push("Why was a draft of a schema used unedited?");
    }
    if !model.privacy.rests_on.is_empty() {
        items.push("Who has checked what is claimed and not enforced?");
    }
    if !model.privacy.adjacency.record_count_is_public() {
        items.push("Where did the declared number of records come from?");
    }
    vec![Block::List(items.into_iter().map(str::to_owned).collect())]
}

#[cfg(test)]
mod tests {
    use super::exponent;

    #[test]
    fn deltas_are_rounded_up() {
        for (delta, shown) in [
            (1e-5, "1e-5"),
            (1.01e-5, "1.1e-5"),
            (9.91e-7, "1e-6"),
            (2.5e-300, "2.5e-300"),
        ] {
            assert_eq!(exponent(delta), shown);
        }
    }
}
