"""Writes brotli.parquet beside this file: pyarrow 26.0.1, run once and kept."""
import pathlib

import pyarrow as pa
import pyarrow.parquet as pq

table = pa.table({"x": pa.array([1.0, 2.0]), "z": pa.array([1.0, 2.0]), "y": pa.array(["yes", "no"])})
path = pathlib.Path(__file__).with_name("brotli.parquet")
pq.write_table(table, path, store_schema=False, compression={"x": "snappy", "z": "brotli", "y": "none"})
