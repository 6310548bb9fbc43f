"""Writes table.parquet beside this file: pyarrow 26.0.1, run once and kept."""
import datetime
import decimal
import math
import pathlib

import pyarrow as pa
import pyarrow.parquet as pq

x = [0.5, None, math.nan, 1e300, -0.1, 7.0]
table = pa.table({
    "x": pa.array(x, pa.float64()),
    "f": pa.array([0.1, 2.5, 3e38, None, 1e-7, 1.0], pa.float32()),
    "i": pa.array([1, -2, 3, None, 5, 9], pa.int64()),
    "u": pa.array([4294967295, 0, 1, 2, 3, 4], pa.uint32()),
    "b": pa.array([True, False, None, True, True, False]),
    "c": pa.array(["red", " green ", "", None, "a,b\n\"", "red"]),
    "raw": pa.array([b"red", b"\xff\xfe", b"", b"green", None, b"red"], pa.binary()),
    "y": pa.array(["yes", "no", "yes", "no", None, "maybe"]).dictionary_encode(),
    "price": pa.array([decimal.Decimal("1.50")] * 6, pa.decimal128(10, 2)),
    "list": pa.array([[1], [], None, [2, 3], [4], [5]]),
    "day": pa.array([datetime.date(1970, 1, 11)] * 6),
})
path = pathlib.Path(__file__).with_name("table.parquet")
pq.write_table(table, path, row_group_size=4, data_page_size=64, store_schema=False,
               compression={n: c for n, c in zip(table.column_names, 
                   ["snappy", "zstd", "gzip", "lz4", "none", "snappy", "zstd", "snappy", "none", "none", "none"])})
