//! A small reader of ONNX files, from the description of the format alone, and an evaluation of their graphs.

use std::collections::HashMap;

/// A field of a message: a number, or bytes.
#[derive(Debug, Clone, Copy)]
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// All fields of a message, in order.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Value<'_>)> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let value = match key % 8 {
            0 => Value::Number(varint(&mut bytes)),
            2 => {
                let length = varint(&mut bytes) as usize;
                let (value, rest) = bytes.split_at(length);
                bytes = rest;
                Value::Bytes(value)
            }
            other => panic!("wire type {other}"),
        };
        all.push((key / 8, value));
    }
    all
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for (at, byte) in bytes.iter().enumerate() {
        value |= u64::from(byte % 128) << (7 * at);
        if *byte < 128 {
            *bytes = &bytes[at + 1..];
            return value;
        }
    }
    panic!("a number without its end");
}

fn all(message: &[u8], field: u64) -> Vec<&[u8]> {
    let of = fields(message).into_iter().filter(|(at, _)| *at == field);
    of.map(|(_, value)| match value {
        Value::Bytes(bytes) => bytes,
        Value::Number(number) => panic!("{number} in field {field}"),
    })
    .collect()
}

fn text(message: &[u8], field: u64) -> String {
    String::from_utf8(all(message, field)[0].to_vec()).unwrap()
}

fn numbers(message: &[u8], field: u64) -> Vec<u64> {
    let of = fields(message).into_iter().filter(|(at, _)| *at == field);
    of.map(|(_, value)| match value {
        Value::Number(number) => number,
        Value::Bytes(_) => panic!("bytes in field {field}"),
    })
    .collect()
}

/// Columns, and numbers row by row.
#[derive(Debug, Clone)]
struct Matrix(usize, Vec<f64>);

struct Node {
    operator: String,
    inputs: Vec<String>,
    output: String,
    axis: Option<u64>,
}

/// A graph with one input and named outputs.
pub(super) struct Graph {
    nodes: Vec<Node>,
    constants: HashMap<String, Matrix>,
    input: (String, u64),
    outputs: Vec<(String, u64)>,
    pub(super) facts: HashMap<String, String>,
}

impl Graph {
    pub(super) fn read(file: &[u8]) -> Self {
        assert_eq!(numbers(file, 1), [7], "the version of the file");
        let operators = all(file, 8)[0];
        assert_eq!(
            (text(operators, 1).as_str(), numbers(operators, 2)),
            ("", vec![13])
        );
        let graph = all(file, 7)[0];
        let nodes = all(graph, 1).into_iter().map(|node| Node {
            operator: text(node, 4),
            inputs: all(node, 1)
                .iter()
                .map(|name| String::from_utf8(name.to_vec()).unwrap())
                .collect(),
            output: text(node, 2),
            axis: all(node, 5).first().map(|attribute| {
                assert_eq!(
                    (text(attribute, 1).as_str(), numbers(attribute, 20)),
                    ("axis", vec![2])
                );
                numbers(attribute, 3)[0]
            }),
        });
        let constants = all(graph, 5).into_iter().map(|tensor| {
            assert_eq!(numbers(tensor, 2), [11], "double precision");
            let shape = numbers(tensor, 1);
            let bytes = all(tensor, 9)[0];
            let values: Vec<f64> = bytes
                .chunks(8)
                .map(|b| f64::from_le_bytes(b.try_into().unwrap()))
                .collect();
            assert_eq!(shape.iter().product::<u64>() as usize, values.len());
            (text(tensor, 8), Matrix(shape[1] as usize, values))
        });
        let value = |value: &[u8]| {
            let tensor = all(all(value, 2)[0], 1)[0];
            assert_eq!(numbers(tensor, 1), [11], "double precision");
            let shape = all(tensor, 2)[0];
            let sizes = all(shape, 1);
            assert_eq!((sizes.len(), text(sizes[0], 2).as_str()), (2, "N"));
            (text(value, 1), numbers(sizes[1], 1)[0])
        };
        let facts = all(file, 14)
            .into_iter()
            .map(|of| (text(of, 1), text(of, 2)));
        Self {
            nodes: nodes.collect(),
            constants: constants.collect(),
            input: value(all(graph, 11)[0]),
            outputs: all(graph, 12).into_iter().map(value).collect(),
            facts: facts.collect(),
        }
    }

    /// All outputs for one row, one after the other.
    pub(super) fn run(&self, row: &[f64]) -> Vec<f64> {
        assert_eq!(self.input, ("row".to_owned(), row.len() as u64));
        let mut known = self.constants.clone();
        known.insert("row".to_owned(), Matrix(row.len(), row.to_vec()));
        for node in &self.nodes {
            let inputs: Vec<&Matrix> = node.inputs.iter().map(|name| &known[name]).collect();
            let found = apply(node, &inputs);
            let before = known.insert(node.output.clone(), found);
            assert!(before.is_none(), "{} is made twice", node.output);
        }
        let outputs = self.outputs.iter().flat_map(|(name, width)| {
            let Matrix(columns, values) = &known[name];
            assert_eq!(
                (*columns as u64, values.len() as u64),
                (*width, *width),
                "{name}"
            );
            values.clone()
        });
        outputs.collect()
    }
}

fn apply(node: &Node, inputs: &[&Matrix]) -> Matrix {
    let each = |of: fn(f64) -> f64| {
        let Matrix(columns, values) = inputs[0];
        Matrix(*columns, values.iter().map(|x| of(*x)).collect())
    };
    let pairs = |of: fn(f64, f64) -> f64| {
        let (Matrix(columns, a), Matrix(_, b)) = (inputs[0], inputs[1]);
        assert!(b.len() == a.len() || b.len() == 1, "{}", node.operator);
        let b = b.iter().cycle();
        Matrix(*columns, a.iter().zip(b).map(|(a, b)| of(*a, *b)).collect())
    };
    match node.operator.as_str() {
        "Identity" => each(|x| x),
        "Sigmoid" => each(|x| 1.0 / (1.0 + (-x).exp())),
        "Tanh" => each(f64::tanh),
        "Relu" => each(|x| if x > 0.0 { x } else { 0.0 }),
        "Abs" => each(f64::abs),
        "Neg" => each(|x| -x),
        "Exp" => each(f64::exp),
        "Log" => each(f64::ln),
        "Add" => pairs(|a, b| a + b),
        "Sub" => pairs(|a, b| a - b),
        "Min" => pairs(f64::min),
        "Mul" => pairs(|a, b| a * b),
        "Softmax" => {
            assert_eq!(node.axis, Some(1));
            let Matrix(columns, values) = inputs[0];
            let sum: f64 = values.iter().map(|x| x.exp()).sum();
            Matrix(*columns, values.iter().map(|x| x.exp() / sum).collect())
        }
        "MatMul" => {
            let (Matrix(inner, a), Matrix(columns, b)) = (inputs[0], inputs[1]);
            assert_eq!((a.len(), b.len()), (*inner, inner * columns), "one row");
            let column = |j: usize| (0..*inner).map(|i| a[i] * b[i * columns + j]).sum();
            Matrix(*columns, (0..*columns).map(column).collect())
        }
        "Gemm" => {
            let (Matrix(inner, a), Matrix(columns, b)) = (inputs[0], inputs[1]);
            let Matrix(_, c) = inputs[2];
            assert_eq!((a.len(), b.len()), (*inner, inner * columns), "one row");
            assert_eq!(c.len(), *columns);
            let column = |j: usize| -> f64 { (0..*inner).map(|i| a[i] * b[i * columns + j]).sum() };
            Matrix(*columns, (0..*columns).map(|j| column(j) + c[j]).collect())
        }
        other => panic!("{other}"),
    }
}
