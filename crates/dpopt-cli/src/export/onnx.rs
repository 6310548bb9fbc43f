//! A model as an ONNX graph in double precision.
//!
//! The input `row` is (N, d): encoded rows, not fields of a table. The outputs are (N, 1), or (N, K) for K classes: `score` and, where
//! the loss models it, `probability`; for a label that is a number `prediction`, in its unit. Operators are those of set 13; a softplus
//! is made of others, since runtimes have it in single precision only.

use dpopt::oracle::Activation;

use super::flat::{is_logistic, largest_count};
use super::protobuf::Message;
use super::score::{Head, Score};
use crate::model::Model;

/// Operators as of this version, and the version of the file that goes with it.
const OPERATORS: u64 = 13;
const IR: u64 = 7;
/// Double precision, by the numbers of `TensorProto.DataType`.
const DOUBLE: u64 = 11;
/// A message of protocol buffers has fewer bytes.
const MOST_BYTES: usize = 1 << 31;

/// A model that has no graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum OnnxError {
    #[error(
        "its {weights} weights need {bytes} bytes or more, and a file of ONNX has fewer than {MOST_BYTES}; --format json has no such limit"
    )]
    TooLarge { weights: usize, bytes: usize },
    #[error("its activation {0} has no operators here; --format json names it")]
    Activation(Activation),
}

/// The bytes of the file.
pub(super) fn encoded(model: &Model, score: &Score) -> Result<Vec<u8>, OnnxError> {
    let features = model.schema.dim();
    let weights = score.rows.len().saturating_mul(features);
    let bytes = weights.saturating_mul(size_of::<f64>());
    // The names of features and the statement are small beside it.
    if bytes >= MOST_BYTES / 2 {
        return Err(OnnxError::TooLarge { weights, bytes });
    }
    let mut graph = Graph::default();
    let matrix: Vec<f64> = (0..features)
        .flat_map(|i| score.rows.iter().filter_map(move |row| row.get(i)).copied())
        .collect();
    let outputs = score.rows.len();
    graph.constant("weights", &[features, outputs], &matrix);
    graph.node("MatMul", &["row", "weights"], "products");
    let (last, width) = match &score.head {
        Head::Linear => ("products".to_owned(), 1),
        Head::Classes => ("products".to_owned(), outputs),
        Head::Network {
            activation,
            output_weights,
        } => {
            graph.activation(*activation, "products", "active")?;
            graph.constant("output_weights", &[outputs, 1], output_weights);
            graph.node("MatMul", &["active", "output_weights"], "outputs");
            ("outputs".to_owned(), 1)
        }
        Head::Perceptron {
            activation,
            biases,
            layers,
        } => {
            graph.constant("biases", &[1, outputs], biases);
            graph.node("Add", &["products", "biases"], "layer1");
            let (mut last, mut width) = ("layer1".to_owned(), outputs);
            for (k, layer) in layers.iter().enumerate() {
                let named = |what: &str| format!("{what}{}", k + 2);
                let (inputs, active) = (width, format!("active{}", k + 1));
                width = layer.biases.len();
                graph.activation(*activation, &last, &active)?;
                graph.constant(&named("weights"), &[inputs, width], &layer.weights.concat());
                graph.constant(&named("biases"), &[1, width], &layer.biases);
                let of = [&*active, &named("weights"), &named("biases")];
                last = named("layer");
                graph.node("Gemm", &of, &last);
            }
            (last, width)
        }
        Head::Factor { threshold } => {
            graph.node("Mul", &["products", "products"], "squares");
            graph.constant("ones", &[outputs, 1], &vec![1.0; outputs]);
            graph.node("MatMul", &["squares", "ones"], "square");
            graph.constant("threshold", &[1, 1], &[*threshold]);
            graph.node("Sub", &["square", "threshold"], "above");
            ("above".to_owned(), 1)
        }
    };
    let label = model.schema.label();
    if let Some(largest) = largest_count(model) {
        graph.constant("largest", &[1, 1], &[largest]);
        graph.node("Exp", &[&*last], "mean");
        graph.node("Min", &["mean", "largest"], "prediction");
        graph.output("prediction", 1);
    } else if let Some(range) = label.range() {
        graph.constant("half", &[1, 1], &[range.half()]);
        graph.constant("middle", &[1, 1], &[range.number(0.0)]);
        graph.node("Mul", &[&*last, "half"], "scaled");
        graph.node("Add", &["scaled", "middle"], "prediction");
        graph.output("prediction", 1);
    } else {
        graph.node("Identity", &[&*last], "score");
        graph.output("score", width);
        if label.several().is_some() {
            graph.node_with("Softmax", &["score"], "probability", &[integer("axis", 1)]);
            graph.output("probability", width);
        } else if is_logistic(model) {
            graph.node("Sigmoid", &["score"], "probability");
            graph.output("probability", 1);
        }
    }
    Ok(file(model, features, graph).into_bytes())
}

fn file(model: &Model, features: usize, graph: Graph) -> Message {
    let label = model.schema.label();
    let privacy = &model.privacy;
    let list = |all: &[String]| serde_json::Value::from(all.to_vec()).to_string();
    let values = match (label.classes(), label.several()) {
        (Some(classes), _) => list(&[classes.negative().to_owned(), classes.positive.clone()]),
        (None, Some(several)) => list(&several.values),
        (None, None) => list(&[]),
    };
    let mut facts = vec![
        ("features", list(&model.schema.feature_names())),
        ("label", label.column.clone()),
        ("label_values", values),
        ("row_norm", model.schema.row_norm().to_string()),
        ("solver", model.solver.to_string()),
        ("loss", model.loss.to_string()),
        ("epsilon", privacy.epsilon.to_string()),
        ("delta", privacy.delta.get().to_string()),
        ("adjacency", privacy.adjacency.to_string()),
        ("statement", list(&privacy.words)),
    ];
    let weights = model.class_weights.as_ref();
    facts.extend(weights.map(|of| ("class_weights", serde_json::json!(of).to_string())));
    let graph = graph.message(features);
    let operators = Message::new().text(1, "").number(2, OPERATORS);
    let file = Message::new()
        .number(1, IR)
        .text(2, "dpopt")
        .text(3, env!("CARGO_PKG_VERSION"))
        .message(7, &graph)
        .message(8, &operators);
    facts.iter().fold(file, |file, (key, value)| {
        file.message(14, &Message::new().text(1, key).text(2, value))
    })
}

/// Nodes, constants and outputs, in order.
#[derive(Default)]
struct Graph {
    nodes: Vec<Message>,
    constants: Vec<Message>,
    outputs: Vec<Message>,
}

impl Graph {
    fn node(&mut self, operator: &str, inputs: &[&str], output: &str) {
        self.node_with(operator, inputs, output, &[]);
    }

    fn node_with(&mut self, operator: &str, inputs: &[&str], output: &str, attributes: &[Message]) {
        let node = inputs
            .iter()
            .fold(Message::new(), |node, of| node.text(1, of));
        let node = node.text(2, output).text(3, output).text(4, operator);
        let node = attributes.iter().fold(node, |node, of| node.message(5, of));
        self.nodes.push(node);
    }

    /// Numbers, row by row.
    fn constant(&mut self, name: &str, shape: &[usize], values: &[f64]) {
        let tensor = shape.iter().fold(Message::new(), |tensor, size| {
            tensor.number(1, *size as u64)
        });
        let bytes: Vec<u8> = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        let tensor = tensor.number(2, DOUBLE).text(8, name).bytes(9, &bytes);
        self.constants.push(tensor);
    }

    fn output(&mut self, name: &str, width: usize) {
        self.outputs.push(value(name, width));
    }

    /// `out`: what hidden units make of `z`.
    fn activation(&mut self, activation: Activation, z: &str, out: &str) -> Result<(), OnnxError> {
        let named = |what: &str| format!("{what} of {z}");
        match activation {
            Activation::Relu => self.node("Relu", &[z], out),
            Activation::Tanh => self.node("Tanh", &[z], out),
            Activation::Sigmoid => self.node("Sigmoid", &[z], out),
            Activation::Silu => {
                self.node("Sigmoid", &[z], &named("gate"));
                self.node("Mul", &[z, &named("gate")], out);
            }
            Activation::Softplus => {
                // max(z, 0) + ln(1 + e^-|z|)
                self.constant(&named("one"), &[1, 1], &[1.0]);
                self.node("Abs", &[z], &named("size"));
                self.node("Neg", &[&named("size")], &named("minus"));
                self.node("Exp", &[&named("minus")], &named("small"));
                self.node("Add", &[&named("small"), &named("one")], &named("sum"));
                self.node("Log", &[&named("sum")], &named("log"));
                self.node("Relu", &[z], &named("positive"));
                self.node("Add", &[&named("positive"), &named("log")], out);
            }
            other => return Err(OnnxError::Activation(other)),
        }
        Ok(())
    }

    fn message(self, features: usize) -> Message {
        let graph = self
            .nodes
            .iter()
            .fold(Message::new(), |g, node| g.message(1, node));
        let graph = graph.text(2, "dpopt");
        let graph = self
            .constants
            .iter()
            .fold(graph, |g, tensor| g.message(5, tensor));
        let graph = graph.message(11, &value("row", features));
        self.outputs
            .iter()
            .fold(graph, |g, output| g.message(12, output))
    }
}

/// An input or output of N rows.
fn value(name: &str, width: usize) -> Message {
    let shape = Message::new()
        .message(1, &Message::new().text(2, "N"))
        .message(1, &Message::new().number(1, width as u64));
    let tensor = Message::new().number(1, DOUBLE).message(2, &shape);
    Message::new()
        .text(1, name)
        .message(2, &Message::new().message(1, &tensor))
}

/// An attribute that is a whole number: kind 2 of `AttributeProto.AttributeType`.
fn integer(name: &str, value: u64) -> Message {
    Message::new().text(1, name).number(3, value).number(20, 2)
}
