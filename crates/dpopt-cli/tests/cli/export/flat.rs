//! The rules and the lines of `docs/paperwork.md` that read a flat file, in another language.

use serde_json::Value;

fn number(of: &Value, key: &str) -> f64 {
    of[key].as_f64().unwrap_or_else(|| panic!("{key} in {of}"))
}

/// The encoded row of a record of the columns x and c.
pub(super) fn row(json: &Value, fields: &[String]) -> Vec<f64> {
    let text = |feature: &Value| {
        let field = match feature["column"].as_str()? {
            "x" => fields.first(),
            _ => fields.get(1),
        };
        Some(field?.trim_matches([' ', '\t', '\n', '\u{c}', '\r']))
    };
    encoded(json, |feature| {
        let scale = number(feature, "scale");
        let found = text(feature);
        let on = |yes: bool| if yes { scale } else { 0.0 };
        match feature["kind"].as_str().unwrap() {
            "constant" => scale,
            "category" => on(found.is_some_and(|text| feature["value"] == text)),
            "other" => {
                let values = feature["values"].as_array().unwrap();
                on(!found.is_some_and(|text| values.iter().any(|value| value == text)))
            }
            "hash" => {
                let buckets = feature["buckets"].as_u64().unwrap();
                let bucket = bucket(found.unwrap_or_default(), buckets);
                on(bucket == feature["bucket"].as_u64().unwrap())
            }
            kind => {
                let given = match feature["date"] == true {
                    true => found.and_then(days),
                    false => found
                        .filter(|text| is_number(text))
                        .map(|text| text.parse().unwrap()),
                };
                let given = given.filter(|x: &f64| x.is_finite());
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

/// A sign or none; digits with a point before, among or behind them or none; an exponent or none.
fn is_number(text: &str) -> bool {
    let signed = |text: &str| text.strip_prefix(['+', '-']).unwrap_or(text).to_owned();
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let text = signed(text);
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(signed(exponent))),
        None => (&*text, None),
    };
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let some = !whole.is_empty() || !part.is_empty();
    some && digits(whole)
        && digits(part)
        && exponent.is_none_or(|exponent| !exponent.is_empty() && digits(&exponent))
}

/// FNV-1a, mixed, as `docs/tables.md` writes it.
fn bucket(text: &str, buckets: u64) -> u64 {
    let step = |h: u64, byte: u8| (h ^ u64::from(byte)).wrapping_mul(1_099_511_628_211);
    let h = text.bytes().fold(14_695_981_039_346_656_037, step);
    let g = (h ^ (h >> 32)).wrapping_mul(11_400_714_819_323_198_485);
    ((u128::from(g) * u128::from(buckets)) >> 64) as u64
}

/// Days since 1970-01-01, counted year by year and month by month.
fn days(text: &str) -> Option<f64> {
    let bytes = text.as_bytes();
    // Digits where the form has a 0, and elsewhere what it has.
    let fits = |form: &[u8]| {
        bytes.len() >= form.len()
            && form.iter().zip(bytes).all(|(form, byte)| match form {
                b'0' => byte.is_ascii_digit(),
                b'T' => matches!(byte, b'T' | b't' | b' '),
                other => other == byte,
            })
    };
    if !fits(b"0000-00-00") && !fits(b"0000/00/00") {
        return None;
    }
    let timed = fits(b"0000-00-00T00:00") || fits(b"0000/00/00T00:00");
    let more = |byte: &u8| byte.is_ascii_digit() || b":.+-Z".contains(byte);
    if bytes.len() > 10 && !(timed && bytes[16..].iter().all(more)) {
        return None;
    }
    let part = |range: std::ops::Range<usize>| text.get(range)?.parse::<i64>().ok();
    let (year, month, day) = (part(0..4)?, part(5..7)?, part(8..10)?);
    let leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let february = 28 + i64::from(leap(year));
    let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let length = *months.get(usize::try_from(month - 1).ok()?)?;
    if !(1..=length).contains(&day) {
        return None;
    }
    let years = |from: i64, to: i64| -> i64 { (from..to).map(|y| 365 + i64::from(leap(y))).sum() };
    let whole = if year >= 1970 {
        years(1970, year)
    } else {
        -years(year, 1970)
    };
    let before: i64 = months.iter().take(usize::try_from(month - 1).ok()?).sum();
    Some((whole + before + day - 1) as f64)
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
        "count" => (
            vec![scores[0].exp().min(number(label, "largest"))],
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
