"""What is warned of before anything is charged, by public numbers alone, and what only records show."""

import warnings

import dpopt
import numpy as np
import pytest
from dpopt import PrivateClassifier, PrivateGroupDRO, PrivateRanker, PrivateRegressor, PrivateSteps, WeakGuaranteeWarning

X = np.random.default_rng(4).uniform(-1, 1, size=(50, 3))
Y = np.where(X[:, 0] > 0, "yes", "no")
CLASSES = dict(bounds=(-1, 1), classes=["no", "yes"], max_steps=2)
SHARES = {(group, label): 0.25 for group in "ab" for label in ("no", "yes")}


def steps(ledger, **budget):
    PrivateSteps(records=50, dim=3, clip=1.0, steps=2, adjacency="replace-one", ledger=ledger, **budget)


def groups(ledger, **budget):
    return PrivateGroupDRO(groups=["a", "b"], shares=SHARES, ledger=ledger, **CLASSES, **budget)


# Each way of Python's to name a budget for 50 records, and whether it pays.
WAYS = {
    "steps": (steps, True),
    "classifier": (lambda ledger, **budget: PrivateClassifier(ledger=ledger, **CLASSES, **budget).fit(X, Y), True),
    "regressor": (lambda ledger, **budget: PrivateRegressor(bounds=(-1, 1), label_bounds=(-1, 1), max_steps=2, ledger=ledger, **budget).fit(X, X[:, 0]), True),
    "groups": (lambda ledger, **budget: groups(ledger, **budget).fit(X, Y, groups=np.where(X[:, 1] > 0, "a", "b")), True),
    "ranker": (lambda ledger, **budget: PrivateRanker(positive_share=0.5, ledger=ledger, **CLASSES, **budget).fit(X, Y), True),
    "plan": (lambda _, **budget: PrivateClassifier(**CLASSES, **budget).plan(records=50, features=3), False),
    "plan of groups": (lambda _, **budget: groups(None, **budget).plan(records=50, features=3), False),
    "certificate": (lambda ledger, **budget: FITTED.certify(X, Y, ledger=ledger, **budget), True),
}
FITTED = PrivateClassifier(epsilon=1.0, delta=1e-3, **CLASSES).fit(X, Y)


def said(way, ledger=None, **budget):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        way(ledger, **budget)
    return [str(one.message) for one in found if one.category is WeakGuaranteeWarning]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("epsilon", "delta", "named"),
    # One over 50 records is .02.
    [(10.0, 0.0199, []), (10.01, 0.0199, ["epsilon 10.01"]), (1.0, 0.02, ["delta 2e-2"]), (11.0, 0.5, ["epsilon 11", "delta 5e-1"])],
)
def test_a_weak_budget_is_warned_of_wherever_one_is_named(way, epsilon, delta, named):
    found = said(WAYS[way][0], epsilon=epsilon, delta=delta)
    assert len(found) == len(named) and all(one.startswith(name) for one, name in zip(found, named)), found


@pytest.mark.parametrize("way", [name for name, (_, pays) in WAYS.items() if pays])
def test_the_warning_comes_before_the_payment(way, tmp_path):
    ledger = dpopt.Ledger(tmp_path / "ledger.jsonl", epsilon=30.0, delta=0.6, adjacency="replace-one", filter="gdp")
    with warnings.catch_warnings():
        warnings.simplefilter("error", WeakGuaranteeWarning)
        with pytest.raises(WeakGuaranteeWarning):
            WAYS[way][0](ledger, epsilon=11.0, delta=1e-3)
    # Nothing was reserved: a run of the whole budget fits.
    PrivateSteps(records=50, dim=1, clip=1.0, steps=1, adjacency="replace-one", epsilon=29.9, delta=0.6, ledger=ledger)


@pytest.mark.parametrize(
    ("noise", "settings", "weak"),
    [
        (1e-6, {}, True),
        (1e-6, dict(sampling_rate=0.1, adjacency="zero-out"), True),
        (1e-6, dict(steps=None, epochs=2, batch_size=10), True),
        # mu is 2 sqrt(2) / z, whose epsilon at delta 1/51 is 3.3 at z = 2 and 20 at z = .6.
        (2.0, {}, False),
        (0.6, {}, True),
        (1.0, dict(delta=1e-3, sampling_rate=0.01, adjacency="zero-out"), False),
    ],
)
def test_a_noise_multiplier_that_hides_next_to_nothing_is_warned_of(noise, settings, weak):
    def way(_):
        PrivateSteps(**{**dict(records=50, dim=3, clip=1.0, steps=2, adjacency="replace-one", noise_multiplier=noise), **settings})

    found = said(way)
    assert len(found) == weak and all(f"noise_multiplier={noise:g} at delta" in one for one in found), found


def test_a_secret_number_of_records_is_not_warned_by():
    for records in (30, 50, 70):
        model = PrivateClassifier(epsilon=1.0, delta=0.02, adjacency="add-remove", records=40, **CLASSES)
        assert said(lambda _: model.fit(np.resize(X, (records, 3)), np.resize(Y, records))) == []


SCHEMA = """
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
[[column]]
name = "by"
kind = "category"
values = ["bicycle", "bus"]
"""


def test_what_only_the_records_show_is_found_by_a_check_that_says_it_is_not_private(tmp_path):
    model = PrivateClassifier(bounds=(-1, 1), classes=["no", "yes"])
    clean = model.check_not_private(X, Y)
    # Rows of three numbers and a constant 1 are all longer than .8.
    assert clean.records == clean.shortened == 50 and not clean.counts and "foresee" in str(clean)
    rows = X.copy()
    rows[:4, 1], rows[7, 2] = 5.0, np.nan
    odd = model.check_not_private(rows, np.char.capitalize(Y))
    assert odd.counts[("of no class in the list, counts as 'no'", "labels")] == 50
    assert odd.counts[("out of bounds, cut", "column 1")] == 4
    assert odd.counts[("not a number, counts as the middle", "column 2")] == 1
    assert "NOT PRIVATE" in str(odd) and "'Yes'" in str(odd)
    # Numbers, and rows without bounds.
    model = PrivateClassifier(row_norm=1.0, intercept=0.0, classes=[0, 1])
    labels = np.where(Y == "yes", 2, 0)
    rows = np.array([[3.0, 4.0], [np.inf, 0.0]] + [[0.6, 0.0]] * 48)
    found = model.check_not_private(rows, labels)
    assert found.shortened == 1
    assert found.counts == {
        ("not finite, counts as zeros", "rows"): 1,
        ("of no class in the list, counts as 0", "labels"): int((labels == 2).sum()),
    }
    odd = PrivateRegressor(bounds=(-1, 1), label_bounds=(0, 1)).check_not_private(X, [2.0, np.nan, *[0.5] * 48]).counts
    assert odd == {("out of label_bounds, cut", "labels"): 1, ("not a number, counts as the middle", "labels"): 1}
    odd = groups(None).check_not_private(X, Y, groups=["a"] * 49 + ["c"]).counts
    assert odd == {("of no group in the list, counts as 'a'", "groups"): 1}


def test_a_schema_is_compared_with_frames_and_files_alike(tmp_path):
    table = {"distance": [1.0, 500.0, np.nan, 3.0], "by": ["bus", "Bus", "bicycle", "bus"], "late": ["No", "yes", "yes", "no"]}
    path = tmp_path / "table.csv"
    lines = zip(["1", "500", "", "3"], table["by"], table["late"])
    path.write_text("distance,by,late\n" + "".join(",".join(line) + "\n" for line in lines))
    model = PrivateClassifier(schema=SCHEMA)
    found, of_file = model.check_not_private(table), model.check_not_private(path)
    assert found.records == of_file.records == 4
    assert found.counts == of_file.counts
    assert found.shortened == of_file.shortened
    assert sorted((where, count) for (_, where), count in found.counts.items()) == [("by", 1), ("distance", 1), ("distance", 1), ("late", 1)]
    assert "No" in str(found) and "Bus" in str(found)
