//! Texts in CSV files that are written.

/// A text as a field of a CSV line.
pub(crate) fn field(text: &str) -> String {
    if text.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
