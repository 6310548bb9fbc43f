"""Writes zones.parquet and zones.csv beside this file: pandas 3.1.1 and pyarrow 26.0.1, run once and kept."""
import pathlib

import pandas as pd

folder = pathlib.Path(__file__).parent
times = pd.to_datetime([
    "2021-02-28T23:30:00Z", "2021-06-30T22:30:00Z", "2021-06-30T21:30:00Z", "1970-01-01T00:00:00Z", None,
    "1969-12-31T22:59:59.999999Z", "2000-02-29T23:59:59Z", "2021-03-28T00:59:59Z", "1985-12-31T18:45:00Z",
], format="ISO8601")
table = pd.DataFrame({
    "berlin": times.tz_convert("Europe/Berlin"),
    "kathmandu": times.tz_convert("Asia/Kathmandu").astype("datetime64[ms, Asia/Kathmandu]"),
    "honolulu": times.tz_convert("Pacific/Honolulu").astype("datetime64[ns, Pacific/Honolulu]"),
    "fixed": times.tz_convert("+05:30"),
    "west": times.tz_convert("-09:00"),
    "utc": times,
    "naive": times.tz_localize(None),
    "y": ["no", "yes"] * 4 + ["no"],
})
table.to_parquet(folder / "zones.parquet", index=False, compression=None)
table.to_csv(folder / "zones.csv", index=False)
