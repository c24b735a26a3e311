"""rule: what a statement may use instead of a construct of Snowflake that is not built."""

from __future__ import annotations

from typing import Final

CHANGED_ROWS: Final = "Compare the table with its rows AT or BEFORE an earlier time."
SCRIPTS: Final = (
    "Send the statements one after the other, from a program: SET keeps values between them."
)
STORED: Final = (
    "A view computes the same rows as it is read; a pipeline with a schedule stores them."
)

INSTEAD: Final[dict[str, str]] = {
    "BEGIN ... END block": SCRIPTS,
    "CALL": f"There are no stored procedures. {SCRIPTS}",
    "CHANGES": CHANGED_ROWS,
    "CONNECT BY of anything but one table or query": (
        "Put the join into a query in FROM, and give the query an alias."
    ),
    "CONNECT BY or a recursive WITH that reads columns of a query around it": (
        "Compute it for all rows in a WITH, with a column for CONNECT_BY_ROOT, and join that."
    ),
    "CONNECT BY NOCYCLE": (
        "Snowflake has no NOCYCLE either. A recursive WITH with a condition on its depth ends."
    ),
    "DECLARE": SCRIPTS,
    "MATCH_RECOGNIZE": (
        "LAG, LEAD and CONDITIONAL_TRUE_EVENT with QUALIFY find patterns in ordered rows."
    ),
    "data type DECFLOAT": "NUMBER(38, s) has 38 decimal digits, FLOAT has large exponents.",
}
"""By the name of the construct."""

INSTEAD_OF_OBJECTS: Final[dict[str, str]] = {
    "DYNAMIC TABLE": STORED,
    "EVENT TABLE": "CREATE TABLE makes a table for such rows.",
    "EXTERNAL FUNCTION": "Call the service from a program.",
    "EXTERNAL TABLE": "SELECT reads staged files as FROM @stage, and COPY INTO loads them.",
    "FUNCTION": "There are no user-defined functions. A view can hold the expression.",
    "HYBRID TABLE": "CREATE TABLE makes a table; its keys are not enforced.",
    "MASKING POLICY": "Rights are for whole tables.",
    "MATERIALIZED VIEW": STORED,
    "PIPE": "COPY INTO loads each file once, and a pipeline follows a source.",
    "PROCEDURE": f"There are no stored procedures. {SCRIPTS}",
    "ROW ACCESS POLICY": "Rights are for whole tables.",
    "STREAM": f"There are no streams. {CHANGED_ROWS}",
    "TASK": "There are no tasks. The server runs pipelines by their schedules.",
}
"""By the type of the object that a statement creates, alters, drops or runs."""


def instead(feature: str) -> str:
    """Return a sentence on what to use instead of a construct; "" where there is none."""
    if feature in INSTEAD:
        return INSTEAD[feature]
    words = feature.split()
    if words[0] == "CALL":
        return INSTEAD["CALL"]
    if words[0] not in ("CREATE", "ALTER", "DROP", "UNDROP", "EXECUTE"):
        return ""
    for length in (3, 2, 1):
        sentence = INSTEAD_OF_OBJECTS.get(" ".join(words[1:][-length:]))
        if sentence is not None:
            return sentence
    return ""
