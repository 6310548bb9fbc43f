"""Certificates of trained models, against gradients and Hessians of NumPy. Tests of laws state their false alarm rate."""

import dpopt
import numpy as np
import pytest
from dpopt import PrivateClassifier, PrivateRegressor

BUDGET = dict(epsilon=2.0, delta=1e-6)


def records(n=20_000, d=3, seed=4):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, d))
    return X, np.where(X @ np.array([2.0, -1.0, 0.5])[:d] + 0.3 * rng.normal(size=n) > 0, "yes", "no")


def fitted(n=20_000, **settings):
    X, y = records(n)
    model = PrivateClassifier(**{**BUDGET, "bounds": (-1, 1), "row_norm": 2.0, "classes": ["no", "yes"], "threads": 1, **settings})
    return X, y, model.fit(X, y)


def exact(X, y, model):
    """The norm of the mean gradient, and the least eigenvalue of the mean Hessian, of the logistic loss."""
    rows = np.column_stack([X, np.ones(len(X))])
    w = np.append(model.coef_[0], model.intercept_)
    p = 1 / (1 + np.exp(-rows @ w))
    gradient = ((p - (y == "yes"))[:, None] * rows).mean(axis=0)
    hessian = (rows * (p * (1 - p))[:, None]).T @ rows / len(X)
    return np.linalg.norm(gradient), np.linalg.eigvalsh(hessian)[0]


def test_intervals_hold_what_they_are_about():
    X, y, model = fitted(4000, max_steps=20)
    norm, least = exact(X, y, model)
    missed = 0
    for _ in range(100):
        found = model.certify(X, y, epsilon=1.0, delta=1e-6, failure=0.1)
        assert found.certified is None and found.targets is None and found.failure == 0.1
        (low, high), (below, above) = found.gradient_norm, found.least_eigenvalue
        # Wide enough for the noise, and not wider than what is known without a release.
        assert 0.0 <= low <= high < 0.2 and -0.5 < below <= above < 0.5
        missed += not (low <= norm <= high)
        missed += not (below <= least <= above)
    # At most 10 % of each: 20 of 200, with a standard deviation of 4.3. False alarms below 1e-5.
    assert missed <= 40
    assert 0.99 < found.guarantee.epsilon <= 1.0 and "gradient norm" in str(found)


def test_targets_are_certified_where_they_are_met():
    X, y, model = fitted(max_steps=20)
    norm, least = exact(X, y, model)
    met = model.certify(X, y, epsilon=5.0, delta=1e-6, gradient=2 * norm + 0.05, curvature=0.1)
    assert met.certified and met.least_eigenvalue[0] >= -0.1 and str(met).startswith("certified")
    missed = model.certify(X, y, epsilon=5.0, delta=1e-6, gradient=norm / 4 + 1e-4, curvature=0.1)
    assert not missed.certified and missed.least_eigenvalue is None and "no proof of the opposite" in str(missed)


def test_regressors_and_schemas_have_certificates_too():
    rng = np.random.default_rng(5)
    X = rng.uniform(-1, 1, size=(5000, 2))
    y = 3.0 * X[:, 0] + rng.normal(size=5000)
    model = PrivateRegressor(**BUDGET, bounds=(-1, 1), label_bounds=(-6, 6), loss="welsch", solver="noisy-gd", max_steps=20, threads=1).fit(X, y)
    found = model.certify(X, y, epsilon=1.0, delta=1e-6)
    assert found.gradient_norm[0] <= found.gradient_norm[1]
    schema = """
format = 1
row_norm = 1.5
intercept = 1.0
[label]
column = "late"
values = ["no", "yes"]
positive = "yes"
default = "no"
[[column]]
name = "distance"
kind = "number"
min = 0.0
max = 100.0
default = 20.0
"""
    table = {"distance": list(rng.uniform(0, 100, size=3000)), "late": ["yes", "no"] * 1500}
    model = PrivateClassifier(**BUDGET, schema=schema, max_steps=20, threads=1).fit(table)
    assert model.certify(table, epsilon=1.0, delta=1e-6).gradient_norm[1] > 0
    with pytest.raises(dpopt.DPUserError, match="no y"):
        model.certify(table, ["yes"] * 3000, epsilon=1.0, delta=1e-6)


def test_a_ledger_pays_for_certificates(tmp_path):
    ledger = dpopt.Ledger(tmp_path / "books.jsonl", epsilon=3.0, delta=1e-6, adjacency="replace-one")
    X, y, model = fitted(4000, epsilon=1.5, ledger=ledger)
    model.certify(X, y, epsilon=1.0, delta=1e-6, ledger=ledger)
    with pytest.raises(dpopt.BudgetError):
        model.certify(X, y, epsilon=2.9, delta=1e-6, ledger=ledger)


def test_what_was_paid_is_not_lost_with_a_ledger_that_cannot_be_written(monkeypatch):
    X, y, model = fitted(4000)
    release = dpopt._certify._dpopt.certify

    class Unwritten:
        @staticmethod
        def certify(*asked):
            return {**release(*asked), "unsettled": "no space left on device"}

    monkeypatch.setattr(dpopt._certify, "_dpopt", Unwritten)
    with pytest.warns(RuntimeWarning, match="set aside: no space left"):
        found = model.certify(X, y, epsilon=1.0, delta=1e-6)
    assert found.gradient_norm[1] > 0


@pytest.mark.parametrize(
    ("made", "asked", "error", "said"),
    [
        (dict(hidden=(4,)), {}, dpopt.DPUserError, "perceptron"),
        (dict(loss="hinge"), {}, dpopt.DPUserError, "second derivative"),
        ({}, dict(gradient=0.1), dpopt.DPUserError, "or none of both"),
        ({}, dict(failure=0.0), dpopt.PlanError, "failure"),
        ({}, dict(epsilon=1e-4), dpopt.PlanError, None),
        ({}, dict(epsilon=float("nan")), dpopt.DPUserError, None),
    ],
)
def test_what_has_no_certificate_is_refused_and_costs_nothing(tmp_path, made, asked, error, said):
    X, y, model = fitted(2000, max_steps=5, **made)
    ledger = dpopt.Ledger(tmp_path / "books.jsonl", epsilon=3.0, delta=1e-6, adjacency="replace-one")
    before = ledger.report_json()
    with pytest.raises(error, match=said):
        model.certify(X, y, **{**dict(epsilon=1.0, delta=1e-6, ledger=ledger), **asked})
    assert ledger.report_json() == before


def test_of_other_records_only_the_shape_matters():
    X, y, model = fitted(2000)
    with pytest.raises(dpopt.DPUserError, match="features"):
        model.certify(X[:, :2], y, epsilon=1.0, delta=1e-6)
    # NaN and infinity are enforced, as when it was fitted.
    X[::3] = np.nan
    X[1::3] = np.inf
    assert np.isfinite(model.certify(X, y, epsilon=1.0, delta=1e-6).gradient_norm).all()
    with pytest.raises(ValueError):
        PrivateClassifier(**BUDGET, bounds=(-1, 1), classes=["no", "yes"]).certify(X, y, epsilon=1.0, delta=1e-6)


def test_bounds_that_were_read_off_the_records_are_said_of_the_certificate():
    X, y, model = fitted(2000, max_steps=5)
    assert model.certify(X, y, epsilon=1.0, delta=1e-6).rests_on == ()
    with pytest.warns(UserWarning, match="read off"):
        model = PrivateClassifier(**BUDGET, bounds_from_data=True, max_steps=5).fit(X, y)
    found = model.certify(X, y, epsilon=1.0, delta=1e-6)
    assert len(found.rests_on) == 1 and "bounds" in found.rests_on[0] and "rests on" in str(found)
