//! The wire format of protocol buffers, as far as a graph needs it.
//!
//! A message is a list of fields: a key, which is the field's number times 8 plus a wire type, and a value. Type 0 is a number in
//! groups of 7 bits, the lowest first; type 2 is a length and so many bytes.

/// A message that is being written.
#[derive(Debug, Clone, Default)]
pub(super) struct Message(Vec<u8>);

impl Message {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// A whole number.
    pub(super) fn number(mut self, field: u32, value: u64) -> Self {
        self.key(field, 0);
        self.varint(value);
        self
    }

    /// Bytes, a text among them.
    pub(super) fn bytes(mut self, field: u32, value: &[u8]) -> Self {
        self.key(field, 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    pub(super) fn text(self, field: u32, value: &str) -> Self {
        self.bytes(field, value.as_bytes())
    }

    pub(super) fn message(self, field: u32, value: &Message) -> Self {
        self.bytes(field, &value.0)
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    fn key(&mut self, field: u32, kind: u64) {
        self.varint(u64::from(field) << 3 | kind);
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::Message;

    /// The examples of the description of the format: field 1 is 150; field 2 is "testing"; field 3 is the first of them.
    #[test]
    fn the_bytes_are_those_of_the_description() {
        let number = Message::new().number(1, 150);
        assert_eq!(number.clone().into_bytes(), [0x08, 0x96, 0x01]);
        let text = Message::new().text(2, "testing");
        assert_eq!(
            text.into_bytes(),
            [0x12, 7, b't', b'e', b's', b't', b'i', b'n', b'g']
        );
        let nested = Message::new().message(3, &number);
        assert_eq!(nested.into_bytes(), [0x1a, 3, 0x08, 0x96, 0x01]);
    }
}
