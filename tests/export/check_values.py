"""Compares a lake with what `jumpseat val --json` printed: check_values.py LAKE VALUES.

Each value there has to be in its table, by pyarrow and by DuckDB, with its type; and no other."""

import calendar
import collections
import glob
import json
import re
import struct
import sys
from time import strptime

import duckdb
import pyarrow
import pyarrow.parquet

LAKE, VALUES = sys.argv[1:]
TYPES = (pyarrow.int32(), pyarrow.uint32(), pyarrow.int64(), pyarrow.uint64(), pyarrow.float32(), pyarrow.float64())


def table_of(metric):
    return metric.rsplit(".", 1)[0] if "." in metric else metric


def micros(text):
    """Microseconds since 1970 of RFC 3339, without a way through a float."""
    whole, nanos = re.fullmatch(r"(.*)\.(\d{9})Z", text).groups()
    return calendar.timegm(strptime(whole, "%Y-%m-%dT%H:%M:%S")) * 1_000_000 + int(nanos) // 1000


expected = collections.defaultdict(dict)
with open(VALUES) as lines:
    for line in lines:
        sample = json.loads(line)
        for value in sample.get("values", []):
            # An instance that the archive has no name for goes by its number.
            nameless = f"inst [{value['id']}]" if "id" in value else None
            at = (micros(sample["time"]), value.get("instance", nameless))
            assert at not in expected[sample["metric"]], (sample["metric"], at)
            expected[sample["metric"]][at] = value["value"]
assert expected and all(expected.values()), "nothing to compare"

compared = 0
for metric, values in expected.items():
    pattern = f"{LAKE}/{table_of(metric)}/host=*/date=*/*.parquet"
    assert glob.glob(pattern), pattern
    by_arrow = {}
    for file in glob.glob(pattern):
        table = pyarrow.parquet.ParquetFile(file).read()
        column = table.schema.field(metric)
        about = {key.decode(): text.decode() for key, text in column.metadata.items()}
        assert {"pcp.units", "pcp.semantics", "pcp.type", "pcp.help", "pcp.labels"} <= set(about), about
        assert column.type in TYPES or pyarrow.types.is_dictionary(column.type), column
        date = re.search("date=([-0-9]+)/", file).group(1)
        times = table["time"].cast(pyarrow.int64()).to_pylist()
        for when, time, instance, value in zip(
            table["time"].to_pylist(), times, table["instance"].to_pylist(), table[metric].to_pylist()
        ):
            assert when.strftime("%Y-%m-%d") == date, (when, file)
            if value is not None:
                assert (time, instance) not in by_arrow, "a value twice"
                by_arrow[time, instance] = value
    if column.type == pyarrow.float32():
        # JSON has the digits of a float, and Python reads them as a double.
        values = {at: struct.unpack("f", struct.pack("f", value))[0] for at, value in values.items()}
    assert by_arrow == values, (metric, len(by_arrow), len(values))
    rows = duckdb.sql(
        f"""select epoch_us("time"), instance, "{metric}"
            from read_parquet('{pattern}', hive_partitioning = true, union_by_name = true)
            where "{metric}" is not null"""
    ).fetchall()
    assert {(time, instance): value for time, instance, value in rows} == values and len(rows) == len(values), metric
    catalog = duckdb.sql(
        f"select distinct \"table\" from '{LAKE}/pcp.metrics/**/*.parquet' where metric = '{metric}'"
    ).fetchall()
    assert catalog == [(table_of(metric),)], catalog
    compared += len(values)
print(compared)
