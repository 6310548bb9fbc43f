//! Groups of records: by columns of the public schema, one of which may be the label.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Read;
use std::path::Path;

use dpopt_linalg::Design;

use super::column::{ColumnKind, Label};
use super::error::{GroupProblem, TabularError};
use super::reader::{EncodedTable, visit_fields};
use super::schema::Schema;
use crate::formats::stream;
use crate::names::nearest;

/// Most groups: weights and shares are lists.
const MOST: usize = 1000;

/// How a record's group follows from its fields.
///
/// # Formula
/// Each column but the label has one value more than the schema lists, `(other)`, for all that is not listed; groups are counted with the last
/// column running fastest. The class is no part of the group: a cell is both.
#[derive(Debug, Clone)]
pub struct Groups {
    columns: Vec<GroupColumn>,
    by_class: bool,
    label: String,
    classes: [String; 2],
}

#[derive(Debug, Clone)]
struct GroupColumn {
    name: String,
    /// Where it is among the schema's.
    at: usize,
    values: Vec<String>,
    codes: HashMap<Vec<u8>, usize>,
}

/// The value of all that is not listed.
const OTHER: &str = "(other)";

impl Groups {
    /// Groups by these columns; none: one group of all.
    ///
    /// # Errors
    /// [`TabularError::Group`].
    pub fn new(schema: &Schema, names: &[String]) -> Result<Self, TabularError> {
        let label: &Label = schema.label();
        let Some(classes) = label.classes() else {
            return Err(GroupProblem::NotClasses(label.column.clone()).into());
        };
        let mut seen = BTreeSet::new();
        let mut columns = Vec::new();
        let mut by_class = false;
        for name in names.iter().map(|name| name.trim_ascii()) {
            if !seen.insert(name) {
                return Err(GroupProblem::Twice(name.to_owned()).into());
            }
            if name == label.column {
                by_class = true;
                continue;
            }
            let found = schema
                .columns()
                .iter()
                .position(|column| column.name == name);
            let at = found.ok_or_else(|| {
                let known = schema.columns().iter().map(|column| column.name.as_str());
                let near = nearest(name, known.chain([label.column.as_str()]));
                GroupProblem::Missing(name.to_owned(), near.map(str::to_owned))
            })?;
            let ColumnKind::Category(category) = &schema.columns()[at].kind else {
                return Err(GroupProblem::NotCategory(name.to_owned()).into());
            };
            let mut values = category.values.clone();
            values.extend(
                category
                    .reference
                    .clone()
                    .filter(|value| !values.contains(value)),
            );
            let codes = values.iter().enumerate();
            columns.push(GroupColumn {
                name: name.to_owned(),
                at,
                codes: codes
                    .map(|(i, value)| (value.as_bytes().to_vec(), i))
                    .collect(),
                values,
            });
        }
        let sizes = columns.iter().map(|column| column.values.len() + 1);
        let groups = sizes.fold(1usize, usize::saturating_mul);
        if groups > MOST {
            let limit = MOST;
            return Err(GroupProblem::TooMany { groups, limit }.into());
        }
        let [first, second] = &classes.values;
        let positive = classes.positive.clone();
        let negative = if *first == positive { second } else { first }.clone();
        Ok(Self {
            columns,
            by_class,
            label: label.column.clone(),
            classes: [negative, positive],
        })
    }

    /// Number of groups.
    #[must_use]
    pub fn count(&self) -> usize {
        self.columns
            .iter()
            .map(|column| column.values.len() + 1)
            .product()
    }

    /// Whether the label is one of the columns: then each class of a group is a group of its own.
    #[must_use]
    pub fn by_class(&self) -> bool {
        self.by_class
    }

    /// Whether no column but the label was named.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.columns.is_empty()
    }

    /// The name of a group, and of a class of it where one is given: `sex = Female, income = 50000+.`
    #[must_use]
    pub fn name(&self, group: usize, positive: Option<bool>) -> String {
        let mut rest = group;
        let mut parts = Vec::new();
        for column in self.columns.iter().rev() {
            let size = column.values.len() + 1;
            let value = column.values.get(rest % size).map_or(OTHER, String::as_str);
            parts.push(format!("{} = {value}", column.name));
            rest /= size;
        }
        parts.reverse();
        parts.extend(
            positive.map(|positive| {
                format!("{} = {}", self.label, self.classes[usize::from(positive)])
            }),
        );
        if parts.is_empty() {
            "all".to_owned()
        } else {
            parts.join(", ")
        }
    }

    fn of<'f>(&self, field: impl Fn(usize) -> Option<&'f [u8]>) -> u32 {
        let mut group = 0;
        for column in &self.columns {
            let value = field(column.at).and_then(|text| column.codes.get(text));
            let size = column.values.len();
            group = group * (size + 1) + value.copied().unwrap_or(size);
        }
        group as u32
    }

    /// The public shares of the cells by the schema: of each group that of its negative and of its positive class, none for a cell
    /// that the schema gives no share, as most do for `(other)`. Shares of more columns are added up.
    ///
    /// # Errors
    /// [`GroupProblem::NoShares`] where no shares of the schema name all the columns.
    pub fn shares(&self, schema: &Schema) -> Result<Vec<[Option<f64>; 2]>, TabularError> {
        let names = self.columns.iter().map(|column| column.name.clone());
        let needed: BTreeSet<String> = names.chain([self.label.clone()]).collect();
        let columns = |of: &BTreeMap<String, String>| of.keys().cloned().collect::<BTreeSet<_>>();
        let tables: BTreeSet<BTreeSet<String>> = schema
            .shares()
            .iter()
            .map(|share| columns(&share.of))
            .collect();
        // The table with the fewest columns.
        let table = tables
            .iter()
            .filter(|table| table.is_superset(&needed))
            .min_by_key(|table| table.len());
        let Some(table) = table else {
            return Err(GroupProblem::NoShares(needed.into_iter().collect()).into());
        };
        let mut shares = vec![[None; 2]; self.count()];
        for share in schema
            .shares()
            .iter()
            .filter(|share| columns(&share.of) == *table)
        {
            let group = self.of(|at| {
                let column = &schema.columns()[at].name;
                share.of.get(column).map(String::as_bytes)
            });
            let class = usize::from(share.of.get(&self.label) == Some(&self.classes[1]));
            let sum: &mut Option<f64> = &mut shares[group as usize][class];
            *sum = Some(sum.unwrap_or(0.0) + share.share);
        }
        Ok(shares)
    }
}

/// Reads a table as [`read_table`](super::read_table) does, with the group of each record.
///
/// # Errors
/// As there.
pub fn read_grouped(
    path: impl AsRef<Path>,
    schema: &Schema,
    groups: &Groups,
) -> Result<(EncodedTable, Vec<u32>), TabularError> {
    let (file, name) = stream::open(path.as_ref())?;
    read_grouped_from(file, &name, schema, groups)
}

/// As [`read_grouped`], from a stream that errors call `origin`.
///
/// # Errors
/// As there.
pub fn read_grouped_from(
    source: impl Read,
    origin: &str,
    schema: &Schema,
    groups: &Groups,
) -> Result<(EncodedTable, Vec<u32>), TabularError> {
    let mut design = Design::sparse(schema.dim())?;
    let (mut labels, mut of) = (Vec::new(), Vec::new());
    visit_fields(
        source,
        origin,
        schema,
        true,
        |layout, fields, row, label| {
            labels.push(label);
            of.push(groups.of(|at| layout.column(at).and_then(|at| fields.get(at))));
            Ok(design.push_row(row)?)
        },
    )?;
    let table = EncodedTable {
        design,
        labels,
        row_norm: schema.row_norm(),
    };
    Ok((table, of))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &str = r#"
format = 1
row_norm = 2.0
intercept = 1.0
[label]
column = "paid"
values = ["no", "yes"]
positive = "yes"
default = "no"
[[column]]
name = "sex"
kind = "category"
values = ["F", "M"]
reference = "M"
[[column]]
name = "age"
kind = "number"
min = 0.0
max = 90.0
default = 0.0
[[share]]
of = { paid = "no", sex = "F" }
share = 0.4
[[share]]
of = { paid = "yes", sex = "F" }
share = 0.1
[[share]]
of = { paid = "no", sex = "M" }
share = 0.3
[[share]]
of = { paid = "yes", sex = "M" }
share = 0.2
"#;

    fn schema() -> Schema {
        Schema::from_toml(SCHEMA, "test").unwrap()
    }

    fn groups(names: &[&str]) -> Result<Groups, TabularError> {
        Groups::new(
            &schema(),
            &names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>(),
        )
    }

    #[test]
    fn unknown_values_are_other_and_no_error() {
        let groups = groups(&["sex"]).unwrap();
        let text = "sex,age,paid\nF,3,yes\nM,4,no\n,5,yes\nX,x,no\nF\n\n";
        let (table, of) = read_grouped_from(text.as_bytes(), "t", &schema(), &groups).unwrap();
        assert_eq!(of, [0, 1, 2, 2, 0, 2]);
        assert_eq!(table.labels, [1.0, -1.0, 1.0, -1.0, -1.0, -1.0]);
        assert_eq!(groups.count(), 3);
        assert_eq!(groups.name(0, None), "sex = F");
        assert_eq!(groups.name(2, Some(true)), "sex = (other), paid = yes");
    }

    #[test]
    fn shares_are_of_cells_and_add_up() {
        let of = |names: &[&str]| groups(names).unwrap().shares(&schema()).unwrap();
        let by_sex = vec![[Some(0.4), Some(0.1)], [Some(0.3), Some(0.2)], [None, None]];
        assert_eq!(of(&["sex"]), by_sex);
        assert_eq!(of(&["paid", "sex"]), by_sex);
        assert!(groups(&["paid", "sex"]).unwrap().by_class());
        let whole = of(&[])[0];
        assert!((whole[0].unwrap() - 0.7).abs() < 1e-12 && (whole[1].unwrap() - 0.3).abs() < 1e-12);
        // They are a part of the schema that is kept, and not one of its encoding.
        let text = serde_json::to_string(&schema()).unwrap();
        assert_eq!(serde_json::from_str::<Schema>(&text).unwrap(), schema());
    }

    #[test]
    fn columns_that_make_no_groups_are_refused() {
        let problem = |names: &[&str]| match groups(names) {
            Err(TabularError::Group(problem)) => problem,
            other => panic!("{other:?}"),
        };
        assert_eq!(
            problem(&["race"]),
            GroupProblem::Missing("race".to_owned(), None)
        );
        assert_eq!(
            problem(&["age"]),
            GroupProblem::NotCategory("age".to_owned())
        );
        assert_eq!(
            problem(&["sex", "sex"]),
            GroupProblem::Twice("sex".to_owned())
        );
        let bare = Schema::from_toml(SCHEMA.split("[[share]]").next().unwrap(), "t").unwrap();
        let whole = groups(&["sex"]).unwrap().shares(&bare);
        assert!(matches!(
            whole,
            Err(TabularError::Group(GroupProblem::NoShares(_)))
        ));
    }

    #[test]
    fn shares_that_are_none_are_refused() {
        for (from, to) in [
            ("share = 0.4", "share = 0.0"),
            ("share = 0.4", "share = 1.5"),
            ("sex = \"F\" }\nshare = 0.1", "sex = \"Q\" }\nshare = 0.1"),
            ("paid = \"yes\", sex = \"F\"", "paid = \"no\", sex = \"F\""),
            ("paid = \"yes\", sex = \"F\"", "sex = \"F\""),
            ("paid = \"yes\", sex = \"F\"", "paid = \"yes\", age = \"3\""),
        ] {
            let text = SCHEMA.replacen(from, to, 1);
            assert_ne!(text, SCHEMA);
            assert!(Schema::from_toml(&text, "test").is_err(), "{to}");
        }
    }
}
