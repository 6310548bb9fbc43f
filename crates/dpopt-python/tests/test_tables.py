"""Estimators: what they reach, what they promise, what they refuse. Noise is real, so thresholds leave room (stated beside them)."""

import json
import pickle
import warnings

import dpopt
import numpy as np
import pytest
from dpopt import Event, PrivateClassifier, PrivateGroupDRO, PrivateMLPClassifier, PrivateRanker, PrivateRegressor
from scipy import sparse
from dpopt import _values
from sklearn.base import clone
from dpopt._base import FromDataWarning
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.decomposition import PCA
from sklearn.ensemble import BaggingClassifier
from sklearn.feature_selection import RFECV
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

BUDGET = dict(epsilon=1.0, delta=1e-6)
UNIT = dict(bounds=(-1.0, 1.0))


def records(n=4000, d=5, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.uniform(-1, 1, (n, d))
    scores = rows @ rng.normal(size=(d, classes)) * 3 + rng.gumbel(size=(n, classes))
    return rows, scores.argmax(axis=1)


def test_a_classifier_ranks_nearly_as_well_as_one_without_privacy():
    rows, labels = records(n=8000)
    (rows, test), (labels, truth) = np.split(rows, 2), np.split(labels, 2)
    plain = LogisticRegression().fit(rows, labels)
    model = PrivateClassifier(**BUDGET, **UNIT, classes=[0, 1]).fit(rows, labels)
    # Noise of 4,000 records at epsilon 1 costs about .005 here.
    assert roc_auc_score(truth, model.decision_function(test)) > roc_auc_score(truth, plain.decision_function(test)) - 0.04
    assert model.guarantee_.epsilon <= 1.0 and model.guarantee_.delta == 1e-6
    assert model.guarantee_.epsilon == dpopt.epsilon(model.event_, delta=1e-6, adjacency="replace-one")
    assert model.rests_on_ == [] and model.predict(test[:0]).shape == (0,)
    probability = model.predict_proba(test)
    assert np.allclose(probability.sum(axis=1), 1) and np.array_equal(probability.argmax(axis=1), model.predict(test))


@pytest.mark.parametrize("classes", [["no", "yes"], ["a", "b", "c"]])
def test_classes_may_be_words(classes):
    rows, labels = records(classes=len(classes))
    model = PrivateClassifier(epsilon=8.0, delta=1e-6, **UNIT, classes=classes).fit(rows, np.array(classes)[labels])
    assert list(model.classes_) == classes
    assert np.mean(model.predict(rows) == np.array(classes)[labels]) > 1.3 / len(classes)
    assert model.coef_.shape == (1 if len(classes) == 2 else 3, 5)


def test_a_perceptron_learns_what_a_line_can_not():
    rng = np.random.default_rng(1)
    rows = rng.uniform(-1, 1, (6000, 2))
    labels = (rows[:, 0] * rows[:, 1] > 0).astype(int)
    model = PrivateMLPClassifier(epsilon=8.0, delta=1e-6, **UNIT, classes=[0, 1], hidden=(16,), max_steps=400).fit(rows, labels)
    assert model.plan_["solver"] == "dp-sgd" and model.plan_["bound"] is None
    # A line is right for half of them.
    assert np.mean(model.predict(rows) == labels) > 0.7


def test_a_regressor_finds_a_line():
    rng = np.random.default_rng(2)
    rows = rng.uniform(-1, 1, (6000, 3))
    y = 5 + rows @ [3.0, -2.0, 1.0] + rng.normal(size=6000) * 0.2
    model = PrivateRegressor(epsilon=3.0, delta=1e-6, **UNIT, label_bounds=(-2, 12)).fit(rows, y)
    assert model.score(rows, y) > 0.8


def test_all_layouts_are_the_same_records():
    rows, labels = records(n=2000)
    wide = np.zeros((2000, 10))
    wide[:, ::2] = rows
    layouts = [rows, np.asfortranarray(rows), wide[:, ::2], rows[::-1][::-1], rows.astype(np.float32)]
    pandas = pytest.importorskip("pandas")
    layouts.append(pandas.DataFrame(rows))
    # Where the noise is below all digits that are compared, runs agree.
    fit = lambda rows: PrivateClassifier(epsilon=1e5, delta=1e-2, **UNIT, classes=[0, 1], max_steps=30).fit(rows, labels).coef_  # noqa: E731
    first = fit(rows)
    for other in layouts[1:]:
        assert np.allclose(first, fit(other), atol=0.02)


def test_sparse_rows_are_rows():
    rows, labels = records(n=2000)
    rows[rows < 0] = 0
    compressed = sparse.csr_matrix(rows)
    compressed.indices = compressed.indices[:]
    of = dict(epsilon=1e5, delta=1e-2, row_norm=2.0, classes=[0, 1], max_steps=30)
    dense = PrivateClassifier(**of).fit(rows, labels)
    thin = PrivateClassifier(**of).fit(compressed, labels)
    assert np.allclose(dense.coef_, thin.coef_, atol=0.02)
    assert np.allclose(dense.decision_function(rows), dense.decision_function(compressed), atol=1e-5)
    backwards = sparse.csr_matrix((compressed.data[::-1], compressed.indices[::-1], compressed.indptr), shape=rows.shape)
    PrivateClassifier(**of).fit(backwards, labels)


@pytest.mark.filterwarnings("error")
def test_what_is_no_number_is_enforced_and_silent():
    rows, labels = records(n=1000)
    rows[0], rows[1], rows[2] = np.nan, np.inf, 1e300
    few = dict(**BUDGET, max_steps=5)
    for public in [UNIT, dict(row_norm=2.0)]:
        model = PrivateClassifier(**few, **public, classes=[0, 1]).fit(rows, labels)
        assert np.isfinite(model.coef_).all()
        assert np.isfinite(model.decision_function(rows)).all()
    PrivateClassifier(**few, row_norm=2.0, classes=[0, 1]).fit(sparse.csr_matrix(rows), labels)
    odd = labels.astype(float)
    odd[:4] = [np.nan, np.inf, 17, 1e308]
    PrivateClassifier(**few, **UNIT, classes=[0, 1]).fit(rows, odd)
    PrivateRegressor(**few, **UNIT, label_bounds=(0, 1)).fit(rows, odd)


ODD = ["x", None, float("nan"), 10**400, 1j, {}, [1], np.datetime64("2020-01-01"), b"yes", 0.5]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("odd", ODD, ids=lambda odd: type(odd).__name__)
@pytest.mark.parametrize("classes", [[0, 1], ["no", "yes"], [2**60 + 1, 2**60 + 2]], ids=["numbers", "words", "long"])
def test_one_odd_record_changes_no_other(odd, classes):
    # The targets that records get are the first thing that could tell.
    values = [classes[i % 2] for i in range(20)]
    # Objects are of any type, and no type of a number.
    for made in [list] if classes[0] != "no" else [list, lambda values: np.array(values + [None], dtype=object)[:-1]]:
        found = _values.places(made(values[:-1] + [odd]), classes, "labels")
        assert found.tolist() == [i % 2 for i in range(19)] + [0]
    numbers = [float(i) for i in range(19)]
    found = _values.numbers(numbers + [odd], "labels")
    assert found.dtype == np.float64 and found[:-1].tolist() == numbers


def test_frames_with_missing_values_are_taken():
    pandas = pytest.importorskip("pandas")
    rows, labels = records(n=200)
    frame = pandas.DataFrame({"a": pandas.array([1, None] * 100, dtype="Int64"), "b": rows[:, 0]})
    words = pandas.Series(["no", None] * 100, dtype="string")
    PrivateClassifier(**BUDGET, bounds=(0, 2), classes=["no", "yes"], max_steps=2).fit(frame, words)
    PrivateClassifier(**BUDGET, bounds=(0, 2), classes=["no", "yes"], max_steps=2).fit(frame, words.astype("category"))


def frames():
    """Columns by type: how one of n records is made, and whether it is one of numbers."""
    pandas = pytest.importorskip("pandas")
    return {
        "truths": (lambda n: [True, False] * (n // 2), True),
        "whole": (lambda n: list(range(n)), True),
        "nullable whole": (lambda n: pandas.array([1, None] * (n // 2), dtype="Int64"), True),
        "nullable truths": (lambda n: pandas.array([True, None] * (n // 2), dtype="boolean"), True),
        "category of numbers": (lambda n: pandas.Categorical([1, 2] * (n // 2)), True),
        "texts": (lambda n: ["a", "b"] * (n // 2), False),
        "objects": (lambda n: pandas.Series([1.0, "b"] * (n // 2), dtype=object), False),
        "category": (lambda n: pandas.Categorical(["a", "b"] * (n // 2)), False),
        "times": (lambda n: pandas.date_range("2020-01-01", periods=n), False),
        "times with a zone": (lambda n: pandas.date_range("2020-01-01", periods=n, tz="Asia/Tokyo"), False),
        "durations": (lambda n: pandas.to_timedelta(range(n), unit="D"), False),
        "complex": (lambda n: [1j] * n, False),
    }


@pytest.mark.parametrize("kind", frames())
def test_a_column_that_is_not_of_numbers_is_refused_by_its_name(kind):
    pandas = pytest.importorskip("pandas")
    made, taken = frames()[kind]
    rows, labels = records(n=100)
    frame = pandas.DataFrame({"first": rows[:, 0], "odd one": made(100)})
    model = PrivateClassifier(**BUDGET, bounds=(0, 2), classes=[0, 1], max_steps=2)
    if taken:
        assert model.fit(frame, labels).predict(frame).shape == (100,)
        return
    for refused in [lambda: model.fit(frame, labels), lambda: model.fit(frame[["first"]], labels).predict(frame[["odd one"]].rename(columns={"odd one": "first"}))]:
        with pytest.raises(dpopt.DPUserError, match="the column '(odd one|first)' of X is of"):
            refused()
    if kind != "complex":
        # The label of a regressor, and an array of the same objects.
        with pytest.raises(dpopt.DPUserError, match="not numbers"):
            PrivateRegressor(**BUDGET, bounds=(0, 2), label_bounds=(0, 1), max_steps=2).fit(frame[["first"]], frame["odd one"])
        with pytest.raises(dpopt.DPUserError, match="not numbers"):
            model.fit(frame.to_numpy(dtype=object), labels)


@pytest.mark.parametrize("classes", [[0, 1], ["no", "yes"]], ids=["numbers", "words"])
def test_labels_of_another_type_than_the_classes_are_refused(classes):
    pandas = pytest.importorskip("pandas")
    rows, labels = records(n=100)
    words, numbers = np.array(["no", "yes"])[labels], labels
    of_words = [words, words.astype(object), pandas.Series(words), pandas.Series(words, dtype="string"), pandas.Series(words).astype("category")]
    of_numbers = [numbers, numbers.astype(float), numbers > 0, pandas.Series(numbers, dtype="Int64"), pandas.Series(numbers).astype("category")]
    neither = [words.astype("S"), pandas.Series(pandas.date_range("2020-01-01", periods=100)), numbers.astype("m8[s]")]
    model = PrivateClassifier(**BUDGET, **UNIT, classes=classes, max_steps=2)
    right, wrong = (of_numbers, of_words) if classes == [0, 1] else (of_words, of_numbers)
    for taken in right:
        targets = model._targets(taken, classes)
        assert np.array_equal(targets > 0, labels == 1)
        model.fit(rows, taken)
    for refused in wrong + neither:
        with pytest.raises(dpopt.DPUserError, match="labels of .* are none of the"):
            model.fit(rows, refused)
    shares = {(group, label): 0.25 for group in classes for label in (0, 1)}
    of_groups = PrivateGroupDRO(**BUDGET, **UNIT, classes=[0, 1], groups=classes, shares=shares, max_steps=2)
    with pytest.raises(dpopt.DPUserError, match="groups of .* are none of the"):
        of_groups.fit(rows, labels, wrong[0])


@pytest.mark.parametrize("made", ["classifier", "regressor", "groups", "ranker"])
def test_columns_are_those_of_the_fit(made):
    pandas = pytest.importorskip("pandas")
    rows, labels = records(n=200, d=3)
    few, more = dict(**BUDGET, **UNIT, max_steps=2), ()
    if made == "groups":
        more, shares = (labels,), {(group, label): 0.25 for group in (0, 1) for label in (0, 1)}
        model = PrivateGroupDRO(**few, classes=[0, 1], groups=[0, 1], shares=shares)
    else:
        model = {
            "classifier": PrivateClassifier(**few, classes=[0, 1]),
            "regressor": PrivateRegressor(**few, label_bounds=(0, 1)),
            "ranker": PrivateRanker(**few, classes=[0, 1], positive_share=0.5),
        }[made]
    frame = pandas.DataFrame(rows, columns=["a", "b", "c"])
    model.fit(frame, labels, *more)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"] and model.n_features_in_ == 3
    model.predict(frame)
    for other in [frame[["b", "a", "c"]], frame.rename(columns={"a": "z"}), frame[["a", "b"]]]:
        # The words are scikit-learn's own.
        with pytest.raises(ValueError) as theirs:
            LogisticRegression().fit(frame, labels).predict(other)
        with pytest.raises(ValueError) as ours:
            model.predict(other)
        assert str(ours.value) == str(theirs.value)
    with pytest.warns(UserWarning, match="does not have valid feature names, but Private.* was fitted with feature names"):
        model.predict(rows)
    model.fit(rows, labels, *more)
    assert not hasattr(model, "feature_names_in_")
    with pytest.warns(UserWarning, match="was fitted without feature names"):
        model.predict(frame)
    if hasattr(model, "certify") and made == "classifier":
        model.fit(frame, labels)
        with pytest.raises(ValueError, match="same order"):
            model.certify(frame[["b", "a", "c"]], labels, epsilon=1.0, delta=1e-6)


def test_odd_layouts_are_the_same_numbers():
    rows, _ = records(n=50)
    packed = np.zeros(50, dtype=[("a", "u1"), ("b", "f8", (5,))])
    packed["b"] = rows
    for same in [rows.astype(">f8"), rows.astype(np.longdouble), packed["b"], np.asfortranarray(rows), rows.tolist()]:
        found = _values.numbers(same, "rows")
        assert np.array_equal(found, rows) and found.flags.aligned and found.dtype.isnative
    masked = np.ma.MaskedArray(rows, mask=rows > 0)
    assert np.array_equal(np.isnan(_values.numbers(masked, "rows")), rows > 0)


def test_sparse_rows_need_no_flags():
    rows, labels = records(n=100)
    thin = sparse.csr_matrix(rows)
    assert thin.has_canonical_format
    thin.indices[:2] = thin.indices[:2][::-1].copy()
    thin.data[:2] = thin.data[:2][::-1].copy()
    of = dict(epsilon=1e5, delta=1e-2, row_norm=2.0, classes=[0, 1], max_steps=2)
    model = PrivateClassifier(**of).fit(thin, labels)
    assert np.allclose(model.decision_function(thin), model.decision_function(rows), atol=1e-5)
    # A column that is not there: the row is zeros, and nobody is told.
    thin.indices[0] = 77
    assert model.decision_function(thin)[0] == 0.0


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        (dict(epsilon=None), "epsilon="),
        (dict(delta=None), "delta="),
        (dict(bounds=None), "bounds="),
        (dict(classes=None), "classes="),
        (dict(bounds=(1.0, -1.0)), "below the second"),
        (dict(bounds=(-1.0, np.inf)), "finite"),
        (dict(epsilon=-1.0), "epsilon"),
        (dict(delta=2.0), "delta"),
        (dict(adjacency="bounded"), "replace-one"),
        (dict(solver="sgd"), "dp-sgd"),
        (dict(loss="cross-entropy"), "losses"),
        (dict(loss="softmax"), "logistic"),
        (dict(classes=[0, 0]), "twice"),
        (dict(classes=[0, "a"]), "all words"),
        (dict(classes=[0.0, np.nan]), "all numbers"),
        (dict(classes=["0", "1"]), "none of the words"),
        (dict(classes=5), "list"),
        (dict(bounds=5), "bounds"),
        (dict(bounds=([0.0], [1.0, 2.0])), "5 columns"),
        (dict(hidden=(2.7,)), "hidden"),
        (dict(hidden=5), "hidden"),
        (dict(max_steps=0), "max_steps"),
        (dict(threads=0), "threads"),
        (dict(records=-1), "records"),
        (dict(epsilon="1.0"), "epsilon"),
        (dict(intercept=np.nan), "intercept"),
        (dict(activation="x"), "relu"),
        (dict(solver=None), "solver"),
        (dict(progress=3), "progress"),
        (dict(row_norm=-2.0), "-2"),
        (dict(adjacency="add-remove"), "records="),
        (dict(hidden=(8,), solver="spiderboost"), "Lipschitz"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_charged(tmp_path, settings, match):
    rows, labels = records(n=200)
    ledger = dpopt.Ledger(tmp_path / "ledger.jsonl", epsilon=5.0, delta=1e-5, adjacency="replace-one")
    before = (tmp_path / "ledger.jsonl").read_bytes()
    model = PrivateClassifier(**{**BUDGET, **UNIT, "classes": [0, 1], "ledger": ledger, **settings})
    with pytest.raises(dpopt.DPUserError, match=match):
        model.fit(rows, labels)
    assert (tmp_path / "ledger.jsonl").read_bytes() == before


def spent(ledger):
    return json.loads(ledger.report_json())


def test_a_ledger_pays_until_it_is_used_up(tmp_path):
    rows, labels = records(n=500)
    path = tmp_path / "ledger.jsonl"
    ledger = dpopt.Ledger(path, epsilon=1.5, delta=1e-5, adjacency="replace-one")
    fit = lambda **of: PrivateClassifier(**{**BUDGET, **of}, **UNIT, classes=[0, 1], max_steps=5, ledger=ledger).fit(rows, labels)  # noqa: E731
    with pytest.raises(dpopt.BudgetError):
        fit(adjacency="zero-out")
    fit()
    # Runs at (1, 1e-6) are .2367-GDP, and (1.5, 1e-5) is .3872-GDP: 2.68 of them, by the sum of squares.
    fit()
    with pytest.raises(dpopt.BudgetError):
        fit()
    fit(epsilon=0.3)
    assert len(spent(ledger)["runs"]) == 3
    with pytest.raises(dpopt.DPUserError, match="all three"):
        dpopt.Ledger(path, epsilon=1.5)
    with pytest.raises(dpopt.BudgetError):
        dpopt.Ledger(tmp_path / "none.jsonl")


def test_a_ledger_says_what_its_filter_refuses(tmp_path):
    terms = dict(epsilon=2.0, delta=1e-5, adjacency="replace-one")
    with pytest.warns(UserWarning, match='refuses samples.*filter="rdp"'):
        ledger = dpopt.Ledger(tmp_path / "default.jsonl", **terms)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # It is there, with a filter that was chosen or accepted.
        dpopt.Ledger(tmp_path / "default.jsonl", **terms)
        sampled = dpopt.Ledger(tmp_path / "rdp.jsonl", **terms, filter="rdp")
        dpopt.Ledger(tmp_path / "rdp.jsonl", **terms)
    rows, labels = records(n=500)
    of = dict(epsilon=0.5, delta=1e-6, adjacency="replace-one")
    steps = lambda ledger: dpopt.PrivateSteps(records=500, dim=2, clip=1.0, steps=3, sampling_rate=0.1, **of, ledger=ledger)  # noqa: E731
    perceptron = PrivateMLPClassifier(**of, **UNIT, classes=[0, 1], max_steps=3, ledger=ledger)
    for run in (lambda: steps(ledger), lambda: perceptron.fit(rows, labels)):
        with pytest.raises(dpopt.BudgetError, match="filter rdp takes it"):
            run()
    assert spent(ledger)["runs"] == []
    steps(sampled).settle()


def test_a_run_on_another_number_of_records_is_warned_of(tmp_path):
    ledger = dpopt.Ledger(tmp_path / "ledger.jsonl", epsilon=2.0, delta=1e-5, adjacency="replace-one", filter="gdp")
    model = PrivateClassifier(epsilon=0.2, delta=1e-6, **UNIT, classes=[0, 1], max_steps=3, ledger=ledger)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(*records(n=500))
        model.fit(*records(n=500))
    with pytest.warns(UserWarning, match="run 1 of this ledger was on 500 records, and this run is on 400"):
        model.fit(*records(n=400))
    assert [run["records"] for run in spent(ledger)["runs"]] == [500, 500, 400]
    with warnings.catch_warnings(), pytest.raises(UserWarning):
        warnings.simplefilter("error")
        model.fit(*records(n=300))
    # It came before anything was charged.
    assert len(spent(ledger)["runs"]) == 3


def test_a_model_that_is_paid_is_not_lost_with_its_ledger(tmp_path):
    rows, labels = records(n=500)
    path = tmp_path / "ledger.jsonl"
    ledger = dpopt.Ledger(path, epsilon=1.5, delta=1e-5, adjacency="replace-one")

    def goes_away(step, steps):
        if step == steps - 1 and path.is_file():
            path.unlink()
            path.mkdir()

    model = PrivateClassifier(**BUDGET, **UNIT, classes=[0, 1], max_steps=5, ledger=ledger, progress=goes_away)
    with pytest.warns(RuntimeWarning, match="all that was set aside"):
        model.fit(rows, labels)
    assert model.steps_ > 0 and len(model.predict(rows)) == 500


def test_a_ledger_is_the_same_one_everywhere(tmp_path, monkeypatch):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    rows, labels = records(n=100)
    monkeypatch.chdir(tmp_path / "a")
    ledger = dpopt.Ledger("l.jsonl", epsilon=1.5, delta=1e-5, adjacency="replace-one")
    monkeypatch.chdir(tmp_path / "b")
    model = PrivateClassifier(**BUDGET, **UNIT, classes=[0, 1], max_steps=2, ledger=ledger)
    clone(make_pipeline(FunctionTransformer(), model)).fit(rows, labels)
    assert len(spent(ledger)["runs"]) == 1 and not (tmp_path / "b" / "l.jsonl").exists()
    assert pickle.loads(pickle.dumps(ledger)).path == ledger.path


def test_an_interrupt_stops_after_the_step_and_keeps_the_books(tmp_path):
    rows, labels = records(n=500)
    ledger = dpopt.Ledger(tmp_path / "ledger.jsonl", epsilon=1.5, delta=1e-5, adjacency="replace-one")
    seen = []

    def stop(step, steps):
        seen.append((step, steps))
        if step == 3:
            raise KeyboardInterrupt

    model = PrivateClassifier(**BUDGET, **UNIT, classes=[0, 1], ledger=ledger)
    before = model.fit(rows, labels).predict(rows)
    model.set_params(progress=stop, classes=[1, 0], bounds=(0, 100), epsilon=0.3, max_steps=400)
    with pytest.raises(KeyboardInterrupt):
        model.fit(rows, labels)
    assert [step for step, _ in seen] == [0, 1, 2, 3]
    # What was released stays charged, and the rest came back.
    run = spent(ledger)["runs"][-1]
    assert 0 < run["cost"] <= run["reserved_cost"] * 4.5 / seen[0][1]
    # The model is the one before.
    assert np.array_equal(model.predict(rows), before) and model.guarantee_.epsilon > 0.9


def test_what_trains_several_times_is_refused():
    rows, labels = records(n=200)
    model = PrivateClassifier(**BUDGET, **UNIT, classes=[0, 1], max_steps=2)
    for search in [
        lambda: GridSearchCV(model, {"max_steps": [1, 2]}, error_score="raise").fit(rows, labels),
        lambda: cross_val_score(model, rows, labels, error_score="raise"),
        lambda: cross_val_predict(model, rows, labels, cv=3),
        lambda: RFECV(model, cv=2).fit(rows, labels),
        lambda: CalibratedClassifierCV(model, cv=2).fit(rows, labels),
        lambda: BaggingClassifier(model, n_estimators=2).fit(rows, labels),
    ]:
        with pytest.raises(dpopt.DPUserError, match="tune"):
            search()


def scaled(steps, model):
    rows, labels = records(n=300)
    return make_pipeline(*steps, model).fit(rows, labels)[-1]


def test_what_a_pipeline_learns_is_said():
    model = PrivateClassifier(**BUDGET, row_norm=2.0, classes=[0, 1], max_steps=2)
    columns = ColumnTransformer([("scale", StandardScaler(), [0, 1])], remainder="passthrough")
    for steps, names in [
        ([StandardScaler()], ["standardscaler"]),
        ([columns], ["columntransformer"]),
        ([FunctionTransformer(np.tanh), make_pipeline(StandardScaler(), PCA(2))], ["functiontransformer", "pipeline"]),
    ]:
        with pytest.warns(FromDataWarning, match=", ".join(names)):
            fitted = scaled(steps, model)
        (said,) = fitted.rests_on_
        assert all(name in said for name in names) and "read off the records" in said
    # A pipeline in a pipeline names the steps of both.
    with pytest.warns(FromDataWarning, match="standardscaler, pca"):
        scaled([StandardScaler()], make_pipeline(PCA(2), model))
    with pytest.warns(FromDataWarning, match="standardscaler"):
        scaled([StandardScaler()], PrivateRegressor(**BUDGET, row_norm=2.0, label_bounds=(0, 1), max_steps=2))
    # A certificate rests on the same.
    with pytest.warns(FromDataWarning):
        fitted = scaled([StandardScaler()], model)
    rows, labels = records(n=300)
    assert "standardscaler" in str(fitted.certify(rows, labels, epsilon=1.0, delta=1e-6))


@pytest.mark.filterwarnings("error")
def test_a_warning_of_a_pipeline_comes_before_the_charge(tmp_path):
    rows, labels = records(n=300)
    ledger = dpopt.Ledger(tmp_path / "ledger.jsonl", epsilon=5.0, delta=1e-5, adjacency="replace-one", filter="gdp")
    model = PrivateClassifier(**BUDGET, row_norm=2.0, classes=[0, 1], max_steps=2, ledger=ledger)
    with pytest.raises(FromDataWarning):
        make_pipeline(StandardScaler(), model).fit(rows, labels)
    assert spent(ledger)["runs"] == []
    # Records that nothing was done to rest on nothing, in a pipeline too.
    assert make_pipeline(model).fit(rows, labels)[-1].rests_on_ == [] and model.fit(rows, labels).rests_on_ == []


def test_labels_that_are_learned_of_are_refused():
    rows, labels = records(n=300)
    model = PrivateRegressor(**BUDGET, **UNIT, label_bounds=(0, 1), max_steps=2)
    with pytest.raises(dpopt.DPUserError, match="sklearn.compose"):
        TransformedTargetRegressor(model, transformer=StandardScaler()).fit(rows, labels)


def test_class_weights_are_those_of_the_command():
    """The first step from the origin is along the sum of a(y) (y - 1/2) (x, 1), the logistic loss's gradient there."""
    rng = np.random.default_rng(4)
    rows = rng.uniform(-1, 1, (3000, 2))
    positive = rows[:, 0] + rng.normal(size=3000) > 1
    labels = np.where(positive, "yes", "no")
    clear = dict(epsilon=1e5, delta=1e-2, **UNIT, row_norm=2.0, classes=["no", "yes"])
    for weights, (of_no, of_yes) in [(None, (1, 1)), ({"yes": 3}, (1, 3)), ({"no": 0.2, "yes": 7}, (0.2, 7))]:
        step = PrivateClassifier(**clear, max_steps=1, solver="noisy-gd", class_weights=weights).fit(rows, labels)
        found = np.append(step.coef_[0], step.intercept_)
        wanted = (np.where(positive, of_yes, -of_no)[:, None] * np.column_stack([rows, np.ones(3000)])).mean(axis=0)
        assert np.allclose(found / np.linalg.norm(found), wanted / np.linalg.norm(wanted), atol=1e-3)
    plain, weighted = (PrivateClassifier(**clear, class_weights=of).fit(rows, labels) for of in (None, {"yes": 3}))
    assert weighted.intercept_[0] > plain.intercept_[0] + 0.5
    # The clip is that of the loss times the largest weight, and the plan is the run's.
    planned = weighted.plan(records=3000, features=2)
    assert planned["clip"] == pytest.approx(3 * plain.plan_["clip"]) and planned["event"] == weighted.event_
    # A certificate is of weighted losses: their gradient is small at the point of their own fit.
    of = dict(epsilon=100.0, delta=1e-3)
    assert weighted.certify(rows, labels, **of).gradient_norm[1] < 0.1
    weighted._fitted["weights"] = plain._fitted["weights"]
    assert weighted.certify(rows, labels, **of).gradient_norm[0] > 0.1
    three = np.array(["a", "b", "c"])[np.digitize(rows[:, 0], [-0.3, 0.3])]
    several = {**clear, "classes": ["a", "b", "c"], "max_steps": 50}
    shares = [np.mean(PrivateClassifier(**several, class_weights=of).fit(rows, three).predict(rows) == "b") for of in (None, {"b": 10})]
    assert shares[1] > shares[0] + 0.1
    network = PrivateMLPClassifier(**BUDGET, **UNIT, classes=["no", "yes"], hidden=(4,), max_steps=2, class_weights={"no": 0.5})
    assert network.fit(rows, labels).predict(rows).shape == (3000,)


@pytest.mark.parametrize(
    ("weights", "match"),
    [
        ("balanced", "count"),
        ({"maybe": 2}, "'maybe'.*'no', 'yes'"),
        ({"yes": 0}, "1e-6|0.000001|between"),
        ({"yes": float("nan")}, "between"),
        ({"yes": "5"}, "number"),
        (5, "class: weight"),
        ([1, 2], "class: weight"),
    ],
)
def test_class_weights_that_are_wrong_are_said(weights, match):
    rows, labels = records(n=100)
    model = PrivateClassifier(**BUDGET, **UNIT, classes=["no", "yes"], class_weights=weights)
    with pytest.raises(dpopt.DPUserError, match=match):
        model.fit(rows, np.array(["no", "yes"])[labels])
    with pytest.raises(dpopt.DPUserError, match=match):
        model.plan(records=1000, features=5)


def test_it_fits_into_scikit_learn():
    rows, labels = records(n=500)
    model = PrivateClassifier(**BUDGET, **UNIT, classes=[0, 1], max_steps=5)
    assert clone(model).get_params() == model.get_params()
    pipe = make_pipeline(FunctionTransformer(np.tanh), model).fit(rows, labels)
    assert pipe.predict(rows).shape == (500,)
    fitted = clone(model).fit(rows, labels)
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.decision_function(rows), fitted.decision_function(rows))
    assert again.event_ == fitted.event_ and isinstance(again.event_, Event)


def test_bounds_from_data_label_the_guarantee():
    rows, labels = records(n=500)
    model = PrivateClassifier(**BUDGET, bounds_from_data=True, max_steps=5)
    with pytest.warns(UserWarning, match="read off the records"):
        model.fit(rows, labels)
    assert "classes and bounds" in model.rests_on_[0]


def test_a_plan_reads_nothing():
    plan = PrivateClassifier(**BUDGET, **UNIT, classes=[0, 1]).plan(records=100_000, features=20)
    assert plan["solver"] in dpopt.solvers() and plan["passes"] >= 1 and plan["dim"] == 21
    with pytest.raises(dpopt.PlanError):
        PrivateClassifier(**BUDGET, **UNIT, classes=[0, 1], solver="spiderboost").plan(records=10, features=20)


def unfair(n=8000):
    """One record in ten is of a group for which the first column tells the opposite."""
    rng = np.random.default_rng(3)
    rows = rng.uniform(-1, 1, (n, 2))
    groups = np.where(rng.uniform(size=n) < 0.1, "few", "many")
    score = np.where(groups == "few", -rows[:, 0] + 2 * rows[:, 1], rows[:, 0] + 0.3 * rows[:, 1])
    return rows, (score + rng.normal(size=n) * 0.1 > 0).astype(int), groups


def test_the_worst_group_is_served_better():
    rows, labels, groups = unfair()
    shares = {("few", 0): 0.05, ("few", 1): 0.05, ("many", 0): 0.45, ("many", 1): 0.45}
    public = dict(epsilon=3.0, delta=1e-6, **UNIT, classes=[0, 1])
    worst = lambda model: min(np.mean((model.predict(rows) == labels)[groups == group]) for group in ("few", "many"))  # noqa: E731
    plain = worst(PrivateClassifier(**public).fit(rows, labels))
    model = PrivateGroupDRO(**public, groups=["few", "many"], shares=shares, by_class=False).fit(rows, labels, groups)
    # Of the group that one tenth is of, a classifier of the mean is right for about half.
    assert worst(model) > plain + 0.1
    assert model.guarantee_.epsilon <= 3.0 and model.plan_["solver"] == "gda"
    # Far above its share of a tenth.
    assert model.group_weights_[0] > 0.3 and model.group_weights_.sum() == pytest.approx(1)
    assert model.predict_proba(rows).shape == (8000, 2)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        (dict(groups=None), "groups="),
        (dict(groups=["few", "few"]), "twice"),
        (dict(groups=["few", "none"]), "none"),
        (dict(classes=[0, 1, 2]), "classes"),
        (dict(shares={("few", 0): 0.5, ("few", 1): 0.5, ("many", 0): 0.5, ("many", 1): 0.5}), "1"),
        (dict(shares={("few", 0): 0.0, ("few", 1): 0.1, ("many", 0): 0.45, ("many", 1): 0.45}), "share"),
        (dict(objective="fair"), "equal-opportunity"),
        (dict(dual_weight=-1.0), "-1"),
    ],
)
def test_group_settings_that_are_wrong_are_said(settings, match):
    rows, labels, groups = unfair(100)
    shares = {("few", 0): 0.05, ("few", 1): 0.05, ("many", 0): 0.45, ("many", 1): 0.45}
    of = {**BUDGET, **UNIT, "classes": [0, 1], "groups": ["few", "many"], "shares": shares, **settings}
    with pytest.raises(dpopt.DPUserError, match=match):
        PrivateGroupDRO(**of).fit(rows, labels, groups)


def test_a_ranking_of_few_positives():
    rng = np.random.default_rng(5)
    rows = rng.uniform(-1, 1, (20_000, 3))
    # About 3 % are positive, and two columns tell them.
    labels = (rows[:, 0] + rows[:, 1] + rng.normal(size=len(rows)) * 0.3 > 1.4).astype(int)
    of = dict(epsilon=3.0, delta=1e-6, **UNIT, classes=[0, 1], positive_share=0.03)
    model = PrivateRanker(**of).fit(rows, labels)
    # The order of the best linear score, and what noise may take from it.
    best = roc_auc_score(labels, rows[:, 0] + rows[:, 1])
    assert roc_auc_score(labels, model.decision_function(rows)) > best - 0.03
    assert np.array_equal(model.predict(rows), model.decision_function(rows)) and not hasattr(model, "predict_proba")
    assert model.guarantee_.epsilon <= 3.0 and model.plan_["solver"] == "gda"
    # Weights of columns and constant are those of the score; two means and a number are left out.
    assert model.coef_.shape == (1, 3)
    planned = PrivateRanker(**of).plan(records=20_000, features=3)
    assert planned["steps"] == model.plan_["steps"] and planned["event"] == model.event_


def test_a_plan_for_groups_is_that_of_its_fit():
    rows, labels, groups = unfair(2000)
    shares = {("few", 0): 0.05, ("few", 1): 0.05, ("many", 0): 0.45, ("many", 1): 0.45}
    model = PrivateGroupDRO(**BUDGET, **UNIT, classes=[0, 1], groups=["few", "many"], shares=shares, max_steps=10)
    planned = model.plan(records=2000, features=2)
    assert planned["event"] == model.fit(rows, labels, groups).event_
    with pytest.raises(dpopt.DPUserError, match="features="):
        model.plan(records=2000)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        (dict(positive_share=None), "positive_share="),
        (dict(positive_share=0.0), "0.0"),
        (dict(positive_share=float("nan")), "positive_share"),
        (dict(classes=None), "classes="),
        (dict(classes=[0, 1, 2]), "3 classes"),
    ],
)
def test_ranking_settings_that_are_wrong_are_said(settings, match):
    rows, labels = records(100)
    of = {**BUDGET, **UNIT, "classes": [0, 1], "positive_share": 0.5, **settings}
    with pytest.raises(dpopt.DPUserError, match=match):
        PrivateRanker(**of).fit(rows, labels)
