//! Values that have types, as in frames and Parquet files: which column of a schema takes which
//! type, and by which texts.

use std::collections::HashMap;

use super::column::{ColumnKind, Label, LabelKind};
use super::date;
use super::encode::parse;
use super::error::{TabularError, TypeProblem};
use super::header::Layout;
use super::schema::Schema;
use super::value::{ValueType, write_double};

impl ValueType {
    /// The text that readers write for the value of this type that a listed text stands for; none
    /// where it stands for no such value.
    fn text_of(self, listed: &str) -> Option<Vec<u8>> {
        match self {
            Self::Truth => {
                let mut truths = ["true", "false"].into_iter();
                let found = truths.find(|truth| truth.eq_ignore_ascii_case(listed));
                found.map(|truth| truth.as_bytes().to_vec())
            }
            Self::Whole => {
                let whole = listed.parse::<i128>().ok().or_else(|| {
                    let x = parse(listed.as_bytes())?;
                    // Up to there each whole number of double precision is itself.
                    (x.fract() == 0.0 && x.abs() < 9e15).then_some(x as i128)
                });
                whole.map(|whole| whole.to_string().into_bytes())
            }
            Self::Real => parse(listed.as_bytes()).map(|x| {
                let mut text = Vec::new();
                write_double(&mut text, x);
                text
            }),
            // A day with a time is not a day.
            Self::Date => date::day(listed.as_bytes())
                .filter(|_| listed.len() == 10)
                .map(|day| date::text(day).into_bytes()),
            Self::Text => Some(listed.as_bytes().to_vec()),
        }
    }
}

/// For the values of a column: by type, the texts that the schema lists in the place of those that
/// readers write (`1.0` for `1`, `True` for `true`).
#[derive(Debug, Clone, Default)]
pub(super) struct Wording([HashMap<Vec<u8>, Vec<u8>>; ValueType::ALL.len()]);

impl Wording {
    /// For the columns of a table, by their places in it. `of` is the name and the type of a
    /// column; without a type each value has its own, and nothing is refused. Without `need_label`
    /// the label means nothing, and its type neither.
    ///
    /// # Errors
    /// [`TabularError::ValueType`]: a column of a type of which the schema takes no value.
    pub(super) fn all<'n>(
        layout: &Layout,
        (schema, need_label): (&Schema, bool),
        of: impl Fn(usize) -> (&'n str, Option<ValueType>),
        path: &str,
    ) -> Result<Vec<Self>, TabularError> {
        let mut all = vec![Self::default(); layout.width()];
        let columns = schema.columns().iter().enumerate();
        let columns = columns.map(|(i, column)| (layout.column(i), Takes::column(&column.kind)));
        let label = layout.label().filter(|_| need_label);
        let label = (label, Takes::label(schema.label()));
        for (at, takes) in columns.chain([label]) {
            let Some((at, wording)) = at.and_then(|at| Some((at, all.get_mut(at)?))) else {
                continue;
            };
            let (name, whole) = of(at);
            for (texts, each) in wording.0.iter_mut().zip(ValueType::ALL) {
                match takes.wording(each) {
                    Ok(found) if whole.is_none_or(|whole| whole == each) => *texts = found,
                    Err(problem) if whole == Some(each) => {
                        return Err(TabularError::ValueType {
                            path: path.to_owned(),
                            column: name.to_owned(),
                            of: each,
                            problem,
                        });
                    }
                    Ok(_) | Err(_) => {}
                }
            }
        }
        Ok(all)
    }

    /// The text that the schema lists for the value of a type that readers write like this;
    /// otherwise this one.
    pub(super) fn listed<'t>(&'t self, of: ValueType, text: &'t [u8]) -> &'t [u8] {
        let texts = self.0.get(of as usize);
        texts
            .and_then(|texts| texts.get(text))
            .map_or(text, Vec::as_slice)
    }
}

/// What a schema does with a field.
enum Takes<'s> {
    Number,
    Date,
    /// Compares it with the texts of a list, one of which a type must hold.
    Listed(Vec<&'s str>),
    /// Compares it with the values of a label, of which a type must hold all but the default.
    Label(&'s Label),
    Anything,
}

impl<'s> Takes<'s> {
    fn column(kind: &'s ColumnKind) -> Self {
        match kind {
            ColumnKind::Number(_) => Self::Number,
            ColumnKind::Date(_) => Self::Date,
            ColumnKind::Category(of) => Self::Listed(
                of.values
                    .iter()
                    .chain(&of.reference)
                    .map(String::as_str)
                    .collect(),
            ),
            ColumnKind::Hash(_) | ColumnKind::Ignore => Self::Anything,
        }
    }

    fn label(label: &'s Label) -> Self {
        match &label.kind {
            LabelKind::Number(_) => Self::Number,
            LabelKind::Classes(_) | LabelKind::Several(_) => Self::Label(label),
        }
    }

    /// The listed texts by those that readers write for values of a type, where they differ.
    fn wording(&self, of: ValueType) -> Result<HashMap<Vec<u8>, Vec<u8>>, TypeProblem> {
        use ValueType::{Date, Real, Text, Truth, Whole};
        let held = |text: &&str| of.text_of(text).is_some();
        match (self, of) {
            (Self::Anything, _) | (_, Text) | (Self::Number, Whole | Real) | (Self::Date, Date) => {
                Ok(HashMap::new())
            }
            (Self::Number, Truth | Date) => Err(TypeProblem::Kind("number")),
            (Self::Date, Truth | Whole | Real) => Err(TypeProblem::Kind("date")),
            (Self::Listed(listed), Truth | Whole | Real | Date) => {
                if listed.iter().any(held) {
                    Ok(worded(listed, of))
                } else {
                    Err(TypeProblem::values(listed))
                }
            }
            (Self::Label(label), Truth | Whole | Real | Date) => {
                let lost: Vec<&str> = label.told_apart().filter(|text| !held(text)).collect();
                if lost.is_empty() {
                    let listed: Vec<&str> = label.values().iter().map(String::as_str).collect();
                    Ok(worded(&listed, of))
                } else {
                    Err(TypeProblem::values(&lost))
                }
            }
        }
    }
}

/// Listed texts by the texts of their values, where these are not listed themselves.
fn worded(listed: &[&str], of: ValueType) -> HashMap<Vec<u8>, Vec<u8>> {
    let mut all = HashMap::new();
    for text in listed {
        if let Some(written) = of.text_of(text) {
            all.entry(written)
                .or_insert_with(|| text.as_bytes().to_vec());
        }
    }
    for text in listed {
        all.remove(text.as_bytes());
    }
    all
}
