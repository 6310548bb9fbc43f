//! The sweeps of `cargo xtask bench`: how time and memory of a step grow.

/// What a point of a sweep has more than the one before.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sweep {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    /// What grows.
    pub(crate) of: &'static str,
    /// Words of each point, and how much there is of what grows.
    pub(crate) points: &'static [(&'static str, f64)],
    /// How many of them a quick run has.
    pub(crate) quick: usize,
}

/// How time and memory of a step grow. Records, columns and entries of a row are what the model knows of a point.
pub(crate) const SWEEPS: &[Sweep] = &[
    Sweep {
        id: "records",
        title: "Dense rows of 8 numbers, the last two in a file",
        of: "records",
        points: &[
            ("logistic 10000 8", 1e4),
            ("logistic 100000 8", 1e5),
            ("logistic 1000000 8", 1e6),
            ("logistic 10000000 8", 1e7),
            ("file 10000000 8 {file}", 1e7),
            ("file 100000000 8 {file}", 1e8),
        ],
        quick: 2,
    },
    Sweep {
        id: "columns",
        title: "200 dense rows",
        of: "columns",
        points: &[
            ("logistic 200 10", 1e1),
            ("logistic 200 100", 1e2),
            ("logistic 200 1000", 1e3),
            ("logistic 200 10000", 1e4),
            ("logistic 200 100000", 1e5),
            ("logistic 200 1000000", 1e6),
        ],
        quick: 3,
    },
    Sweep {
        id: "columns-sparse",
        title: "100,000 rows with 10 ones each",
        of: "columns",
        points: &[
            ("one-hot 100000 10 10", 1e1),
            ("one-hot 100000 100 10", 1e2),
            ("one-hot 100000 1000 10", 1e3),
            ("one-hot 100000 10000 10", 1e4),
            ("one-hot 100000 100000 10", 1e5),
            ("one-hot 100000 1000000 10", 1e6),
        ],
        quick: 2,
    },
    Sweep {
        id: "steps",
        title: "Steps on 10,000 dense rows of 100 numbers",
        of: "steps",
        points: &[
            ("steps 10000 100 1", 1e0),
            ("steps 10000 100 10", 1e1),
            ("steps 10000 100 100", 1e2),
            ("steps 10000 100 1000", 1e3),
        ],
        quick: 3,
    },
];

#[cfg(test)]
mod tests {
    use super::super::lines::numbers;
    use super::SWEEPS;

    #[test]
    fn points_of_a_sweep_grow_and_are_written_below_four_gigabytes() {
        for sweep in SWEEPS {
            assert!(sweep.points.is_sorted_by_key(|point| point.1));
            assert!((1..=sweep.points.len()).contains(&sweep.quick));
            for (words, _) in sweep.points {
                let words: Vec<&str> = words.split(' ').collect();
                let n = numbers(&words);
                assert!(words[0] != "file" || 4.0 * n[0] * n[1] <= 4e9);
            }
        }
    }
}
