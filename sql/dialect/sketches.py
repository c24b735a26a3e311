"""rule: HLL_* and APPROX_PERCENTILE_*: estimates whose states can be kept and combined.

The state of HLL is a BINARY of Boathouse's own form; HLL_EXPORT and HLL_IMPORT exchange it as an
OBJECT. The state of APPROX_PERCENTILE is an OBJECT.
"""

from __future__ import annotations

from sql.dialect import arithmetic, casts, hashes, sqltypes
from sql.dialect.builders import FunctionCall, aggregate, function
from sql.plan import code
from sql.plan import expressions as exprs
from sql.plan.expressions import Expr

STATE = sqltypes.BINARY


def _collected(
    call: FunctionCall, values: code.Part, of: str, *, distinct: bool = False
) -> code.Code:
    if call.over:
        raise call.refuse("OVER")
    collected = code.FunctionUse(name="array_agg", arguments=(values,), is_distinct=distinct)
    return code.arrow(collected, f"List({of})")


def _hll_accumulate(call: FunctionCall) -> Expr:
    operands = [part for index in range(len(call.nodes)) for part in call.several(index)]
    place = code.kernel("_hll_place", hashes.hash_of(operands))
    present = code.joined([code.is_not_null(operand) for operand in operands], "AND")
    # The places of one sketch are so few that a group of any size fits in memory.
    places = _collected(call, code.case([(present, place)]), "Int64", distinct=True)
    return call.aggregated(code.kernel("_hll_state", places), STATE, operands, nullable=False)


def _merged(call: FunctionCall) -> tuple[Expr, code.Code]:
    state = call.arg(0)
    if state.type.name not in ("binary", "null"):
        raise call.invalid()
    exact = code.arrow(state, "LargeBinary")
    return state, code.kernel("_hll_merged", _collected(call, exact, "LargeBinary"))


def _hll_combine(call: FunctionCall) -> Expr:
    state, merged = _merged(call)
    return call.aggregated(merged, STATE, [state], nullable=False)


def _hll_estimate(call: FunctionCall) -> Expr:
    state, merged = _merged(call)
    estimate = code.kernel("_hll_estimate", merged)
    return call.aggregated(estimate, sqltypes.integer(), [state], nullable=False)


def _hll_export(call: FunctionCall) -> Expr:
    state = call.arg(0)
    if state.type.name not in ("binary", "null"):
        raise call.invalid()
    computed = code.kernel("_hll_exported", code.exactly(state, STATE))
    return exprs.derived(computed, sqltypes.OBJECT, [state])


def _percentile_accumulate(call: FunctionCall) -> Expr:
    value = casts.cast(arithmetic.as_number(call.arg(0)), sqltypes.REAL)
    values = _collected(call, value, "Float64")
    return call.aggregated(
        code.kernel("_digest_of", values), sqltypes.OBJECT, [value], nullable=False
    )


def _percentile_combine(call: FunctionCall) -> Expr:
    state = casts.to_variant(call.arg(0))
    states = _collected(call, casts.as_arrow(state, sqltypes.TEXT), "Utf8")
    return call.aggregated(
        code.kernel("_digest_merged", states), sqltypes.OBJECT, [state], nullable=False
    )


def _percentile_estimate(call: FunctionCall) -> Expr:
    state = casts.to_variant(call.arg(0))
    share = casts.cast(arithmetic.as_number(call.arg(1)), sqltypes.REAL)
    computed = code.kernel(
        "_digest_percentile",
        casts.as_arrow(state, sqltypes.TEXT),
        casts.as_arrow(share, sqltypes.REAL),
    )
    return exprs.derived(computed, sqltypes.REAL, [state, share], nullable=True)


def _hll_import(call: FunctionCall) -> Expr:
    exported = casts.to_variant(call.arg(0))
    computed = code.kernel("_hll_imported", casts.as_arrow(exported, sqltypes.TEXT))
    return exprs.derived(computed, STATE, [exported])


SKETCH_FUNCTIONS = (
    aggregate("HLL_ACCUMULATE", "any [any]*15", "binary", _hll_accumulate),
    aggregate("HLL_COMBINE", "any", "binary", _hll_combine),
    aggregate("HLL_ESTIMATE", "any", "integer", _hll_estimate),
    function("HLL_EXPORT", "any", "object", _hll_export),
    function("HLL_IMPORT", "object", "binary", _hll_import),
    aggregate("APPROX_PERCENTILE_ACCUMULATE", "real", "object", _percentile_accumulate),
    aggregate("APPROX_PERCENTILE_COMBINE", "object", "object", _percentile_combine),
    function("APPROX_PERCENTILE_ESTIMATE", "object real", "real", _percentile_estimate),
)
