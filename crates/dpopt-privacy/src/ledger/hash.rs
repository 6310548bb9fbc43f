//! The hash of a chained line.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// SHA-256 of a line and all before it; 64 hexadecimal digits as text.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ChainHash([u8; 32]);

/// Before the first line.
pub(super) const START: ChainHash = ChainHash([0; 32]);

pub(super) const DIGITS: usize = 64;

impl ChainHash {
    pub(super) fn of(previous: Self, body: &[u8]) -> Self {
        let mut hasher = Sha256::new();
        hasher.update(previous.0);
        hasher.update(body);
        Self(hasher.finalize().into())
    }

    pub(super) fn digits(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl std::fmt::Display for ChainHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.digits())
    }
}

impl std::fmt::Debug for ChainHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ChainHash({self})")
    }
}

impl From<ChainHash> for String {
    fn from(hash: ChainHash) -> Self {
        hash.digits()
    }
}

impl TryFrom<String> for ChainHash {
    type Error = NotAHash;

    fn try_from(text: String) -> Result<Self, NotAHash> {
        read_digits(text.as_bytes()).ok_or(NotAHash {
            bytes: text.len() as u64,
        })
    }
}

/// A text is not 64 lower-case hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a hash has 64 lower-case hexadecimal digits; this text of {bytes} bytes is none")]
pub struct NotAHash {
    /// Length of the text.
    pub bytes: u64,
}

pub(super) fn read_digits(text: &[u8]) -> Option<ChainHash> {
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    if text.len() != DIGITS {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = 16 * value(pair[0])? + value(pair[1])?;
    }
    Some(ChainHash(bytes))
}
