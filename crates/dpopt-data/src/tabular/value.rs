//! Types of values, and the texts of numbers.

use std::io::Write;

/// The type of a value. The type of a whole column is public.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueType {
    /// True or false.
    Truth,
    /// A whole number.
    Whole,
    /// A number with a point.
    Real,
    /// A day, or a time of which the day counts.
    Date,
    /// A text, read as a field of a CSV file.
    Text,
}

impl ValueType {
    pub(super) const ALL: [Self; 5] =
        [Self::Truth, Self::Whole, Self::Real, Self::Date, Self::Text];
}

impl std::fmt::Display for ValueType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Truth => "truth values",
            Self::Whole => "whole numbers",
            Self::Real => "numbers with a point",
            Self::Date => "dates or times",
            Self::Text => "texts",
        })
    }
}

/// Writes a number in its shortest form.
pub(super) fn write_number(out: &mut Vec<u8>, number: impl std::fmt::Display) {
    // Writing to memory can't fail.
    let _ = write!(out, "{number}");
}

/// As [`write_number`], with an exponent where it is large or small.
pub(super) fn write_double(out: &mut Vec<u8>, x: f64) {
    if plain(x) {
        write_number(out, x);
    } else {
        write_number(out, format_args!("{x:e}"));
    }
}

/// As [`write_double`].
pub(super) fn write_single(out: &mut Vec<u8>, x: f32) {
    if plain(f64::from(x)) {
        write_number(out, x);
    } else {
        write_number(out, format_args!("{x:e}"));
    }
}

/// Whether a number is written without an exponent.
fn plain(x: f64) -> bool {
    x == 0.0 || (1e-5..1e17).contains(&x.abs())
}
