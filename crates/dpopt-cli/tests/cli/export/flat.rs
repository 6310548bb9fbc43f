//! The ten lines of `docs/paperwork.md` that read a flat file, in another language.

use serde_json::Value;

fn number(of: &Value, key: &str) -> f64 {
    of[key].as_f64().unwrap_or_else(|| panic!("{key} in {of}"))
}

/// The encoded row of a record of the columns x and c.
pub(super) fn row(json: &Value, fields: &[String]) -> Vec<f64> {
    let text = |feature: &Value| match feature["column"].as_str().unwrap() {
        "x" => fields.first(),
        _ => fields.get(1),
    };
    encoded(json, |feature| {
        let scale = number(feature, "scale");
        let found = text_or(feature, &text);
        let on = |yes: bool| if yes { scale } else { 0.0 };
        match feature["kind"].as_str().unwrap() {
            "constant" => scale,
            "category" => on(found.is_some_and(|text| feature["value"] == text.as_str())),
            "other" => {
                let values = feature["values"].as_array().unwrap();
                on(!found.is_some_and(|text| values.iter().any(|value| value == text.as_str())))
            }
            kind => {
                let given = found
                    .and_then(|text| text.parse::<f64>().ok())
                    .filter(|x| x.is_finite());
                if kind == "missing" {
                    return on(given.is_none());
                }
                let (min, max) = (number(feature, "min"), number(feature, "max"));
                let x = given
                    .unwrap_or(number(feature, "default"))
                    .max(min)
                    .min(max);
                if kind == "bucket" {
                    let edges = feature["edges"].as_array().unwrap();
                    let below = edges
                        .iter()
                        .filter(|edge| edge.as_f64().unwrap() <= x)
                        .count();
                    on(below as u64 == feature["bucket"].as_u64().unwrap())
                } else {
                    let (from, width) = (number(feature, "from"), number(feature, "width"));
                    let u = match feature["log1p"].as_bool().unwrap() {
                        true => (1.0 + x - from).ln() / (1.0 + width).ln(),
                        false => (x - from) / width,
                    };
                    let centred = feature["centred"].as_bool().unwrap();
                    scale * if centred { 2.0 * u - 1.0 } else { u }
                }
            }
        }
    })
}

fn text_or<'a>(
    feature: &Value,
    text: &impl Fn(&Value) -> Option<&'a String>,
) -> Option<&'a String> {
    feature["column"].as_str().and_then(|_| text(feature))
}

/// The encoded row of a record of an array.
pub(super) fn row_of_array(json: &Value, entries: &[f64]) -> Vec<f64> {
    encoded(json, |feature| {
        let place = feature["place"].as_u64().unwrap() as usize;
        number(feature, "scale") * entries.get(place).copied().unwrap_or(0.0)
    })
}

fn encoded(json: &Value, of: impl Fn(&Value) -> f64) -> Vec<f64> {
    assert_eq!(json["format"], "dpopt-flat-1");
    let row: Vec<f64> = json["features"]
        .as_array()
        .unwrap()
        .iter()
        .map(of)
        .collect();
    let norm = row.iter().map(|x| x * x).sum::<f64>().sqrt();
    let factor = (number(json, "row_norm") / norm).min(1.0);
    row.iter().map(|x| x * factor).collect()
}

/// The numbers that the graph has too (scores, then probabilities; or the prediction), and the predicted text.
pub(super) fn answer(json: &Value, row: &[f64]) -> (Vec<f64>, String) {
    let dot = |weights: &Value| {
        let weights = weights.as_array().unwrap();
        assert_eq!(weights.len(), row.len());
        weights
            .iter()
            .zip(row)
            .map(|(w, x)| w.as_f64().unwrap() * x)
            .sum::<f64>()
    };
    let products: Vec<f64> = json["weights"]
        .as_array()
        .unwrap()
        .iter()
        .map(dot)
        .collect();
    let head = &json["head"];
    let act = |z: f64| match head["activation"].as_str().unwrap() {
        "relu" => z.max(0.0),
        "tanh" => z.tanh(),
        "sigmoid" => 1.0 / (1.0 + (-z).exp()),
        "softplus" => (1.0 + z.exp()).ln(),
        "silu" => z / (1.0 + (-z).exp()),
        other => panic!("{other}"),
    };
    let numbers = |of: &Value| -> Vec<f64> {
        let all = of.as_array().unwrap().iter();
        all.map(|x| x.as_f64().unwrap()).collect()
    };
    let scores = match head["kind"].as_str().unwrap() {
        "factor" => vec![products.iter().map(|z| z * z).sum::<f64>() - number(head, "threshold")],
        "perceptron" => {
            let plus = |z: Vec<f64>, b: Vec<f64>| -> Vec<f64> {
                assert_eq!(z.len(), b.len());
                z.iter().zip(b).map(|(z, b)| z + b).collect()
            };
            let mut z = plus(products, numbers(&head["biases"]));
            for layer in head["layers"].as_array().unwrap() {
                let biases = numbers(&layer["biases"]);
                let rows = layer["weights"].as_array().unwrap();
                assert_eq!(rows.len(), z.len());
                let mut next = vec![0.0; biases.len()];
                for (row, z) in rows.iter().zip(&z) {
                    let active = act(*z);
                    for (next, w) in next.iter_mut().zip(numbers(row)) {
                        *next += w * active;
                    }
                }
                z = plus(next, biases);
            }
            z
        }
        "network" => {
            let out = head["output_weights"].as_array().unwrap().iter();
            vec![
                out.zip(&products)
                    .map(|(v, z)| v.as_f64().unwrap() * act(*z))
                    .sum(),
            ]
        }
        _ => products,
    };
    let label = &json["label"];
    match label["kind"].as_str().unwrap() {
        "number" => (
            vec![number(label, "middle") + number(label, "half") * scores[0]],
            String::new(),
        ),
        "several" => {
            let sum: f64 = scores.iter().map(|z| z.exp()).sum();
            let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let at = scores.iter().position(|z| *z == most).unwrap();
            let chances = scores.iter().map(|z| z.exp() / sum);
            let text = label["values"][at].as_str().unwrap().to_owned();
            (scores.iter().copied().chain(chances).collect(), text)
        }
        _ => {
            let text = if scores[0] > 0.0 {
                "positive"
            } else {
                "negative"
            };
            let mut numbers = scores.clone();
            if label["logistic"].as_bool().unwrap() {
                numbers.push(1.0 / (1.0 + (-scores[0]).exp()));
            }
            (numbers, label[text].as_str().unwrap().to_owned())
        }
    }
}
