//! How well several classes are told apart, on public data.

use crate::metrics::MetricError;

/// How many records of each class were taken for each. **Not private**: for public data only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confusion {
    classes: usize,
    /// (class, taken for), row-major.
    counts: Vec<u64>,
}

impl Confusion {
    /// Counts records of `classes` classes from their outputs, one slice each, and their labels: whole numbers from 0. A record is taken for
    /// the class of its largest output, the first one of equals; a label that is no class counts as class 0, as in
    /// [`dpopt_oracle::Softmax`].
    ///
    /// # Errors
    /// [`MetricError::LabelCount`], [`MetricError::NoRecords`], and [`MetricError::NotANumber`] for an output.
    pub fn of<'o>(
        classes: usize,
        outputs: impl ExactSizeIterator<Item = &'o [f64]>,
        labels: &[f32],
    ) -> Result<Self, MetricError> {
        if outputs.len() != labels.len() {
            return Err(MetricError::LabelCount {
                scores: outputs.len(),
                labels: labels.len(),
            });
        }
        if labels.is_empty() {
            return Err(MetricError::NoRecords);
        }
        let mut counts = vec![0; classes * classes];
        for (record, (outputs, label)) in outputs.zip(labels).enumerate() {
            if outputs.iter().any(|z| z.is_nan()) {
                return Err(MetricError::NotANumber { record });
            }
            let (class, taken) = (class_of(*label, classes), largest(outputs));
            if let Some(count) = counts.get_mut(class * classes + taken) {
                *count += 1;
            }
        }
        Ok(Self { classes, counts })
    }

    /// Records of each class, by the class that they were taken for.
    pub fn rows(&self) -> impl Iterator<Item = &[u64]> {
        self.counts.chunks(self.classes.max(1))
    }

    /// Number of records.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Share of the records that were taken for what they are.
    #[must_use]
    pub fn accuracy(&self) -> f64 {
        let right: u64 = self.rows().enumerate().map(|(k, row)| row[k]).sum();
        right as f64 / self.records() as f64
    }

    /// Accuracy of always naming the commonest class.
    #[must_use]
    pub fn majority_accuracy(&self) -> f64 {
        let sizes = self.rows().map(|row| row.iter().sum::<u64>());
        sizes.max().unwrap_or(0) as f64 / self.records() as f64
    }

    /// Recall of each class; none for a class without records.
    #[must_use]
    pub fn recalls(&self) -> Vec<Option<f64>> {
        let of = |(k, row): (usize, &[u64])| {
            let all: u64 = row.iter().sum();
            (all > 0).then(|| row[k] as f64 / all as f64)
        };
        self.rows().enumerate().map(of).collect()
    }
}

/// The class of a label; 0 of what is none.
#[must_use]
pub fn class_of(label: f32, classes: usize) -> usize {
    // A NaN and negative numbers become 0.
    let class = label as usize;
    if class < classes && class as f32 == label {
        class
    } else {
        0
    }
}

/// The place of the largest, the first one of equals.
#[must_use]
pub fn largest(outputs: &[f64]) -> usize {
    let mut best = 0;
    for (k, output) in outputs.iter().enumerate() {
        if *output > outputs[best] {
            best = k;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Five records counted by hand, ties and labels that are no class among them.
    #[test]
    fn records_are_counted_by_class() {
        let outputs: [&[f64]; 5] = [
            &[1.0, 0.0, 0.0],
            &[0.0, 2.0, 2.0],
            &[0.0, 0.0, 5.0],
            &[0.0, 1.0, 0.0],
            &[9.0, 1.0, 0.0],
        ];
        let labels = [0.0, 2.0, 2.0, 1.0, f32::NAN];
        let found = Confusion::of(3, outputs.into_iter(), &labels).unwrap();
        let rows: Vec<&[u64]> = found.rows().collect();
        assert_eq!(rows, [&[2, 0, 0][..], &[0, 1, 0], &[0, 1, 1]]);
        assert_eq!(found.records(), 5);
        assert!((found.accuracy() - 0.8).abs() < 1e-15);
        assert!((found.majority_accuracy() - 0.4).abs() < 1e-15);
        assert_eq!(found.recalls(), [Some(1.0), Some(1.0), Some(0.5)]);
        let one = Confusion::of(3, outputs[..1].iter().copied(), &labels[..1]).unwrap();
        assert_eq!(one.recalls(), [Some(1.0), None, None]);
    }

    #[test]
    fn what_is_no_number_or_no_record_is_refused() {
        let bad: [&[f64]; 1] = [&[f64::NAN, 0.0]];
        let of = |labels: &[f32]| Confusion::of(2, bad.into_iter(), labels).unwrap_err();
        assert_eq!(of(&[1.0]), MetricError::NotANumber { record: 0 });
        assert!(matches!(of(&[]), MetricError::LabelCount { .. }));
        let none = Confusion::of(2, [].into_iter(), &[]).unwrap_err();
        assert_eq!(none, MetricError::NoRecords);
    }
}
