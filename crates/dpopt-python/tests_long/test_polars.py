"""Frames of polars and Parquet files: the same records are the same rows."""

import pathlib
import sys

import dpopt
import numpy as np
import polars as pl
import pytest
from dpopt import PrivateClassifier

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests"))
from test_schemas import CLEAR, SCHEMA, commuters, encoded  # noqa: E402


def polars(frame):
    return pl.DataFrame({name: frame[name].tolist() for name in frame.columns})


def test_a_frame_of_polars_is_that_of_pandas():
    frame = commuters()
    rows, ours = encoded(frame), polars(frame)
    assert np.array_equal(rows, encoded(ours))
    typed = ours.with_columns(pl.col("by").cast(pl.Categorical), pl.col("day").str.to_date(), pl.col("distance").cast(pl.Float64))
    assert np.array_equal(rows, encoded(typed))
    assert np.array_equal(rows, encoded(typed.with_columns(pl.col("day").cast(pl.Datetime("us")))))
    # One missing value changes one row, whatever it makes of the column.
    whole = commuters().assign(distance=lambda frame: frame["distance"].round())
    without = polars(whole).with_columns(pl.col("distance").cast(pl.Int32))
    with_one = without.with_columns(pl.when(pl.int_range(pl.len()) == 5).then(None).otherwise(pl.col("distance")).alias("distance"))
    assert with_one["distance"].null_count() == 1
    changed = np.any(encoded(without) != encoded(with_one), axis=1)
    assert np.flatnonzero(changed).tolist() == [5] and np.array_equal(encoded(without), encoded(whole))


#: Columns, and what `write_csv` makes of their values.
TYPED = {
    "truths": (pl.Series([True, False, None, True]), ["false", "true"]),
    "truths of pandas": (pl.Series([True, False, None, True]), ["False", "True"]),
    "all there": (pl.Series([True, False, False, True]), ["False", "True"]),
    "floats": (pl.Series([1.0, 0.0, None, 1.0]), ["0.0", "1.0"]),
    "singles": (pl.Series([1.0, 0.0, None, 1.0], dtype=pl.Float32), ["0.0", "1.0"]),
    "whole": (pl.Series([1, 0, None, 1], dtype=pl.UInt8), ["0.0", "1.0"]),
    "days": (pl.Series(["2020-02-01", "2020-01-01", None, "2020-02-01"]).str.to_date(), ["2020-01-01", "2020-02-01"]),
    "times": (pl.Series(["2020-02-01", "2020-01-01", None, "2020-02-01"]).str.to_datetime("%Y-%m-%d"), ["2020/01/01", "2020/02/01"]),
    "decimals": (pl.Series(["1.50", "0.00", None, "1.50"]).cast(pl.Decimal(10, 2)), ["0.00", "1.50"]),
    "categories": (pl.Series(["b", "a", None, "b"], dtype=pl.Categorical), ["a", "b"]),
}


@pytest.mark.parametrize("kind", TYPED)
def test_typed_values_are_those_of_their_texts(kind, tmp_path):
    values, listed = TYPED[kind]
    quoted = str(listed).replace("'", '"')
    schema = SCHEMA.split("[[column]]")[0] + f'[[column]]\nname = "x"\nkind = "category"\nvalues = {quoted}\n'
    texts = [listed[1], listed[0], listed[0] if kind == "all there" else None, listed[1]]
    wanted = encoded({"x": texts}, schema)
    frame = pl.DataFrame({"x": values})
    assert len(np.unique(wanted[:2], axis=0)) == 2 and np.array_equal(encoded(frame, schema), wanted)
    if kind != "decimals":
        frame.write_parquet(tmp_path / "x.parquet")
        assert np.array_equal(encoded(tmp_path / "x.parquet", schema), wanted)
    label = f'format = 1\nrow_norm = 1.5\nintercept = 1.0\n[label]\ncolumn = "late"\nvalues = {quoted}\npositive = "{listed[1]}"\ndefault = "{listed[0]}"\n'
    label += '[[column]]\nname = "x"\nkind = "number"\nmin = 0.0\nmax = 1.0\ndefault = 0.0\n'
    many = pl.DataFrame({"x": [0.9, 0.1, 0.1, 0.9] * 200, "late": pl.concat([values] * 200)})
    assert PrivateClassifier(**CLEAR, schema=label).fit(many).predict(many).tolist() == [listed[1], listed[0], listed[0], listed[1]] * 200


def test_types_that_the_schema_does_not_take_are_named(tmp_path):
    frame = polars(commuters(50))
    days = pl.col("day").str.to_date()
    for wrong, said in [
        (frame.with_columns(distance=pl.col("distance") > 5), '"distance" holds truth values'),
        (frame.with_columns(distance=days), '"distance" holds dates'),
        (frame.with_columns(day=pl.col("distance")), '"day" holds numbers'),
        (frame.with_columns(late=pl.col("distance") > 5), '"late" holds truth values.*"yes"'),
    ]:
        path = tmp_path / "wrong.parquet"
        wrong.write_parquet(path)
        for data in (wrong, path):
            with pytest.raises(dpopt.DataError, match=said):
                PrivateClassifier(**CLEAR, schema=SCHEMA).fit(data)
    for wrong in [days - days, pl.time(1, 2), pl.concat_list("by")]:
        with pytest.raises(dpopt.DPUserError, match="'by' is of .* no text"):
            PrivateClassifier(**CLEAR, schema=SCHEMA).fit(frame.with_columns(by=wrong))


def test_without_a_schema_columns_are_numbers():
    rows = np.random.default_rng(0).uniform(0, 1, (60, 2))
    frame = pl.DataFrame({"a": rows[:, 0], "b": rows[:, 1] > 0.5, "c": pl.Series([1, None] * 30)})
    model = PrivateClassifier(epsilon=1.0, delta=1e-6, bounds=(0, 1), classes=[0, 1], max_steps=2)
    labels = pl.Series([0, 1] * 30)
    assert model.fit(frame, labels).feature_names_in_.tolist() == ["a", "b", "c"]
    with pytest.raises(ValueError, match="same order"):
        model.predict(frame.select("b", "a", "c"))
    for odd in [pl.Series(["x", "y"] * 30), pl.Series(["x", "y"] * 30, dtype=pl.Categorical), pl.Series(["2020-01-01"] * 60).str.to_date()]:
        with pytest.raises(dpopt.DPUserError, match="the column 'odd' of X is of"):
            model.fit(frame.with_columns(odd=odd), labels)
        with pytest.raises(dpopt.DPUserError, match="labels of .* are none of the numbers"):
            model.fit(frame, odd)


@pytest.mark.parametrize("compression", ["zstd", "snappy", "gzip", "uncompressed"])
def test_a_parquet_file_is_its_frame(compression, tmp_path):
    frame = commuters()
    frame.loc[3, "distance"] = np.nan
    path = tmp_path / "commuters.parquet"
    polars(frame).with_columns(pl.col("by").cast(pl.Categorical), pl.col("day").str.to_date()).write_parquet(path, compression=compression)
    assert np.array_equal(encoded(frame), encoded(path))
    model = PrivateClassifier(**CLEAR, schema=SCHEMA).fit(path)
    assert (model.predict(path) == frame["late"]).mean() > 0.85
