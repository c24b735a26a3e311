"""rule: TO_CHAR of a number and TO_NUMBER of a text by a numeric format model.

The model is read when the call is bound, so that a bad one is an error before the query runs.
"""

from __future__ import annotations

from sql import errors, numberformats
from sql.dialect import casts, sqltypes
from sql.dialect.builders import FunctionCall
from sql.plan import code
from sql.plan import expressions as exprs
from sql.plan.expressions import Expr

INTEGER_DIGITS = 19


def printed(call: FunctionCall, value: Expr, model: str) -> Expr:
    """Return a NUMBER or a FLOAT as text by a model."""
    if value.type.name == "null":
        return exprs.null(sqltypes.TEXT)
    type_name = "REAL" if value.type.name == "real" else "FIXED"
    _check_length(call, model)
    try:
        numberformats.output_model(model)
    except numberformats.BadModel as error:
        raise errors.bad_format_model(model, "output", type_name, str(error)) from None
    except numberformats.UnsupportedModel as error:
        raise call.refuse(str(error)) from None
    spelled = model.encode().hex()
    if value.type.name == "real":
        name, exact = f"_number_text_real_{spelled}", sqltypes.REAL
    else:
        digits = INTEGER_DIGITS if value.type.is_integer else value.type.precision
        exact = sqltypes.number(digits, value.type.scale)
        name = f"_number_text_{digits}_{exact.scale}_{spelled}"
    text = code.kernel(name, casts.as_arrow(value, exact))
    return exprs.derived(text, sqltypes.TEXT, [value])


def read(
    call: FunctionCall, value: Expr, model: str, target: sqltypes.SqlType, *, lenient: bool
) -> Expr:
    """Return a text as a NUMBER by a model; lenient: NULL for a text that is none."""
    if value.type.name == "null":
        return exprs.null(target)
    if value.type.name != "text":
        raise call.refuse(f"a format for {sqltypes.shown(value.type)}")
    _check_length(call, model)
    try:
        numberformats.readers(model)
    except numberformats.BadModel as error:
        if lenient:
            return exprs.null(target)
        raise errors.bad_format_model(model, "input", "FIXED", str(error)) from None
    except numberformats.UnsupportedModel as error:
        raise call.refuse(str(error)) from None
    prefix = "_try_" if lenient else "_"
    name = f"{prefix}number_of_text_{target.precision}_{target.scale}_{model.encode().hex()}"
    number = code.kernel(name, casts.as_arrow(value, sqltypes.TEXT))
    return exprs.derived(number, target, [value], nullable=lenient or None)


def _check_length(call: FunctionCall, model: str) -> None:
    if len(model) > numberformats.MODEL_LENGTH_MAX:
        raise call.refuse(f"a format of more than {numberformats.MODEL_LENGTH_MAX} characters")
