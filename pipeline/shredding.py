"""engine: lets Spark read variants that another engine has shredded.

A file may hold parts of variants in columns of their own, as DuckDB writes them. Iceberg's reader
of whole columns (1.12) fails on such a file, its reader of rows does not: a table with a column of
`variant` is read by the second one.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from typing import Final

from pipeline import session

VARIANT: Final = re.compile(
    r": (?:optional|required) variant\b" r'|"(?:type|element|value)": "variant"'
)
"""A column in the text of one of Iceberg's Java schemas, or of a table's metadata."""
OPTION: Final = "vectorization-enabled"
SETTING: Final = "spark.sql.iceberg.vectorization.enabled"


def read_options(schema: str) -> Mapping[str, str]:
    """Return the options with which Spark reads a table whose schema has this text."""
    return {} if VARIANT.search(schema) is None else {OPTION: "false"}


@contextlib.contextmanager
def by_rows(spark: session.Spark, schema: str) -> Iterator[None]:
    """Let procedures in the block read a table whose schema has this text."""
    if not read_options(schema):
        yield
        return
    before = spark.session.conf.get(SETTING, None)
    spark.session.conf.set(SETTING, "false")
    try:
        yield
    finally:
        if before is None:
            spark.session.conf.unset(SETTING)
        else:
            spark.session.conf.set(SETTING, before)
