"""Schemas, frames and files: the same records are the same rows, by whatever way they come."""

import datetime
import decimal
import gzip
import pickle

import dpopt
import numpy as np
import pandas as pd
import pytest
from dpopt import DPUserError, PrivateClassifier, PrivateGroupDRO, PrivateMLPClassifier, PrivateRanker, PrivateRegressor, Schema
from dpopt._frames import table_of, typed

SCHEMA = """
format = 1
row_norm = 1.5
intercept = 1.0
ignore_unlisted = false

[label]
column = "late"
values = ["yes", "no"]
positive = "yes"
default = "no"

[[column]]
name = "distance"
kind = "number"
min = 0.0
max = 100.0
default = 20.0
missing = true

[[column]]
name = "by"
kind = "category"
values = ["bicycle", "bus", "3", "1e300", "0.1", "true"]

[[column]]
name = "day"
kind = "date"
min = "2020-01-01"
max = "2020-12-31"
default = "2020-06-30"

[[column]]
name = "note"
kind = "ignore"
"""
NUMBER = SCHEMA.replace('values = ["yes", "no"]\npositive = "yes"\ndefault = "no"', 'kind = "number"\nmin = 10.0\nmax = 30.0\ndefault = 20.0')
THREE = SCHEMA.replace('values = ["yes", "no"]\npositive = "yes"\n', 'values = ["no", "yes", "maybe"]\n')
BUDGET = dict(epsilon=1.0, delta=1e-6, max_steps=20)
#: A budget that hides nothing.
CLEAR = dict(epsilon=1e5, delta=1e-2, max_steps=50)


def text(value):
    return typed(value)[1]


def commuters(n=400):
    rng = np.random.default_rng(0)
    by = rng.choice(["bicycle", "bus", "train"], n)
    distance = rng.uniform(-10, 110, n).round(2)
    late = np.where(distance + 40 * (by == "bus") > 70, "yes", "no")
    day = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 360, n), unit="D")
    return pd.DataFrame({"distance": distance, "late": late, "by": by, "day": day.strftime("%Y-%m-%d")})


def encoded(data, schema=SCHEMA, labels=False):
    """Rows as a model sees them: outputs of unit weights."""
    schema = Schema(schema)
    width = len(schema.features)
    task = dict(
        loss="logistic", classes=0, hidden=[], activation="relu", seed=0, row_norm=schema.row_norm, label_bound=None, records=None, epsilon=1.0,
        delta=1e-6, adjacency="replace-one", solver="auto", max_steps=None,
    )  # fmt: skip
    return np.column_stack([dpopt._dpopt.outputs(table_of(data, schema, labels), task, unit)[:, 0] for unit in np.eye(width)])


def test_a_schema_says_what_it_is(tmp_path):
    schema = Schema(SCHEMA)
    assert schema.label == "late" and schema.classes == ["no", "yes"] and schema.label_bounds is None
    assert schema.columns == ["distance", "by", "day"] and schema.features[-1] == "(intercept)" and schema.intercept == 1.0
    assert Schema(NUMBER).label_bounds == (10.0, 30.0) and Schema(NUMBER).classes is None
    assert Schema(THREE).classes == ["no", "yes", "maybe"]
    path = tmp_path / "schema.toml"
    path.write_text(SCHEMA)
    assert Schema.load(path) == schema == pickle.loads(pickle.dumps(schema)) == Schema(schema.to_toml())
    assert hash(Schema.load(path)) == hash(schema) and schema != Schema(NUMBER)
    assert "'late'" in repr(schema) or '"late"' in repr(schema)
    with pytest.raises(DPUserError, match="row_norm"):
        Schema("format = 1\n")
    with pytest.raises(DPUserError, match="nowhere"):
        Schema.load(tmp_path / "nowhere.toml")


def test_a_frame_is_its_file(tmp_path):
    frame = commuters()
    frame.loc[3, "distance"] = np.nan
    frame.loc[4, "day"] = None
    frame.loc[5, "by"] = "so-called, by foot"
    path = tmp_path / "commuters.csv"
    frame.to_csv(path, index=False)
    rows = encoded(frame)
    assert rows.shape == (400, len(Schema(SCHEMA).features)) and np.all(np.linalg.norm(rows, axis=1) <= 1.5 + 1e-6)
    assert np.array_equal(rows, encoded(path)) and np.array_equal(rows, encoded(str(path)))
    zipped = tmp_path / "commuters.csv.gz"
    zipped.write_bytes(gzip.compress(path.read_bytes()))
    assert np.array_equal(rows, encoded(zipped))
    # Other types of the same values.
    typed = frame.assign(
        by=frame["by"].astype("category"), day=pd.to_datetime(frame["day"]), distance=frame["distance"].astype("Float64"), late=frame["late"].astype("string")
    )
    assert np.array_equal(rows, encoded(typed)) and np.array_equal(rows, encoded(typed.assign(day=typed["day"].dt.tz_localize("UTC"))))
    assert np.array_equal(rows, encoded(frame.astype(object)))
    assert np.array_equal(rows, encoded({name: frame[name].tolist() for name in ("by", "distance", "day")}))
    assert np.array_equal(rows, encoded(frame[::-1])[::-1]) and np.array_equal(rows, encoded(frame.drop(columns="late")))


#: Columns of types, and the texts that `to_csv` of pandas makes of them, which a draft would list.
TYPED = {
    "truths": (np.array([True, False, False, True]), ["False", "True"]),
    "nullable truths": (pd.array([True, False, None, True], dtype="boolean"), ["False", "True"]),
    "objects": (np.array([True, False, None, True], dtype=object), ["False", "True"]),
    "list": ([True, False, None, True], ["False", "True"]),
    "masked": (np.ma.MaskedArray([True, False, False, True], mask=[False, False, True, False]), ["False", "True"]),
    "categories": (pd.Categorical([True, False, None, True]), ["False", "True"]),
    "floats": (np.array([1.0, 0.0, np.nan, 1.0]), ["0.0", "1.0"]),
    "singles": (np.array([1.0, 0.5, np.nan, 1.0], dtype=np.float32), ["0.5", "1.0"]),
    "nullable floats": (pd.array([1.0, 0.0, None, 1.0], dtype="Float64"), ["0.0", "1.0"]),
    "nullable singles": (pd.array([0.3, 0.1, None, 0.3], dtype="Float32"), ["0.1", "0.3"]),
    "whole": (np.array([1, 0, 0, 1], dtype=np.uint8), ["0", "1"]),
    "nullable whole": (pd.array([1, 0, None, 1], dtype="Int64"), ["0", "1"]),
    "decimals": ([decimal.Decimal("1.50"), decimal.Decimal("0.00"), None, decimal.Decimal("1.50")], ["0.00", "1.50"]),
    "days": (np.array(["2020-02-01", "2020-01-01", "NaT", "2020-02-01"], dtype="M8[s]"), ["2020-01-01", "2020-02-01"]),
    "date objects": ([datetime.date(2020, 2, 1), datetime.date(2020, 1, 1), None, datetime.date(2020, 2, 1)], ["2020-01-01", "2020-02-01"]),
}


@pytest.mark.parametrize("kind", TYPED)
def test_typed_values_are_those_of_their_file(kind, tmp_path):
    values, listed = TYPED[kind]
    quoted = str(listed).replace("'", '"')
    plain = '[[column]]\nname = "x"\nkind = "number"\nmin = 0.0\nmax = 1.0\ndefault = 0.0\n'
    category = SCHEMA.split("[[column]]")[0] + f'[[column]]\nname = "x"\nkind = "category"\nvalues = {quoted}\n'
    of_label = f'format = 1\nrow_norm = 1.5\nintercept = 1.0\n[label]\ncolumn = "late"\nvalues = {quoted}\npositive = "{listed[1]}"\ndefault = "{listed[0]}"\n' + plain
    path = tmp_path / "table.csv"
    pd.DataFrame({"x": pd.Series(values)}).to_csv(path, index=False)
    # By an index of its own a list of objects stays one.
    rows = encoded({"x": values}, category)
    assert np.array_equal(rows, encoded(path, category)) and len(np.unique(rows[:2], axis=0)) == 2
    assert np.array_equal(rows, encoded(pd.DataFrame({"x": values}), category))
    # Labels: half of the records are positive, by what the score is at each of them.
    times = 200
    repeated = np.ma.concatenate([values] * times) if kind == "masked" else pd.concat([pd.Series(values)] * times).array if hasattr(values, "dtype") else values * times
    x = np.array([0.9, 0.1, 0.1, 0.9] * times)
    model = PrivateClassifier(**CLEAR, schema=of_label).fit({"x": x, "late": repeated})
    assert model.predict({"x": x}).tolist() == [listed[1], listed[0], listed[0], listed[1]] * times


def test_a_value_has_one_text_whatever_the_others_are():
    numbers = np.array([0.1, 3.0, 1e300, -0.0, 1.5e-7, 1e17, 99999.5, 1e-5, 123456789.123, 2.0**60, np.nan, np.inf])
    schema = SCHEMA.replace('values = ["bicycle", "bus", "3", "1e300", "0.1", "true"]', "values = %s").replace("'", '"')
    said = [text(value).decode() for value in numbers if value == value]
    schema = schema % str([word for word in said if word != "-0"]).replace("'", '"')
    whole = dict(distance=np.ones(12), day=["2020-01-01"] * 12)
    # One odd value more makes a column of objects.
    rows, objects = encoded({"by": numbers, **whole}, schema), encoded({"by": [*numbers[:-1], "inf"], **whole}, schema)
    assert np.array_equal(rows, objects) and len(np.unique(rows[:10], axis=0)) == 10
    single = numbers[:1].astype(np.float32)
    assert text(single[0]) == b"0.1" and text(np.int8(-3)) == b"-3" and text(True) == b"true" and text(np.bool_(False)) == b"false"
    assert text(decimal.Decimal("1E+2")) == b"100" and text(np.datetime64("2020-02-03T04")) == b"2020-02-03"
    assert text(datetime.date(2020, 2, 3)) == text(datetime.datetime(2020, 2, 3, 4)) == b"2020-02-03"
    assert text(None) is text(float("nan")) is text(pd.NA) is text(pd.NaT) is None and text("\ud800") == b"\xed\xa0\x80" and text(b"\xff") == b"\xff"

    class Odd:
        def __str__(self):
            raise RuntimeError("of one record")

    assert text(Odd()) is None


def test_one_odd_record_changes_no_other():
    frame = commuters(60)
    rows = encoded(frame)
    for name, odd in [("distance", "a word"), ("distance", np.inf), ("by", 3.5), ("by", b"\xff\x00"), ("day", -1), ("day", [1, 2]), ("late", {})]:
        other = frame.astype(object)
        other.at[7, name] = odd
        found = encoded(other, labels=True)
        assert np.array_equal(np.delete(rows, 7, axis=0), np.delete(found, 7, axis=0))


@pytest.mark.parametrize("data", ["frame", "csv"])
def test_training_by_a_schema(data, tmp_path):
    frame = commuters()
    path = tmp_path / "commuters.csv"
    frame.to_csv(path, index=False)
    model = PrivateClassifier(**CLEAR, schema=SCHEMA).fit(frame if data == "frame" else path)
    assert list(model.classes_) == ["no", "yes"] and model.predict(path).tolist() == model.predict(frame).tolist()
    assert (model.predict(frame.drop(columns="late")) == frame["late"]).mean() > 0.85
    assert model.predict_proba(frame).shape == (400, 2)
    assert model.coef_.shape == (1, len(model.features_)) and list(model.feature_names_in_) == ["distance", "by", "day"]
    by_hand = encoded(frame) @ np.append(model.coef_[0], model.intercept_[0] / 1.0)
    assert np.allclose(by_hand, model.decision_function(frame), atol=1e-5)
    again = pickle.loads(pickle.dumps(model))
    assert again.predict(frame).tolist() == model.predict(frame).tolist()


def test_labels_are_those_of_the_schema():
    frame = commuters()
    three = frame.assign(late=np.where(frame["distance"] > 70, "maybe", frame["late"]))
    model = PrivateClassifier(**CLEAR, schema=Schema(THREE)).fit(three)
    assert set(model.predict(three)) <= {"no", "yes", "maybe"} and (model.predict(three) == three["late"]).mean() > 0.6
    number = frame.assign(late=10 + frame["distance"].clip(0, 100) / 5)
    regressor = PrivateRegressor(**CLEAR, schema=NUMBER).fit(number)
    assert np.abs(regressor.predict(number) - number["late"]).mean() < 2.5
    network = PrivateMLPClassifier(**BUDGET, hidden=(4,), schema=SCHEMA).fit(frame)
    assert network.predict(frame).shape == (400,)
    # What the schema does not foresee is its default.
    odd = PrivateClassifier(**CLEAR, schema=SCHEMA).fit(frame.assign(late="neither"))
    assert set(odd.predict(frame)) == {"no"}


def test_what_is_wrong_is_said_before_it_costs(tmp_path):
    ledger = dpopt.Ledger(tmp_path / "ledger.jsonl", epsilon=1.0, delta=1e-6, adjacency="replace-one")
    before = ledger.report_json()
    frame = commuters(50)
    path = tmp_path / "schema.toml"
    path.write_text(NUMBER)
    rows = tmp_path / "rows.npy"
    rows.write_bytes(b"")
    cases = [
        (dict(schema=SCHEMA), (frame.drop(columns="by"),), "by"),
        (dict(schema=SCHEMA), (frame.drop(columns="late"),), "late"),
        (dict(schema=SCHEMA), (frame.assign(more=1),), "more"),
        (dict(schema=SCHEMA), (pd.concat([frame, frame["by"]], axis=1),), "by"),
        (dict(schema=SCHEMA), (frame.rename(columns={"by": 3}),), "words for names"),
        (dict(schema=SCHEMA), (frame[["distance"]].to_numpy(),), "a frame of pandas or polars"),
        (dict(schema=SCHEMA), ({**frame, "by": ["bus"]},), "different lengths"),
        (dict(schema=SCHEMA), ({**frame, "by": np.zeros((50, 2))},), "'by' has one value for each record"),
        (dict(schema=SCHEMA), ({**frame, "by": np.zeros(50, dtype="m8[s]")},), "'by'.*no text"),
        (dict(schema=SCHEMA), (frame.assign(distance=frame["distance"] > 5),), '"distance" holds truth values'),
        (dict(schema=SCHEMA), (frame.assign(distance=(frame["distance"] > 5).astype("boolean")),), '"distance" holds truth values'),
        (dict(schema=SCHEMA), (frame.assign(distance=pd.to_datetime(frame["day"])),), '"distance" holds dates'),
        (dict(schema=SCHEMA), (frame.assign(distance=pd.to_datetime(frame["day"]).dt.tz_localize("Europe/Rome")),), '"distance" holds dates'),
        (dict(schema=SCHEMA), (frame.assign(day=1.5),), '"day" holds numbers'),
        (dict(schema=SCHEMA), (frame.assign(day=pd.array([3] * 50, dtype="Int64")),), '"day" holds whole numbers'),
        (dict(schema=SCHEMA), (frame.assign(late=frame["distance"] > 5),), '"late" holds truth values.*"yes"'),
        (dict(schema=SCHEMA), (frame.assign(late=pd.Categorical([0, 1] * 25)),), '"late" holds whole numbers.*"yes"'),
        (dict(schema=SCHEMA.replace('"3", "1e300", "0.1", "true"', '"train"')), (frame.assign(by=1.0),), '"by" holds numbers.*"bicycle"'),
        (dict(schema=SCHEMA), (frame, frame["late"]), "takes no y"),
        (dict(schema=SCHEMA), (tmp_path / "nowhere.csv",), "nowhere"),
        (dict(schema=SCHEMA), (tmp_path / "nowhere.parquet",), "nowhere"),
        (dict(schema=SCHEMA), (rows,), "npy"),
        (dict(schema="draft = true\n" + SCHEMA), (frame,), "draft"),
        (dict(schema=SCHEMA, bounds=(0, 1)), (frame,), "bounds"),
        (dict(schema=SCHEMA, classes=["yes", "no"]), (frame,), "classes"),
        (dict(schema=str(path)), (frame,), "PrivateRegressor"),
        (dict(schema=3), (frame,), "TOML"),
        (dict(schema=tmp_path / "nowhere.toml"), (frame,), "nowhere"),
        (dict(schema=None, bounds=(0, 1), classes=[0, 1]), (frame,), "y"),
    ]
    for settings, records, said in cases:
        with pytest.raises((dpopt.Error, ValueError), match=said):
            PrivateClassifier(**BUDGET, ledger=ledger, **settings).fit(*records)
    with pytest.raises(DPUserError, match="PrivateClassifier"):
        PrivateRegressor(**BUDGET, ledger=ledger, schema=SCHEMA).fit(frame)
    assert ledger.report_json() == before
    model = PrivateClassifier(**BUDGET, schema=SCHEMA).fit(frame)
    with pytest.raises(dpopt.DataError, match="distance"):
        model.predict(frame.drop(columns="distance"))


def test_plans_are_read_before_any_record():
    model = PrivateClassifier(epsilon=1.0, delta=1e-6, bounds=(0, 1), classes=["<b>no", "yes"])
    plan = model.plan(records=100_000, features=20)
    assert plan["steps"] >= 1 and dict(plan)["solver"] == plan["solver"]
    assert plan.guarantee.epsilon <= 1.0 and plan.guarantee.event == plan["event"]
    for said in ["replace-one", plan["solver"], "noise multiplier", "100,000"]:
        assert said in repr(plan)
    assert pickle.loads(pickle.dumps(plan)).lines() == plan.lines()
    schema = PrivateClassifier(epsilon=1.0, delta=1e-6, schema=SCHEMA)
    assert schema.plan(records=1000)["dim"] == len(Schema(SCHEMA).features)
    for wrong in [dict(records=1000, features=3), dict(records=1000.5)]:
        with pytest.raises(DPUserError):
            schema.plan(**wrong)
    with pytest.raises(DPUserError, match="features="):
        model.plan(records=1000)


def test_a_plan_in_a_notebook_is_a_table_without_a_script():
    from html.parser import HTMLParser

    plan = dpopt.Plan(
        {
            **PrivateClassifier(epsilon=1.0, delta=1e-6, bounds=(0, 1), classes=[0, 1], solver="spiderboost").plan(1000, 2),
            "reason": '<script>alert("x")</script> & <img src=x onerror=y>',
        },
        delta=1e-6, adjacency="replace-one", records=1000,
    )  # fmt: skip
    seen, words = [], []

    class Tags(HTMLParser):
        def handle_starttag(self, tag, attrs):
            seen.append(tag)
            assert {name for name, _ in attrs} <= {"style", "scope"}

        def handle_data(self, data):
            words.append(data)

    page = plan._repr_html_()
    Tags().feed(page)
    assert set(seen) == {"table", "caption", "tr", "th", "td"}
    assert any("<script>" in word for word in words) and any("gradient norm at most" in word for word in words)
    # Colours are the page's: it has none of its own for light or dark.
    assert "#" not in page.replace("&#x27;", "").replace("&#39;", "") and "rgb" not in page


def test_objectives_take_schemas():
    data = commuters(2000)
    groups = np.where(data["distance"] > 60, "far", "near")
    shares = {(group, label): 0.25 for group in ("far", "near") for label in ("yes", "no")}
    of = dict(schema=SCHEMA, **CLEAR)
    for model, more in [
        (PrivateRanker(positive_share=0.4, **of), {}),
        (PrivateGroupDRO(groups=["far", "near"], shares=shares, **of), {"groups": groups}),
    ]:
        planned = model.plan(records=2000)
        model.fit(data, **more)
        assert list(model.classes_) == ["no", "yes"] and model.schema_.label == "late" and planned["event"] == model.event_
        # Positives are above, whatever is first in the list.
        scores = model.decision_function(data.drop(columns="late"))
        assert scores[data["late"] == "yes"].mean() > scores[data["late"] == "no"].mean() + 0.1
        again = pickle.loads(pickle.dumps(model))
        assert np.array_equal(again.decision_function(data), scores)
        with pytest.raises(DPUserError, match="takes no y"):
            model.fit(data, data["late"], **more)
        with pytest.raises(DPUserError, match="bounds"):
            type(model)(**{**model.get_params(), "bounds": (-1, 1)}).fit(data, **more)
        for schema, said in [(NUMBER, "PrivateRegressor"), (THREE, "3 classes")]:
            with pytest.raises(DPUserError, match=said):
                type(model)(**{**model.get_params(), "schema": schema}).fit(data, **more)
    with pytest.raises(DPUserError, match="2000 rows and groups"):
        model.fit(data, groups=groups[:-1])
    with pytest.raises(DPUserError, match="the group of each record"):
        model.fit(data)


def test_the_cell_of_a_record_is_its_class_within_its_group():
    """The same records by arrays and by a schema that does the same have the same plan, and points as close as noise that hides nothing leaves."""
    rng = np.random.default_rng(2)
    rows = rng.uniform(-1, 1, (3000, 2))
    groups = np.where(rng.uniform(size=3000) < 0.1, "a", "b")
    # The first column tells the opposite in the small group, so that it matters who is in which.
    score = np.where(groups == "a", -rows[:, 0] + 2 * rows[:, 1], rows[:, 0] + 0.3 * rows[:, 1])
    late = np.where(score + 0.1 * rng.normal(size=3000) > 0, "yes", "no")
    column = '[[column]]\nname = "{}"\nkind = "number"\nmin = -1.0\nmax = 1.0\ndefault = 0.0\ncentred = true'
    schema = "\n".join(
        ["format = 1", "row_norm = 1.5", "intercept = 1.0", "[label]", 'column = "late"', 'values = ["yes", "no"]', 'positive = "yes"',
         'default = "no"', column.format("x"), column.format("y")]
    )  # fmt: skip
    shares = {(group, label): share / 2 for group, share in (("a", 0.1), ("b", 0.9)) for label in ("yes", "no")}
    of = dict(groups=["a", "b"], shares=shares, by_class=False, **CLEAR)
    by_schema = PrivateGroupDRO(schema=schema, **of).fit(pd.DataFrame({"x": rows[:, 0], "y": rows[:, 1], "late": late}), groups=groups)
    by_arrays = PrivateGroupDRO(bounds=(-1, 1), row_norm=1.5, classes=["no", "yes"], **of).fit(rows, late, groups)
    assert by_schema.plan_["event"] == by_arrays.plan_["event"]
    assert np.allclose(by_schema.coef_, by_arrays.coef_, atol=2e-2) and np.allclose(by_schema.group_weights_, by_arrays.group_weights_, atol=2e-2)
    # Small enough to tell it from the same records in other groups.
    other = PrivateGroupDRO(schema=schema, **of).fit(pd.DataFrame({"x": rows[:, 0], "y": rows[:, 1], "late": late}), groups=groups[::-1])
    assert not np.allclose(by_schema.coef_, other.coef_, atol=6e-2)
