//! Pages of ordinary, hostile and extreme runs.

use dpopt::nonconvex::{Budget, Plan as _, PublicFacts, SpiderBoostPlan, StatedBound, Stop};
use dpopt::oracle::Glm;
use dpopt::privacy::{Adjacency, Delta, Epsilon};

use super::{PrivacyStatement, ReportInput, render};
use crate::attack::AttackTable;
use crate::certificate::NoCertificate;
use crate::no_bound::NoBound;
use crate::summary::Times;
use crate::trace::Trace;

fn owned(rows: &[(&str, &str)]) -> Vec<(String, String)> {
    rows.iter()
        .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()))
        .collect()
}

/// A run of `length` steps with an anchor every `phase`.
fn trace(length: u64, phase: u64) -> Trace {
    let mut trace = Trace::default();
    for step in 0..length {
        let t = step as f64;
        let wobble = 1.0 + 0.18 * (t * 1.7).sin() * (t * 0.31).cos();
        let drift = (step % phase) as f64 / phase as f64;
        let noise = 0.011 * (1.0 + 0.6 * drift).sqrt();
        trace.step.push(step);
        trace.noise_norm.push(noise);
        let signal = 0.42 * (-6.0 * t / length as f64).exp() + 0.002;
        trace.released_norm.push(signal.hypot(noise) * wobble);
        trace.anchor.push(step % phase == 0);
    }
    trace
}

/// A proven bound of this value.
fn stated(value: f64) -> StatedBound {
    let (relation, constants) = (Adjacency::ReplaceOne, Glm::Sigmoid.constants(1.0));
    let facts = PublicFacts::glm(100_000, 10, relation, 1.0, constants).unwrap();
    let budget = Budget {
        epsilon: Epsilon::new(1.0).unwrap(),
        delta: Delta::new(1e-6).unwrap(),
    };
    let plan = SpiderBoostPlan::new(&facts, &budget, 1_000).unwrap();
    let mut bound = plan.bound_at(Stop::Completed).unwrap();
    bound.value = value;
    bound
}

fn input(trace: &Trace, protected: bool) -> ReportInput<'_> {
    let n = trace.step.len();
    ReportInput {
        title: "census-income: income above 50,000",
        solver: "spiderboost",
        solver_reason: Some(
            "its predicted bound, 0.0283, is the smallest of those that fit 2000 passes".to_owned(),
        ),
        loss: "logistic",
        plan: owned(&[
            ("steps", "180"),
            ("phase length", "12"),
            ("anchors, variations", "15, 165"),
            ("step size", "0.125"),
            ("clip radius per record", "4"),
            ("noise multiplier, anchors", "61.2"),
        ]),
        public_facts: owned(&[
            ("number of records", "199,523"),
            ("features after encoding", "401"),
            ("row norm bound", "4"),
            ("schema", "census-income.toml, 41 columns"),
        ]),
        privacy: PrivacyStatement {
            epsilon: 1.0,
            delta: 1e-6,
            adjacency: Adjacency::ReplaceOne,
            accountant: "Gaussian DP",
            protected,
            spent_epsilon: Some(0.8127),
            spent_theorem: "fully adaptive composition of Gaussian releases (Smith and Thakurta 2022).",
            stop: Stop::ByObserver,
            rests_on: &[],
            draft_schema: false,
            all_runs: None,
            attack: AttackTable::of_pair(1.0, Delta::new(1e-6).unwrap()),
        },
        budget: Some((1..=n).map(|i| 0.7 * i as f64 / n as f64).collect()),
        bound: Err(NoBound::Stop),
        planned_bound: Some(stated(0.0283)),
        trivial_bound: 0.52,
        certificate: &Err(NoCertificate::Projected),
        certified: None,
        by_group: None,
        evaluation: None,
        learnt_nothing: None,
        ledger_budget: None,
        releases: n as u64,
        trace,
        test_metrics: Some(owned(&[
            ("accuracy", "0.951"),
            ("area under the ROC curve", "0.937"),
        ])),
        weights: (0..20)
            .map(|j| {
                (
                    format!("f{j}"),
                    if j == 7 { -2.5 } else { f64::from(j) / 100.0 },
                )
            })
            .collect(),
        schema: Some(("{\n  \"label\": \"<b>\"\n}\n".to_owned(), "ab12".to_owned())),
        files: owned(&[
            ("model.json", "weights, schema and privacy statement"),
            ("trace.csv", "released norms and noise levels"),
            ("report.html", "this page"),
        ]),
        tuned: None,
        made: vec![(
            "command line".to_owned(),
            "dpopt train --data '<b>.csv'".to_owned(),
        )],
        times: Times::shown(Adjacency::ReplaceOne, 33.9, 41.3),
        passes: 345.0,
    }
}

/// Every element that is opened is closed, in order. Returns what is wrong first.
fn unbalanced(page: &str) -> Option<String> {
    let mut open: Vec<&str> = Vec::new();
    let style = page.find("</style>")?;
    for part in page[..page.find("<style>")? + 7]
        .split('<')
        .skip(1)
        .chain(page[style..].split('<').skip(1))
    {
        let Some((tag, text)) = part.split_once('>') else {
            return Some(format!("not closed: <{part}"));
        };
        if text.contains('>') {
            return Some(format!("stray > in {text}"));
        }
        if tag.matches('"').count() % 2 != 0 {
            return Some(format!("odd quotes in {tag}"));
        }
        let name = tag.split([' ', '/']).next().unwrap_or("");
        if let Some(closed) = tag.strip_prefix('/') {
            if open.pop() != Some(closed) {
                return Some(format!("</{closed}> closes another element"));
            }
        } else if !(tag.starts_with('!') || tag.ends_with('/') || name == "meta") {
            open.push(name);
        }
    }
    (!open.is_empty()).then(|| format!("left open: {open:?}"))
}

fn check(page: &str) {
    assert_eq!(unbalanced(page), None);
    let lower = page.to_lowercase();
    for outside in [
        "http://", "https://", "url(", "@import", "<script", "<link", "<img", "src=",
    ] {
        assert!(!lower.contains(outside), "{outside}");
    }
    // A number that can't be drawn must not reach a drawing.
    for svg in page.split("<svg").skip(1) {
        let svg = svg.split("</svg>").next().unwrap_or("");
        let drawn = svg.split("</desc>").last().unwrap_or("");
        assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
    }
    assert!(page.len() < 300_000, "{} bytes", page.len());
    let ids: Vec<&str> = page
        .split(" id=\"")
        .skip(1)
        .filter_map(|p| p.split('"').next())
        .collect();
    let unique: std::collections::BTreeSet<_> = ids.iter().collect();
    assert_eq!(unique.len(), ids.len(), "{ids:?}");
}

#[test]
fn an_ordinary_run() {
    let trace = trace(180, 12);
    let page = render(&input(&trace, true));
    check(&page);
    for text in [
        "(ε = 1, δ = 10⁻⁶)-differentially private",
        "replace-one adjacency",
        "exchanged for any other",
        "ε = 0.8127",
        "declared outside the protection",
        "This run was stopped, and states none.",
        "<td>5\u{a0}%</td><td>13.6\u{a0}%</td><td>37\u{a0}%</td>",
        "model.json",
    ] {
        assert!(page.contains(text), "{text}");
    }
    assert!(!page.contains("SIMULATION") && !page.contains("released values only"));

    let mut input = input(&trace, true);
    input.bound = Ok(stated(0.0283));
    input.privacy.stop = Stop::Completed;
    let page = render(&input);
    check(&page);
    for text in [
        "released values only",
        "proven bound, 0.0283",
        "output is at most 0.0283 (root mean square)",
    ] {
        assert!(page.contains(text), "{text}");
    }
}

#[test]
fn a_simulation_says_so_first_and_claims_nothing() {
    let trace = trace(30, 30);
    let page = render(&input(&trace, false));
    check(&page);
    let alarm = page.find("SIMULATION: NO PRIVACY GUARANTEE").unwrap();
    assert!(alarm < page.find("class=\"tiles\"").unwrap());
    assert!(!page.contains("class=\"answer\""));
    assert!(!page.contains("Nothing on this page was computed from unprotected records"));
}

#[test]
fn every_string_is_escaped() {
    let evil = "</title></style><b onload=\"x\">&'";
    let rows = owned(&[(evil, evil)]);
    let trace = trace(5, 5);
    let mut input = input(&trace, true);
    input.title = evil;
    input.solver = evil;
    input.solver_reason = Some(evil.to_owned());
    input.loss = evil;
    input.plan.clone_from(&rows);
    input.public_facts.clone_from(&rows);
    input.privacy.accountant = evil;
    input.privacy.spent_theorem = evil;
    input.test_metrics = Some(rows.clone());
    input.files = rows;
    for protected in [true, false] {
        input.privacy.protected = protected;
        let page = render(&input);
        check(&page);
        assert!(!page.contains("<b onload"));
        assert!(
            page.matches("&lt;b onload=&quot;x&quot;&gt;&amp;&#39;")
                .count()
                >= 14
        );
    }
}

#[test]
fn two_thousand_points_stay_small() {
    for phase in [1, 40, 2000] {
        let trace = trace(2000, phase);
        check(&render(&input(&trace, true)));
    }
    let trace = trace(60_000, 500);
    let page = render(&input(&trace, true));
    check(&page);
    assert!(page.contains("lowest and its highest"));
}

#[test]
fn extreme_runs_still_make_a_page() {
    let nothing = Trace::default();
    let page = render(&input(&nothing, true));
    check(&page);
    assert!(page.contains("Nothing was released"));

    let one = trace(1, 1);
    let page = render(&input(&one, true));
    check(&page);
    assert!(page.contains("class=\"noise lone\""));

    let odd = [0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0];
    let input_of = |values: &[f64], bounds: f64| {
        let trace = Trace {
            step: (0..values.len() as u64).collect(),
            released_norm: values.to_vec(),
            noise_norm: values.to_vec(),
            anchor: values.iter().map(|v| v.is_nan()).collect(),
            passes: false,
        };
        let mut input = input(&trace, true);
        input.planned_bound = Some(stated(bounds));
        input.bound = Ok(stated(bounds));
        input.trivial_bound = bounds;
        input.privacy.epsilon = bounds;
        input.privacy.spent_epsilon = Some(bounds);
        input.privacy.attack = AttackTable::of_pair(bounds, Delta::new(1e-6).unwrap());
        input.budget = Some(values.to_vec());
        input.times = Times::shown(Adjacency::ReplaceOne, bounds, bounds);
        input.passes = bounds;
        let page = render(&input);
        check(&page);
        page
    };
    for bound in odd {
        let page = input_of(&odd, bound);
        assert!(page.contains("No released value is positive and finite"));
    }
    let page = input_of(&[1e-300, 0.0, f64::NAN, 1e300, 5e-324, f64::MAX], 1.0);
    assert!(page.contains("6 values of zero, or not finite, are not drawn"));
    input_of(&[f64::MIN_POSITIVE, f64::MAX], f64::MAX);
    input_of(&[0.5, 0.5, 0.5], 0.5);
}

#[test]
fn a_budget_of_another_length_is_hidden() {
    let trace = trace(10, 5);
    let mut input = input(&trace, true);
    input.budget = Some(vec![0.5; 9]);
    let page = render(&input);
    check(&page);
    assert!(!page.contains("<h3>Budget</h3>"));
}

/// Twelve of twenty weights, the largest first with its sign, and no interval; a schema is text.
#[test]
fn weights_are_listed_without_an_interval_and_the_schema_is_text() {
    let trace = trace(20, 5);
    let page = render(&input(&trace, true));
    check(&page);
    let section = page.split("<h2>Largest weights</h2>").nth(1).unwrap();
    let section = section.split("</section>").next().unwrap();
    assert_eq!(section.matches("<tr>").count(), 12);
    let places =
        ["f7</th><td>\u{2212}2.5", "f19</th>", "f18</th>"].map(|row| section.find(row).unwrap());
    assert!(places.is_sorted(), "{section}");
    assert!(!section.contains("f8</th>") && section.contains("No interval is known"));
    assert!(
        page.contains("<pre>{\n  &quot;label&quot;: &quot;&lt;b&gt;&quot;\n}\n</pre>")
            && page.contains("ab12")
    );
    let mut without = input(&trace, true);
    without.weights.clear();
    assert!(!render(&without).contains("Largest weights"));
}
