"""Frames of polars and Parquet files: the same records are the same rows."""

import pathlib
import sys

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


@pytest.mark.parametrize("compression", ["zstd", "snappy", "gzip", "uncompressed"])
def test_a_parquet_file_is_its_frame(compression, tmp_path):
    frame = commuters()
    frame.loc[3, "distance"] = np.nan
    path = tmp_path / "commuters.parquet"
    polars(frame).with_columns(pl.col("by").cast(pl.Categorical), pl.col("day").str.to_date()).write_parquet(path, compression=compression)
    assert np.array_equal(encoded(frame), encoded(path))
    model = PrivateClassifier(**CLEAR, schema=SCHEMA).fit(path)
    assert (model.predict(path) == frame["late"]).mean() > 0.85
