//! The lines of `cargo xtask bench`: what is timed, beside which tools, and against which limit. Table, JSON, page and `docs/measured/speed.md`
//! come from this list.

/// Who stands beside a line.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Peers {
    /// Names, as `benches/peers/*.py` knows them, and the packages that they need.
    These(&'static [(&'static str, &'static str)]),
    /// Nobody, for this reason.
    Nobody(&'static str),
}

/// An amount, of the numbers among the words of a line.
pub(crate) type Amount = fn(&[f64]) -> f64;

/// The physical limit of a line.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Limit {
    /// So much of what the machine does in a second at most, of the rate with this name ([`super::limits`]).
    Rate(&'static str, Amount),
    /// Another work of our side, timed in the same rounds.
    Work(&'static str),
    /// None, for this reason.
    None(&'static str),
}

/// A line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line {
    pub(crate) id: &'static str,
    pub(crate) group: &'static str,
    /// What our side and the tools are asked for: the task, then its numbers.
    pub(crate) words: &'static str,
    /// The same of a quick run; empty where it is not in one.
    pub(crate) quick: &'static str,
    /// Whether the work can use more than one thread.
    pub(crate) threaded: bool,
    /// Timed with noise (`step`) and without (`sum`), or only as it is.
    pub(crate) sums: bool,
    /// Before each timing the file is dropped from the system's cache.
    pub(crate) cold: bool,
    pub(crate) limit: Limit,
    /// What theirs over ours is to reach, for the best of them.
    pub(crate) aim: Option<f64>,
    pub(crate) peers: Peers,
    /// Bytes that our side and the tools need together.
    pub(crate) memory: Amount,
    /// What stands between us and the limit.
    pub(crate) between: &'static str,
}

const NOTHING: Amount = |_| 0.0;
const CLOSED_FORMS: Peers = Peers::These(&[
    ("numpy closed form", "numpy"),
    ("torch closed form", "torch"),
    ("jax closed form", "jax"),
    ("torch vmap", "torch"),
    ("opacus hooks", "opacus"),
    ("opacus ghost", "opacus"),
    ("opacus ghost, secure", "opacus"),
    ("jax-privacy", "jax-privacy"),
]);
const NETWORKS: Peers = Peers::These(&[
    ("torch by hand", "torch"),
    ("jax by hand", "jax"),
    ("opacus hooks", "opacus"),
    ("opacus ghost", "opacus"),
    ("opacus ghost, secure", "opacus"),
]);
const TWO_GRADIENTS: Peers = Peers::These(&[
    ("numpy closed form", "numpy"),
    ("torch closed form", "torch"),
    ("jax closed form", "jax"),
    ("torch vmap", "torch"),
]);
const MAPPED: Peers = Peers::These(&[("numpy, mapped", "numpy")]);
const ACCOUNTANTS: Peers = Peers::These(&[
    ("dp_accounting pld", "dp-accounting"),
    ("opacus prv", "opacus"),
    ("prv_accountant", "prv-accountant"),
]);
const RENYI: Peers = Peers::These(&[
    ("dp_accounting rdp", "dp-accounting"),
    ("opacus rdp", "opacus"),
]);
const CORRELATED: Peers = Peers::These(&[("jax-privacy", "jax-privacy")]);

const SINGLE_ROWS: Limit = Limit::Rate("read", |n| 4.0 * n[0] * n[1]);
/// The sum and what several tools hold at once.
const DENSE: Amount = |n| 4.0 * n[0] * n[1] * 6.0;
const KERNEL: &str = "Products and sums on the lattice, in double precision, beside the read, which hides them in part.";
const DRAWS: Limit = Limit::Rate("chacha", |n| 8.0 * n[0]);
const STEPS_OF_DRAWS: Limit = Limit::Rate("chacha", |n| 8.0 * n[0] * n[1]);
const NO_LIMIT: &str = "arithmetic of special functions: no rate of the machine bounds it";

const TRAINING: Line = Line {
    id: "",
    group: "Training",
    words: "",
    quick: "",
    threaded: true,
    sums: true,
    cold: false,
    limit: SINGLE_ROWS,
    aim: None,
    peers: CLOSED_FORMS,
    memory: DENSE,
    between: KERNEL,
};

const NOISE: Line = Line {
    group: "Noise",
    sums: false,
    limit: DRAWS,
    memory: |n| 60.0 * n[0],
    between: "Each draw takes a word of the generator, a table and a comparison, and one in some hundreds is decided again in more digits.",
    ..TRAINING
};

const PREFIX: Line = Line {
    threaded: false,
    limit: STEPS_OF_DRAWS,
    peers: CORRELATED,
    memory: |n| 40.0 * n[0] * n[1],
    between: "Averages are kept in two words, so that what is released is rounded once; the exact sum and its conversion are in the time.",
    ..NOISE
};

const ACCOUNT: Line = Line {
    group: "Accounting",
    threaded: false,
    sums: false,
    limit: Limit::None(NO_LIMIT),
    peers: ACCOUNTANTS,
    memory: NOTHING,
    between: "",
    ..TRAINING
};

const PLAN: Line = Line {
    group: "Planners and audits",
    peers: Peers::Nobody("no other tool plans a run from a theorem"),
    ..ACCOUNT
};

/// All lines, in the order of the tables.
pub(crate) const LINES: &[Line] = &[
    Line {
        id: "logistic/100000x1000",
        words: "logistic 100000 1000",
        quick: "logistic 10000 1000",
        aim: Some(2.0),
        ..TRAINING
    },
    Line {
        id: "logistic/1000000x50",
        words: "logistic 1000000 50",
        quick: "",
        aim: Some(2.5),
        between: "The exponential, the clip factor and the labels of a row cost as much as its 50 products.",
        ..TRAINING
    },
    Line {
        id: "logistic/10000x100",
        words: "logistic 10000 100",
        quick: "logistic 10000 100",
        aim: Some(1.5),
        limit: Limit::Rate("read-cache", |n| 4.0 * n[0] * n[1]),
        between: "Inner products and sums on the lattice, in double precision, take two thirds, exponentials a tenth, the work for each row the rest.",
        ..TRAINING
    },
    Line {
        id: "logistic64/50000x1000",
        words: "logistic64 50000 1000",
        quick: "",
        limit: Limit::Rate("read", |n| 8.0 * n[0] * n[1]),
        peers: Peers::These(&[
            ("numpy closed form", "numpy"),
            ("torch closed form", "torch"),
        ]),
        memory: |n| 8.0 * n[0] * n[1] * 5.0,
        ..TRAINING
    },
    Line {
        id: "spider/100000x1000",
        words: "spider 100000 1000",
        quick: "spider 10000 1000",
        peers: TWO_GRADIENTS,
        ..TRAINING
    },
    Line {
        id: "spider/1000000x50",
        words: "spider 1000000 50",
        quick: "",
        peers: TWO_GRADIENTS,
        ..TRAINING
    },
    Line {
        id: "one-hot/200000x500",
        words: "one-hot 200000 500 36",
        quick: "one-hot 20000 500 36",
        limit: Limit::Rate("read", |n| 4.0 * n[0] * n[2]),
        peers: Peers::These(&[
            ("scipy closed form", "scipy"),
            ("torch closed form", "torch"),
        ]),
        memory: |n| 60.0 * n[0] * n[2],
        between: "Each entry is a load of a weight and an addition to a sum at places that the entry names.",
        ..TRAINING
    },
    Line {
        id: "softmax/2048",
        words: "softmax 2048",
        quick: "softmax 2048",
        limit: Limit::Rate("singles", |n| 2.0 * 7840.0 * n[0]),
        peers: Peers::These(&[
            ("torch by hand", "torch"),
            ("jax by hand", "jax"),
            ("opacus ghost", "opacus"),
            ("opacus ghost, secure", "opacus"),
        ]),
        memory: NOTHING,
        between: "Ten scores of a row and ten multiples of it on the lattice take four fifths, in double precision, where the tools have single.",
        ..TRAINING
    },
    Line {
        id: "perceptron/2048",
        words: "perceptron 2048",
        quick: "",
        limit: Limit::Rate("singles", |n| {
            n[0] * (2.0 * 785.0 * 128.0 + 3.0 * 129.0 * 10.0)
        }),
        aim: Some(1.3),
        peers: NETWORKS,
        memory: NOTHING,
        between: "101,770 exact draws are half a millisecond on one thread for any batch; the matrix products reach two thirds of the peak.",
        ..TRAINING
    },
    Line {
        id: "perceptron/256",
        words: "perceptron 256",
        quick: "perceptron 256",
        limit: Limit::Rate("singles", |n| {
            n[0] * (2.0 * 785.0 * 128.0 + 3.0 * 129.0 * 10.0)
        }),
        aim: Some(1.2),
        peers: NETWORKS,
        memory: NOTHING,
        between: "101,770 exact draws are half a millisecond on one thread for any batch; the matrix products reach two thirds of the peak.",
        ..TRAINING
    },
    Line {
        id: "hessian/20000x535",
        group: "Other queries",
        words: "hessian 20000 535",
        quick: "hessian 2000 535",
        limit: Limit::Rate("syrk", |n| n[0] * n[1] * (n[1] + 1.0) / 2.0),
        peers: Peers::These(&[
            ("numpy", "numpy"),
            ("scipy syrk", "scipy"),
            ("torch", "torch"),
        ]),
        between: "Each product is rounded to an integer and added in 64 bits, where the product of matrices has one multiply-add.",
        ..TRAINING
    },
    Line {
        id: "slopes/8192x100",
        group: "Other queries",
        words: "slopes 8192 100",
        quick: "",
        limit: Limit::Work("product"),
        peers: Peers::These(&[("numpy", "numpy"), ("torch", "torch")]),
        between: "Two values of the loss for each record and direction, then the slopes of a record on the lattice.",
        ..TRAINING
    },
    Line {
        id: "file/warm/4000000x50",
        group: "Rows in a file",
        words: "file 4000000 50 {file}",
        quick: "file 200000 50 {file}",
        limit: Limit::Work("read"),
        peers: MAPPED,
        between: "A copy from the system's cache, and the labels and slopes of short rows.",
        ..TRAINING
    },
    Line {
        id: "file/cold/4000000x50",
        group: "Rows in a file",
        words: "file 4000000 50 {file}",
        quick: "",
        cold: true,
        limit: Limit::Work("read"),
        peers: MAPPED,
        between: "The disk.",
        ..TRAINING
    },
    Line {
        id: "noise/rounded",
        words: "noise rounded 1000000",
        quick: "noise rounded 100000",
        peers: Peers::These(&[
            ("numpy", "numpy"),
            ("torch", "torch"),
            ("jax", "jax"),
            ("opacus, secure", "opacus"),
            ("jax-privacy", "jax-privacy"),
            ("opendp", "opendp"),
        ]),
        ..NOISE
    },
    Line {
        id: "noise/prefix-independent",
        words: "noise prefix-independent 1000000 16",
        quick: "",
        ..PREFIX
    },
    Line {
        id: "noise/prefix-tree",
        words: "noise prefix-tree 1000000 16",
        quick: "",
        peers: Peers::Nobody("jax-privacy has no tree"),
        ..PREFIX
    },
    Line {
        id: "noise/prefix-honaker",
        words: "noise prefix-honaker 1000000 16",
        quick: "",
        peers: Peers::Nobody("jax-privacy has no tree"),
        ..PREFIX
    },
    Line {
        id: "noise/prefix-toeplitz",
        words: "noise prefix-toeplitz 1000000 16",
        quick: "noise prefix-toeplitz 100000 16",
        ..PREFIX
    },
    Line {
        id: "noise/prefix-banded",
        words: "noise prefix-banded 1000000 16",
        quick: "",
        ..PREFIX
    },
    Line {
        id: "epsilon/rdp",
        words: "account epsilon rdp",
        quick: "account epsilon rdp",
        peers: RENYI,
        ..ACCOUNT
    },
    Line {
        id: "epsilon/exact",
        words: "account epsilon exact",
        quick: "",
        ..ACCOUNT
    },
    Line {
        id: "epsilon/pld",
        words: "account epsilon pld",
        quick: "",
        ..ACCOUNT
    },
    Line {
        id: "epsilon/allocation",
        words: "account epsilon allocation",
        quick: "",
        peers: Peers::Nobody("no tool here accounts for random allocation under zero-out"),
        ..ACCOUNT
    },
    Line {
        id: "epsilon/banded",
        words: "account epsilon banded",
        quick: "",
        peers: Peers::Nobody("no tool here accounts for samples of slices under replace-one"),
        ..ACCOUNT
    },
    Line {
        id: "calibrate/rdp",
        words: "account calibrate rdp",
        quick: "",
        peers: RENYI,
        ..ACCOUNT
    },
    Line {
        id: "calibrate/exact",
        words: "account calibrate exact",
        quick: "",
        ..ACCOUNT
    },
    Line {
        id: "calibrate/pld",
        words: "account calibrate pld",
        quick: "",
        ..ACCOUNT
    },
    Line {
        id: "calibrate/allocation",
        words: "account calibrate allocation",
        quick: "",
        peers: Peers::Nobody("no tool here accounts for random allocation under zero-out"),
        ..ACCOUNT
    },
    Line {
        id: "calibrate/banded",
        words: "account calibrate banded",
        quick: "",
        peers: Peers::Nobody("no tool here accounts for samples of slices under replace-one"),
        ..ACCOUNT
    },
    Line {
        id: "plan/minimisers",
        words: "plan minimisers",
        quick: "plan minimisers",
        ..PLAN
    },
    Line {
        id: "plan/auto",
        words: "plan auto",
        quick: "plan auto",
        ..PLAN
    },
    Line {
        id: "plan/saddles",
        words: "plan saddles",
        quick: "",
        ..PLAN
    },
    Line {
        id: "audit/one-run",
        words: "audit one-run 100000 2000 1600",
        quick: "audit one-run 100000 2000 1600",
        peers: Peers::These(&[("jax-privacy", "jax-privacy")]),
        ..PLAN
    },
    Line {
        id: "audit/release",
        words: "audit row gaussian",
        quick: "",
        peers: Peers::Nobody("no other tool attacks its own releases"),
        ..PLAN
    },
    Line {
        id: "income/epsilon-1",
        group: "Time to an AUC",
        words: "income {census} {schema}",
        quick: "",
        threaded: true,
        peers: Peers::These(&[
            ("opacus", "opacus"),
            ("jax by hand", "jax"),
            ("diffprivlib", "diffprivlib"),
        ]),
        memory: |_| 4e9,
        limit: Limit::None("a run of many passes over rows of ones, and text"),
        ..ACCOUNT
    },
];

impl Line {
    /// Its words in a run.
    pub(crate) fn words(&self, quick: bool) -> Vec<&'static str> {
        let words = if quick { self.quick } else { self.words };
        words.split(' ').collect()
    }

    /// The names of who stands beside it.
    pub(crate) fn names(&self) -> &'static [(&'static str, &'static str)] {
        match self.peers {
            Peers::These(names) => names,
            Peers::Nobody(_) => &[],
        }
    }
}

/// The numbers among words.
pub(crate) fn numbers(words: &[&str]) -> Vec<f64> {
    words.iter().filter_map(|word| word.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::{LINES, Limit, Peers, numbers};

    const SCRIPTS: [&str; 4] = [
        include_str!("../../../benches/peers/gradients.py"),
        include_str!("../../../benches/peers/noise.py"),
        include_str!("../../../benches/peers/accounts.py"),
        include_str!("../../../benches/peers/income.py"),
    ];
    const PINNED: &str = include_str!("../../../benches/peers/requirements.txt");

    #[test]
    fn every_line_has_peers_or_says_why_not() {
        for line in LINES {
            match line.peers {
                Peers::These(names) => {
                    assert!(!names.is_empty(), "{}", line.id);
                    let task = line.words.split(' ').next().expect("a task");
                    let key = format!("\"{task}\":");
                    let script = SCRIPTS.iter().find(|script| script.contains(&key));
                    let script = script.unwrap_or_else(|| panic!("no script knows {task}"));
                    for (name, package) in names {
                        assert!(
                            script.contains(&format!("\"{name}\":")) || task == "audit",
                            "{}: {name} is in no script",
                            line.id
                        );
                        assert!(PINNED.contains(&format!("{package}==")), "{package}");
                    }
                }
                Peers::Nobody(why) => assert!(why.len() > 10, "{}", line.id),
            }
        }
    }

    #[test]
    fn names_are_there_once_and_amounts_are_positive() {
        for (i, line) in LINES.iter().enumerate() {
            assert!(!line.group.is_empty());
            assert!(LINES[..i].iter().all(|other| other.id != line.id));
            for quick in [false, true] {
                let words = line.words(quick);
                if quick && line.quick.is_empty() {
                    continue;
                }
                if let Limit::Rate(_, amount) = line.limit {
                    assert!(amount(&numbers(&words[1..])) > 0.0, "{}", line.id);
                }
                assert!((line.memory)(&numbers(&words[1..])) >= 0.0);
            }
            if let Limit::None(why) = line.limit {
                assert!(!why.is_empty());
            }
        }
    }
}
