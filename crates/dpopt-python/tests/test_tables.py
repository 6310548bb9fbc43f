"""Estimators: what they reach, what they promise, what they refuse. Noise is real, so thresholds leave room (stated beside them)."""

import pickle

import dpopt
import numpy as np
import pytest
from dpopt import Event, PrivateClassifier, PrivateGroupDRO, PrivateMLPClassifier, PrivateRegressor
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

BUDGET = dict(epsilon=1.0, delta=1e-6)
UNIT = dict(bounds=(-1.0, 1.0))


def records(n=4000, d=5, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.uniform(-1, 1, (n, d))
    scores = rows @ rng.normal(size=(d, classes)) * 3 + rng.gumbel(size=(n, classes))
    return rows, scores.argmax(axis=1)


def test_a_classifier_ranks_nearly_as_well_as_one_without_privacy():
    rows, labels = records()
    test, truth = records(seed=0, n=8000)[0][4000:], records(seed=0, n=8000)[1][4000:]
    plain = LogisticRegression().fit(rows, labels)
    model = PrivateClassifier(**BUDGET, **UNIT, classes=[0, 1]).fit(rows, labels)
    # Noise of 4,000 records at epsilon 1 costs about .005 here.
    assert roc_auc_score(truth, model.decision_function(test)) > roc_auc_score(truth, plain.decision_function(test)) - 0.04
    assert model.guarantee_.epsilon <= 1.0 and model.guarantee_.delta == 1e-6
    assert model.guarantee_.epsilon == dpopt.epsilon(model.event_, delta=1e-6, adjacency="replace-one")
    assert model.rests_on_ == []
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


def test_what_is_no_number_is_enforced_and_silent():
    rows, labels = records()
    rows[0], rows[1], rows[2] = np.nan, np.inf, 1e300
    for public in [UNIT, dict(row_norm=2.0)]:
        model = PrivateClassifier(**BUDGET, **public, classes=[0, 1]).fit(rows, labels)
        assert np.isfinite(model.coef_).all()
        assert np.isfinite(model.decision_function(rows)).all()
    odd = labels.astype(float)
    odd[:3] = [np.nan, np.inf, 17]
    PrivateClassifier(**BUDGET, **UNIT, classes=[0, 1]).fit(rows, odd)
    PrivateRegressor(**BUDGET, **UNIT, label_bounds=(0, 1)).fit(rows, odd)


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


def test_a_ledger_pays_until_it_is_used_up(tmp_path):
    rows, labels = records(n=500)
    path = tmp_path / "ledger.jsonl"
    ledger = dpopt.Ledger(path, epsilon=1.5, delta=1e-5, adjacency="replace-one")
    fit = lambda **of: PrivateClassifier(**{**BUDGET, **of}, **UNIT, classes=[0, 1], max_steps=5, ledger=ledger).fit(rows, labels)  # noqa: E731
    fit()
    with pytest.raises(dpopt.BudgetError):
        fit()
        fit()
    with pytest.raises(dpopt.BudgetError):
        fit(adjacency="zero-out")
    with pytest.raises(dpopt.DPUserError, match="all three"):
        dpopt.Ledger(path, epsilon=1.5)
    with pytest.raises(dpopt.BudgetError):
        dpopt.Ledger(tmp_path / "none.jsonl")
    assert "budget" in ledger.report_json() or "epsilon" in ledger.report_json()


def test_an_interrupt_stops_after_the_step_and_keeps_the_books(tmp_path):
    rows, labels = records(n=500)
    ledger = dpopt.Ledger(tmp_path / "ledger.jsonl", epsilon=1.5, delta=1e-5, adjacency="replace-one")
    seen = []

    def stop(step, steps):
        seen.append((step, steps))
        if step == 3:
            raise KeyboardInterrupt

    model = PrivateClassifier(**BUDGET, **UNIT, classes=[0, 1], ledger=ledger, progress=stop)
    with pytest.raises(KeyboardInterrupt):
        model.fit(rows, labels)
    assert [step for step, _ in seen] == [0, 1, 2, 3]
    # What four steps cost stays charged, and the rest came back.
    report = ledger.report_json()
    assert "settle" in report.lower() or "Settle" in report


def test_searches_are_refused():
    rows, labels = records(n=200)
    model = PrivateClassifier(**BUDGET, **UNIT, classes=[0, 1])
    with pytest.raises(ValueError, match="tune"):
        GridSearchCV(model, {"max_steps": [1, 2]}, error_score="raise").fit(rows, labels)


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
    assert model.group_weights_[0] > 0.5 and model.group_weights_.sum() == pytest.approx(1)
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
