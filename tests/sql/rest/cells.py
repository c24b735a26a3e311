"""One table of cells: a column, what an engine hands out, and what a driver must read.

The expected values are written by hand, from what the column means; `name: value` is how
`drivers.PRELUDE` writes a Python value down.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from sql import outcomes

UTC_TEXT = "+00:00"
UNITS = {9: "ns", 6: "us", 3: "ms"}

moment = datetime.datetime.fromisoformat


@dataclass(frozen=True, kw_only=True)
class Case:
    """name: the column's. rows: what fetchall gives. pandas: the dtype there ("" for any).

    utc_rows: what Arrow and pandas give, where that is written differently.
    """

    name: str
    column: outcomes.Column
    array: pa.Array
    rows: list[Any]
    pandas: str
    utc_rows: list[Any] | None = None


def case(
    name: str,
    column_type: Any,
    array: pa.Array,
    rows: list[Any],
    pandas: str,
    *,
    utc_rows: list[Any] | None = None,
    **column: Any,
) -> Case:
    return Case(
        name=name,
        utc_rows=utc_rows,
        column=outcomes.Column(name=name, type=column_type, **column),
        array=array,
        rows=rows,
        pandas=pandas,
    )


def stamps(unit: str, zone: str | None = None) -> pa.Array:
    """Half a second before the epoch, NULL, a leap day in 2024, and the year 1900."""
    moments = [
        moment("1969-12-31T23:59:59.500000"),
        None,
        moment("2024-02-29T12:34:56.123000"),
        moment("1900-01-01T00:00:00"),
    ]
    return pa.array(moments, pa.timestamp(unit)).cast(pa.timestamp(unit, zone))


def naive(*texts: str | None) -> list[Any]:
    return [None if text is None else f"datetime:{text}" for text in texts]


STAMPS = ("1969-12-31 23:59:59.500000", None, "2024-02-29 12:34:56.123000", "1900-01-01 00:00:00")
STAMPS_UTC = tuple(None if text is None else text + UTC_TEXT for text in STAMPS)
WIDE = 12345678901234567890123456789012345678
WIDE_SCALED = "1234567890123456789012345678.9012345678"


def packed() -> Any:
    """The values of `zoned` as `sql.zoned_kernels` holds them, by arithmetic."""
    minutes = (60, None, -480, 345)
    instants = stamps("us").cast(pa.int64()).to_pylist()
    numbers = [
        None if shift is None else Decimal(instant * 4096 + shift + 1440)
        for instant, shift in zip(instants, minutes, strict=True)
    ]
    return pa.array(numbers, pa.decimal128(38, 0))


def zoned() -> pa.Array:
    """The same moments with offsets of +01:00, NULL, -08:00 and +05:45."""
    return pa.StructArray.from_arrays(
        [stamps("us"), pa.array([60, None, -480, 345], pa.int32())],
        names=["instant", "offset_minutes"],
        mask=pa.array([False, True, False, False]),
    )


CASES: list[Case] = [
    case("INT8", "fixed", pa.array([1, None, -128, 127], pa.int8()),
         ["int:1", None, "int:-128", "int:127"], "float64", precision=3, scale=0),
    case("INT64", "fixed", pa.array([1, None, -(2**63), 2**63 - 1]),
         ["int:1", None, f"int:{-(2**63)}", f"int:{2**63 - 1}"], "float64", precision=19, scale=0),
    case("UINT64", "fixed", pa.array([1, None, 0, 2**64 - 1], pa.uint64()),
         ["int:1", None, "int:0", f"int:{2**64 - 1}"], "object", precision=20, scale=0),
    case("NUM_SMALL", "fixed",
         pa.array([Decimal("1.25"), None, Decimal("-0.01"), Decimal("0")], pa.decimal128(10, 2)),
         ["Decimal:1.25", None, "Decimal:-0.01", "Decimal:0.00"], "float64",
         precision=10, scale=2),
    case("NUM_38", "fixed",
         pa.array([Decimal(7), None, Decimal(-8), Decimal(0)], pa.decimal128(38, 0)),
         ["int:7", None, "int:-8", "int:0"], "float64", precision=38, scale=0),
    case("NUM_WIDE", "fixed", pa.array([Decimal(WIDE), None, Decimal(-WIDE), Decimal(0)],
                                       pa.decimal128(38, 0)),
         [f"int:{WIDE}", None, f"int:{-WIDE}", "int:0"], "object", precision=38, scale=0),
    case("NUM_WIDE_SCALED", "fixed",
         pa.array([Decimal(WIDE_SCALED), None, Decimal("-" + WIDE_SCALED), Decimal(0)],
                  pa.decimal128(38, 10)),
         [f"Decimal:{WIDE_SCALED}", None, f"Decimal:-{WIDE_SCALED}", "Decimal:0E-10"], "object",
         precision=38, scale=10),
    case("REAL", "real", pa.array([1.5, None, float("inf"), 1e300]),
         ["float:1.5", None, "float:inf", "float:1e+300"], "float64"),
    case("REAL32", "real", pa.array([1.5, None, float("-inf"), 0.25], pa.float32()),
         ["float:1.5", None, "float:-inf", "float:0.25"], "float64"),
    case("TEXT", "text", pa.array(["a", None, "", "smörgås 🚣"]),
         ["a", None, "", "smörgås 🚣"], ""),
    case("TEXT_VIEW", "text", pa.array(["a", None, "", "a longer text than fits the view"],
                                       pa.string_view()),
         ["a", None, "", "a longer text than fits the view"], "", length=50),
    case("TEXT_DICTIONARY", "text", pa.array(["a", None, "b", "a"]).dictionary_encode(),
         ["a", None, "b", "a"], ""),
    case("ALL_NULL", "text", pa.nulls(4), [None, None, None, None], ""),
    case("ALL_NULL_NUMBER", "fixed", pa.nulls(4), [None, None, None, None], "float64",
         precision=38, scale=0),
    case("ALL_NULL_TZ", "timestamp_tz", pa.nulls(4), [None, None, None, None],
         "datetime64[ns, UTC]", scale=9),
    case("BOOLEAN", "boolean", pa.array([True, None, False, True]),
         [True, None, False, True], "object"),
    case("DATE", "date", pa.array([datetime.date(1969, 12, 31), None, datetime.date(2024, 2, 29),
                                   datetime.date(9999, 12, 31)]),
         ["date:1969-12-31", None, "date:2024-02-29", "date:9999-12-31"], "object"),
    case("DATE64", "date", pa.array([datetime.date(1, 1, 1), None, datetime.date(1970, 1, 1),
                                     datetime.date(1900, 3, 1)], pa.date64()),
         ["date:0001-01-01", None, "date:1970-01-01", "date:1900-03-01"], "object"),
    case("TIME_NS", "time", pa.array([0, None, 45_296_500_000_000, 86_399_999_999_000],
                                     pa.int64()).cast(pa.time64("ns")),
         ["time:00:00:00", None, "time:12:34:56.500000", "time:23:59:59.999999"], "object",
         scale=9),
    case("TIME_US", "time", pa.array([0, None, 45_296_500_000, 86_399_999_999],
                                     pa.int64()).cast(pa.time64("us")),
         ["time:00:00:00", None, "time:12:34:56.500000", "time:23:59:59.999999"], "object",
         scale=6),
    *[
        case(f"TIME_{scale}", "time", pa.array([0, None, 45_296_500_000, 86_399_999_999],
                                               pa.int64()).cast(pa.time64("us")),
             ["time:00:00:00", None, "time:12:34:56.500000", f"time:23:59:59.{last}"], "object",
             scale=scale)
        for scale, last in ((2, "990000"), (3, "999000"), (4, "999900"), (7, "999999"))
    ],
    case("TIME_S", "time", pa.array([0, None, 45_296, 86_399], pa.int32()).cast(pa.time32("s")),
         ["time:00:00:00", None, "time:12:34:56", "time:23:59:59"], "object", scale=0),
    *[
        case(f"NTZ_{scale}_{unit}".upper(), "timestamp_ntz", stamps(unit), naive(*STAMPS),
             f"datetime64[{UNITS[scale]}]", scale=scale)
        for scale, unit in ((9, "ns"), (9, "us"), (6, "us"), (6, "ns"), (3, "us"), (3, "ms"))
    ],
    case("NTZ_FAR", "timestamp_ntz",
         pa.array([moment("9999-12-31T23:59:59.999999"), None,
                   moment("0001-01-01T00:00:00"), moment("1970-01-01T00:00:00")],
                  pa.timestamp("us")),
         naive("9999-12-31 23:59:59.999999", None, "0001-01-01 00:00:00", "1970-01-01 00:00:00"),
         "datetime64[us]", scale=6),
    *[
        case(f"LTZ_{scale}", "timestamp_ltz", stamps("us", "UTC"), naive(*STAMPS_UTC),
             "datetime64[ns, UTC]", scale=scale)
        for scale in (9, 6, 3)
    ],
    case("TZ_9", "timestamp_tz", zoned(),
         naive("1970-01-01 00:59:59.500000+01:00", None, "2024-02-29 04:34:56.123000-08:00",
               "1900-01-01 05:45:00+05:45"), "datetime64[ns, UTC]", scale=9,
         utc_rows=naive(*STAMPS_UTC)),
    case("TZ_PACKED", "timestamp_tz", packed(),
         naive("1970-01-01 00:59:59.500000+01:00", None, "2024-02-29 04:34:56.123000-08:00",
               "1900-01-01 05:45:00+05:45"), "datetime64[ns, UTC]", scale=6,
         utc_rows=naive(*STAMPS_UTC)),
    case("TZ_6", "timestamp_tz", stamps("us", "UTC"), naive(*STAMPS_UTC),
         "datetime64[ns, UTC]", scale=6),
    case("BINARY", "binary", pa.array([b"\x00\xab", None, b"", b"text"]),
         ["bytes:b'\\x00\\xab'", None, "bytes:b''", "bytes:b'text'"], "object"),
    case("BINARY_FIXED", "binary", pa.array([b"abcd", None, b"\x00\x00\x00\x00", b"zzzz"],
                                            pa.binary(4)),
         ["bytes:b'abcd'", None, "bytes:b'\\x00\\x00\\x00\\x00'", "bytes:b'zzzz'"], "object",
         length=4),
    case("VARIANT", "variant", pa.array(['{\n  "a": 1\n}', None, "null", '"text"']),
         ['{\n  "a": 1\n}', None, "null", '"text"'], ""),
    case("OBJECT", "object", pa.array(['{"a":1}', None, "{}", '{"b":[]}']),
         ['{"a":1}', None, "{}", '{"b":[]}'], ""),
    case("ARRAY", "array", pa.array(["[1,2]", None, "[]", '["x"]']),
         ["[1,2]", None, "[]", '["x"]'], ""),
]  # fmt: skip
