//! The folder that hostile command lines are run in: good files, damaged ones, and links.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::Place;

/// What a file is: its kind and mode, and its bytes or where it leads.
pub(crate) type Entry = (String, Vec<u8>);

/// Everything below a folder.
pub(crate) fn snapshot(folder: &Path) -> BTreeMap<PathBuf, Entry> {
    let mut found = BTreeMap::new();
    walk(folder, folder, &mut found);
    found
}

fn walk(root: &Path, folder: &Path, found: &mut BTreeMap<PathBuf, Entry>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let about = fs::symlink_metadata(&path).unwrap();
        let kind = format!("{:?} {:?}", about.file_type(), about.permissions());
        let bytes = if about.is_symlink() {
            fs::read_link(&path)
                .unwrap()
                .into_os_string()
                .into_encoded_bytes()
        } else if about.is_dir() {
            walk(root, &path, found);
            Vec::new()
        } else {
            fs::read(&path).unwrap()
        };
        found.insert(path.strip_prefix(root).unwrap().to_owned(), (kind, bytes));
    }
}

/// A folder with everything that the tables name.
pub(crate) struct Folder(Place);

impl Folder {
    /// Makes the files, those of the command with the command.
    pub(crate) fn new() -> Self {
        let place = Place::new();
        let train = "train --data t.csv --schema s.toml --max-steps 3 --threads 1 --quiet";
        place.ok(&format!(
            "{train} --out o --ledger l.json --budget 2 --budget-delta 1e-5 --delta 1e-5 --epsilon 0.5 --checkpoint c.json"
        ));
        fs::copy(place.path("l.json"), place.path("older.json")).unwrap();
        place.ok(&format!(
            "{train} --out o --force --ledger l.json --delta 1e-5 --epsilon 0.5 --checkpoint c.json"
        ));
        place.ok(&format!(
            "{train} --label c --out o9 --ledger l9.json --budget 2 --budget-delta 1e-5 --delta 1e-5 --checkpoint c9.json"
        ));
        place.ok(&format!(
            "{train} --out of --ledger full.json --budget 1 --budget-delta 1e-5 --delta 1e-5 --epsilon 0.999"
        ));
        place.ok(&format!(
            "{train} --out or --ledger rdp.json --budget 3 --budget-delta 1e-5 --delta 1e-5 --budget-filter rdp"
        ));
        place.ok("convert t.csv --schema s.toml --out t.dpr");
        tables(&place);
        schemas(&place);
        arrays(&place);
        models(&place);
        ledgers(&place);
        events(&place);
        fs::create_dir(place.path("dir")).unwrap();
        fs::create_dir_all(place.path("taken/model.json")).unwrap();
        fs::create_dir(place.path("full")).unwrap();
        place.put("full/notes.txt", "mine\n");
        place.put("notes.txt", "mine\n");
        let folder = Self(place);
        folder.links();
        folder
    }

    pub(crate) fn kept(&self) -> &Path {
        self.0.kept()
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.root()
    }

    /// The same in another folder; links are made anew, since copies would not be links.
    pub(crate) fn copy(&self) -> Self {
        let copy = Self(Place::new());
        for (name, (_, bytes)) in snapshot(self.path()) {
            let (from, to) = (self.path().join(&name), copy.path().join(&name));
            if LINKS.iter().any(|(link, ..)| Path::new(link) == name) {
                continue;
            }
            if from.is_dir() {
                fs::create_dir_all(&to).unwrap();
            } else {
                fs::write(&to, bytes).unwrap();
            }
        }
        copy.links();
        copy
    }

    #[cfg(unix)]
    fn links(&self) {
        for (link, target, hard) in LINKS {
            let link = self.path().join(link);
            if hard {
                fs::hard_link(self.path().join(target), &link).unwrap();
            } else {
                std::os::unix::fs::symlink(target, &link).unwrap();
            }
        }
    }

    #[cfg(not(unix))]
    fn links(&self) {}
}

/// Names, what they lead to, and whether as a second name of the same file.
const LINKS: [(&str, &str, bool); 6] = [
    ("hard.csv", "t.csv", true),
    ("hard.toml", "s.toml", true),
    ("soft.json", "l.json", false),
    ("folder", "dir", false),
    ("dangling", "nowhere", false),
    ("loop", "loop", false),
];

fn put(place: &Place, name: &str, bytes: &[u8]) {
    fs::write(place.path(name), bytes).unwrap();
}

fn tables(place: &Place) {
    let table = place.read("t.csv");
    let gz = {
        use std::io::Write as _;
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(table.as_bytes()).unwrap();
        packed.finish().unwrap()
    };
    put(place, "t.csv.gz", &gz);
    put(place, "cut.csv.gz", &gz[..gz.len() - 20]);
    put(place, "stub.csv.gz", &gz[..6]);
    put(place, "empty.csv", b"");
    put(place, "header.csv", b"x,c,y\n");
    put(place, "blank.csv", b"\n\n\n");
    put(place, "semicolon.csv", table.replace(',', ";").as_bytes());
    put(place, "tab.tsv", table.replace(',', "\t").as_bytes());
    put(place, "bar.csv", table.replace(',', "|").as_bytes());
    put(place, "twice.csv", b"x,c,y,x\n1,a,no,2\n");
    put(place, "quote.csv", b"x,\"c,y\n1,a,no\n");
    put(place, "latin.csv", b"x,c,y,gr\xf6\xdfe\n1,a,no,1\n");
    put(place, "few.csv", b"x,c,y\n1,a,no\n2,b,yes\n");
    put(place, "more.csv", b"x,c,y,z,w\n1,a,no,1,2\n");
    put(place, "fewer.csv", b"x,c\n1,a\n");
    put(place, "parquet.csv", b"PAR1\x15\x04\x15\x10PAR1");
    put(place, "npy.csv", b"\x93NUMPY\x01\x00");
    put(place, "sheet.csv", b"PK\x03\x04\x14\x00\x06\x00");
    put(place, "zstd.csv", b"\x28\xb5\x2f\xfd\x04\x00");
    put(place, "bzip.csv", b"BZh91AY&SY");
    put(place, "xz.csv", b"\xfd7zXZ\x00\x00");
    put(place, "utf16.csv", b"\xff\xfex\x00,\x00y\x00\n\x00");
    put(place, "t.parquet", b"PAR1 and nothing else PAR1");
    put(place, "new\nline.csv", b"");
}

const LABEL: &str = "values = [\"no\", \"yes\"]\npositive = \"yes\"\ndefault = \"no\"";

/// Shares of the cells of the small table but the first, as if they were known from elsewhere.
const OTHERS: [(&str, &str, f64); 3] = [("yes", "a", 0.12), ("no", "b", 0.18), ("yes", "b", 0.15)];

fn with_shares(schema: &str, first: f64, others: &[(&str, &str, f64)]) -> String {
    let mut text = schema.to_owned();
    for (y, c, share) in [("no", "a", first)].iter().chain(others) {
        let of = format!("{{ y = \"{y}\", c = \"{c}\" }}");
        text += &format!("\n[[share]]\nof = {of}\nshare = {share:?}\n");
    }
    text
}

/// A label that is a number.
fn range(min: &str, max: &str, default: &str) -> String {
    format!("kind = \"number\"\nmin = {min}\nmax = {max}\ndefault = {default}")
}

fn schemas(place: &Place) {
    let schema = place.read("s.toml");
    for (name, old, new) in [
        ("huge.toml", "row_norm = 2.0", "row_norm = 1e300"),
        ("zero.toml", "row_norm = 2.0", "row_norm = 0.0"),
        ("negative.toml", "row_norm = 2.0", "row_norm = -1.0"),
        ("nan.toml", "row_norm = 2.0", "row_norm = nan"),
        ("infinite.toml", "row_norm = 2.0", "row_norm = inf"),
        ("other.toml", "row_norm = 2.0", "row_norm = 3.0"),
        ("later.toml", "format = 1", "format = 2"),
        ("intercept.toml", "intercept = 1.0", "intercept = -1.0"),
        ("three.toml", r#"["no", "yes"]"#, r#"["no", "yes", "so"]"#),
        ("one.toml", r#"["no", "yes"]"#, r#"["no"]"#),
        ("same.toml", r#"["no", "yes"]"#, r#"["no", "no"]"#),
        ("positive.toml", r#"positive = "yes""#, r#"positive = "so""#),
        ("default.toml", r#"default = "no""#, r#"default = "so""#),
        ("range.toml", "max = 10.0", "max = -1.0"),
        ("wide.toml", "max = 10.0", "max = inf"),
        ("kind.toml", "kind = \"number\"", "kind = \"nubmer\""),
        ("column.toml", "name = \"x\"", "name = \"z\""),
        ("label.toml", "column = \"y\"", "column = \"why\""),
        ("twice.toml", "name = \"c\"", "name = \"x\""),
        ("key.toml", "min = 0.0", "minimum = 0.0"),
        ("text.toml", "min = 0.0", "min = \"zero\""),
        (
            "bins.toml",
            "default = 0.0",
            "default = 0.0\nbins = [4.0, 3.0]",
        ),
        ("edge.toml", "default = 0.0", "default = 0.0\nbins = [11.0]"),
        ("outside.toml", "default = 0.0", "default = 11.0"),
        ("scale.toml", "default = 0.0", "default = 0.0\nscale = -1.0"),
        ("values.toml", r#"["a", "b"]"#, "[]"),
        ("transform.toml", "\"linear\"", "\"sqrt\""),
        ("number.toml", LABEL, &range("0.0", "200.0", "100.0")),
        ("counts.toml", LABEL, &range("0.0", "20.0", "0.0")),
        ("counts-below.toml", LABEL, &range("-5.0", "20.0", "0.25")),
        ("counts-above.toml", LABEL, &range("1.0", "20.0", "2.0")),
        ("counts-half.toml", LABEL, &range("0.0", "20.5", "0.25")),
        ("counts-small.toml", LABEL, &range("0.0", "0.5", "0.25")),
        (
            "classes.toml",
            LABEL,
            "values = [\"no\", \"yes\", \"odd\"]\ndefault = \"no\"",
        ),
    ] {
        assert!(schema.contains(old), "{old}");
        place.put(name, &schema.replacen(old, new, 1));
    }
    for (name, first, others) in [
        ("shares.toml", 0.55, &OTHERS[..]),
        ("shares-sum.toml", 0.8, &OTHERS),
        ("shares-zero.toml", 0.0, &OTHERS),
        ("shares-one.toml", 0.8, &[("yes", "a", 0.2)]),
    ] {
        place.put(name, &with_shares(&schema, first, others));
    }
    let (head, _) = schema.split_once("[[column]]").unwrap();
    let head = head.replace("intercept = 1.0", "intercept = 0.0\nignore_unlisted = true");
    place.put("nothing.toml", &head);
    place.put("draft.toml", &format!("draft = true\n{schema}"));
    place.put("drafty.toml", &format!("draft = \"no\"\n{schema}"));
    place.ok("convert t.csv --schema draft.toml --out draft.dpr");
    place.put("empty.toml", "");
    place.put("cut.toml", &schema[..schema.len() / 2]);
    put(place, "latin.toml", b"format = 1 # gr\xf6\xdfe\n");
    let array = "format = 1\nrow_norm = 2.0\nintercept = 0.0\n[label]\ncolumn = \"label\"\nvalues = [\"0\", \"1\"]\n\
                 positive = \"1\"\ndefault = \"0\"\n[array]\ncolumns = 2\nscale = 1.0\n";
    place.put("array.toml", array);
    place.put("array3.toml", &array.replace("columns = 2", "columns = 3"));
    place.put("array0.toml", &array.replace("columns = 2", "columns = 0"));
    place.put(
        "arrays.toml",
        &array.replace("columns = 2", "columns = 99999999"),
    );
}

/// An array of NumPy, version 1.
fn npy(about: &str, bytes: &[u8]) -> Vec<u8> {
    let mut text = about.to_owned();
    while !(11 + text.len()).is_multiple_of(64) {
        text.push(' ');
    }
    text.push('\n');
    let length = u16::try_from(text.len()).unwrap().to_le_bytes();
    [b"\x93NUMPY\x01\x00", &length[..], text.as_bytes(), bytes].concat()
}

fn arrays(place: &Place) {
    let rows: Vec<u8> = (0..40)
        .flat_map(|i| (i as f32 / 40.0).to_le_bytes())
        .collect();
    let labels: Vec<u8> = (0..20u8).map(|i| i % 2).collect();
    let of = |kind: &str, order: &str, shape: &str| {
        format!("{{'descr': '{kind}', 'fortran_order': {order}, 'shape': ({shape}), }}")
    };
    let x = npy(&of("<f4", "False", "20, 2"), &rows);
    put(place, "x.npy", &x);
    put(place, "y.npy", &npy(&of("|u1", "False", "20,"), &labels));
    put(
        place,
        "y19.npy",
        &npy(&of("|u1", "False", "19,"), &labels[..19]),
    );
    put(place, "wide.npy", &npy(&of("<f4", "False", "10, 4"), &rows));
    put(place, "cut.npy", &x[..x.len() - 4]);
    put(place, "long.npy", &[&x[..], b"1234"].concat());
    put(place, "stub.npy", &x[..9]);
    put(
        place,
        "fortran.npy",
        &npy(&of("<f4", "True", "20, 2"), &rows),
    );
    put(
        place,
        "object.npy",
        &npy(&of("|O", "False", "20, 2"), &rows),
    );
    put(
        place,
        "vast.npy",
        &npy(&of("<f4", "False", "99999999999999999999, 2"), &rows),
    );
    put(
        place,
        "broad.npy",
        &npy(&of("<f4", "False", "1, 99999999"), &rows),
    );
    put(place, "syntax.npy", &npy("{'descr': <f4}", &rows));
    put(place, "v9.npy", b"\x93NUMPY\x09\x00\x01\x00\n");
    put(
        place,
        "x.idx",
        &[&[0u8, 0, 8, 2, 0, 0, 0, 20, 0, 0, 0, 2][..], &[7; 40]].concat(),
    );
    put(
        place,
        "y.idx",
        &[&[0u8, 0, 8, 1, 0, 0, 0, 20][..], &labels].concat(),
    );
    put(place, "cut.idx", &[0u8, 0, 8, 2, 0, 0, 0, 20, 0, 0]);
    put(place, "magic.idx", &[1u8, 2, 3, 4, 5, 6, 7, 8]);
    place.put("t.svm", "1 1:0.5 2:0.25\n0 1:0.125\n");
    let whole = fs::read(place.path("t.dpr")).unwrap();
    put(place, "cut.dpr", &whole[..whole.len() - 5]);
    put(place, "stub.dpr", &whole[..20]);
    put(place, "no.dpr", b"x,c,y\n");
    let mut newer = whole;
    newer[8] = 9;
    put(place, "newer.dpr", &newer);
}

fn models(place: &Place) {
    let model = place.read("o/model.json");
    for (name, old, new) in [
        ("m-format.json", "dpopt-model-1", "dpopt-model-9"),
        ("m-feature.json", "\"feature\": \"x\"", "\"feature\": \"z\""),
        ("m-solver.json", "\"noisy-gd\"", "\"wishful\""),
        ("m-delta.json", "\"delta\": ", "\"delta\": -"),
        ("m-schema.json", "\"a\",", ""),
    ] {
        assert!(model.contains(old), "{old}");
        place.put(name, &model.replacen(old, new, 1));
    }
    let (before, after) = model.rsplit_once("\"weight\": ").unwrap();
    let after = after.trim_start_matches(|c: char| !c.is_whitespace());
    place.put("m-nan.json", &format!("{before}\"weight\": NaN{after}"));
    place.put("m-cut.json", &model[..model.len() / 2]);
    place.put("m-empty.json", "");
    place.put("m-list.json", "[1, 2]\n");
}

fn ledgers(place: &Place) {
    let ledger = place.read("l.json");
    let (first, rest) = ledger.split_once('\n').unwrap();
    place.put(
        "edited.json",
        &format!(
            "{first}\n{}",
            rest.replacen("\"cost\":0.", "\"cost\":0.0", 1)
        ),
    );
    place.put("swapped.json", &format!("{rest}{first}\n"));
    place.put("headless.json", rest);
    place.put("noise.json", &format!("{ledger}garbage\n{{}}\n"));
    place.put("l-empty.json", "");
    put(place, "binary.json", &[0, 159, 146, 150, 10, 0, 0, 10]);
    let checkpoint = place.read("c.json");
    place.put(
        "c-edited.json",
        &checkpoint.replacen("\"step\":", "\"step\":1", 1),
    );
    place.put("c-cut.json", &checkpoint[..checkpoint.len() / 2]);
    place.put("c-empty.json", "");
}

fn events(place: &Place) {
    let gaussian = r#"{"class_name": "GaussianDpEvent", "noise_multiplier": 1.0}"#;
    for (name, text) in [
        ("e.json", gaussian.to_owned()),
        ("e-cut.json", gaussian[..30].to_owned()),
        (
            "e-unknown.json",
            gaussian.replace("GaussianDpEvent", "WishfulDpEvent"),
        ),
        ("e-negative.json", gaussian.replace("1.0", "-1.0")),
        ("e-text.json", gaussian.replace("1.0", "\"one\"")),
        (
            "e-missing.json",
            r#"{"class_name": "GaussianDpEvent"}"#.to_owned(),
        ),
        (
            "e-both.json",
            format!(r#"{{"event": {gaussian}, "events": [{gaussian}]}}"#),
        ),
        (
            "e-twice.json",
            gaussian.replace("1.0", "1.0, \"noise_multiplier\": 9.0"),
        ),
        (
            "e-list.json",
            format!("[{gaussian}, {{\"class_name\": 1}}]"),
        ),
        ("e-number.json", "7".to_owned()),
        (
            "e-mixture.json",
            gaussian.replace("GaussianDpEvent", "MixtureOfGaussiansDpEvent"),
        ),
        (
            "e-unprotected.json",
            r#"{"class_name": "NonPrivateDpEvent"}"#.to_owned(),
        ),
        (
            "e-zero.json",
            format!("[{gaussian}, {}]", gaussian.replace("1.0", "0")),
        ),
        ("e-object.json", "{}".to_owned()),
        ("e-empty.json", String::new()),
        (
            "e-count.json",
            format!(r#"{{"class_name": "SelfComposedDpEvent", "event": {gaussian}, "count": -3}}"#),
        ),
        (
            "e-rate.json",
            format!(
                r#"{{"class_name": "PoissonSampledDpEvent", "event": {gaussian}, "sampling_probability": 2.0}}"#
            ),
        ),
        (
            "e-delta.json",
            format!(r#"{{"event": {gaussian}, "delta": 2.0}}"#),
        ),
        (
            "e-adjacency.json",
            format!(r#"{{"event": {gaussian}, "delta": 1e-5, "adjacency": "friends"}}"#),
        ),
        (
            "e-under.json",
            format!(r#"{{"event": {gaussian}, "delta": 1e-5, "adjacency": "add-remove"}}"#),
        ),
    ] {
        place.put(name, &text);
    }
}
