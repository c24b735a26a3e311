"""rule: filter expressions of the REST catalog: JSON in, a predicate for pruning and residuals out.

Accepts both JSON forms that clients write: predicates with `term` and `value`, and the newer ones
with operands. A part that cannot be evaluated here (a transform of a column, a function, a literal
of another type than its column) prunes nothing and stays in every residual. Residuals are written
in the older form, which all clients read.
Source: Iceberg REST catalog specification, Expression; Iceberg spec, Appendix C and D.
"""

from __future__ import annotations

import decimal
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from catalog import datatypes, manifests, pruning, values

DEPTH_MAX: Final = pruning.DEPTH_MAX
"""How deeply a filter may nest; a chain of one connective counts once."""
PREDICATES_MAX: Final = 1_000
PRUNING_VALUES_MAX: Final = 200
"""Values of one membership that are compared one by one; of more, only the least and greatest."""
VALUES_MAX: Final = 5_000
"""Values of all memberships of a filter; one that exceeds them prunes nothing."""
NAMES_CHARACTERS_MAX: Final = 512 * 1024
"""Characters of the names of columns in one filter: a client that writes ids sends none of them."""
TERM_DEPTH_MAX: Final = 20
"""How deeply a transform or a function may nest."""
PRUNING_WEIGHT_MAX: Final = 400
"""Comparisons for one file; predicates beyond them prune nothing."""
INTEGER_BITS_MAX: Final = 127
"""The size of an integer in a filter; a predicate with a larger one prunes nothing."""
DECIMAL_EXPONENT_MAX: Final = 100
"""The powers of ten of a decimal in a filter; a predicate beyond them prunes nothing."""
RESIDUALS_KEPT_MAX: Final = 10_000
"""Partitions of one answer whose residuals are kept; those of others are made for each file."""

METADATA_COLUMNS: Final = frozenset(
    {
        "_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id",
        "_last_updated_sequence_number", "_change_type", "_change_ordinal", "_commit_snapshot_id",
    }
)  # fmt: skip

_UNARY: Final = {"is-null": "null", "not-null": "not-null", "is-nan": "nan", "not-nan": "not-nan"}
_COMPARISONS: Final = {
    "eq": "eq",
    "not-eq": "not-eq",
    "lt": "gt",
    "lt-eq": "gt-eq",
    "gt": "lt",
    "gt-eq": "lt-eq",
}
"""Each comparison, and the one that means the same with its sides exchanged."""
_PREFIXES: Final = ("starts-with", "not-starts-with")
_MEMBERSHIPS: Final = {"in": False, "not-in": True}
_TEMPORAL: Final = frozenset(
    {"date", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"}
)
_UNKNOWN: Final[Any] = object()
"""The value of a literal that is none of its column's type."""


class InvalidFilter(ValueError):
    """The JSON is not an expression, or names a column that the schema does not have."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Leaf:
    """One predicate. predicate: UNKNOWN if it cannot be evaluated here. json: as in residuals."""

    predicate: pruning.Predicate
    json: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Connective:
    """Expressions joined by `and` or by `or`."""

    op: str
    parts: tuple[Expression, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Negation:
    part: Expression


Expression: TypeAlias = Leaf | Connective | Negation | bool


class ColumnNames:
    """The columns of a schema by the names that clients may write."""

    def __init__(self, schema: Mapping[str, Any], *, case_sensitive: bool) -> None:
        self._case_sensitive = case_sensitive
        self._by_name: dict[str, datatypes.NestedField | None] = {}
        self.columns = datatypes.columns(schema)
        for column in self.columns.values():
            self._add(column.full_name, column)
        for column in self.columns.values():
            if column.parent is None:
                continue
            short = self._short_name(column)
            if self._key(short) not in self._by_name:
                self._add(short, column)

    def find(self, name: str) -> datatypes.NestedField | None:
        """Return a column, None for a metadata column. Raises InvalidFilter."""
        if name in METADATA_COLUMNS or name.startswith("_partition."):
            return None
        try:
            column = self._by_name[self._key(name)]
        except KeyError:
            raise InvalidFilter(f"Cannot find field '{name[:200]}' in the schema") from None
        if column is None:
            raise InvalidFilter(f"The name '{name[:200]}' is ambiguous when case is ignored")
        return column

    def _add(self, name: str, column: datatypes.NestedField) -> None:
        key = self._key(name)
        self._by_name[key] = None if key in self._by_name else column

    def _key(self, name: str) -> str:
        return name if self._case_sensitive else name.lower()

    def _short_name(self, column: datatypes.NestedField) -> str:
        """Return a nested field's name without the `element` and `value` on the way to it."""
        path = [column.name]
        above = column.parent
        while above is not None:
            outer = self.columns[above]
            above = outer.parent
            inside = None if above is None else datatypes.name_of(self.columns[above].type)
            if inside not in ("list", "map") or outer.name == "key":
                path.insert(0, outer.name)
        return ".".join(path)


@dataclass(frozen=True, kw_only=True, slots=True)
class Filter:
    """A parsed filter. predicate: for pruning. weight: its comparisons for one file."""

    expression: Expression
    predicate: pruning.Predicate
    weight: int


def parse(value: Any, names: ColumnNames) -> Filter:
    """Return the filter of a JSON expression; None is no filter. Raises InvalidFilter."""
    expression = True if value is None else _Parser(names).parse(value, 0)
    budget = _Budget()
    predicate = budget.predicate_of(expression)
    return Filter(expression=expression, predicate=predicate, weight=budget.spent)


def format_filter(filter_: Filter) -> bytes:
    """Return a filter as JSON that `parse` reads as the same filter, and that nests little."""
    return _encoded(filter_.expression)


# --- parsing ------------------------------------------------------------------------------------


class _Parser:
    """Parses one expression. Mutable: it counts predicates."""

    def __init__(self, names: ColumnNames) -> None:
        self._names = names
        self._predicates = 0
        self._values = 0
        self._names_characters = 0

    def parse(self, value: Any, depth: int) -> Expression:
        if depth > DEPTH_MAX:
            raise InvalidFilter(f"A filter nests at most {DEPTH_MAX} levels")
        if isinstance(value, bool):
            return value
        if not isinstance(value, dict) or not isinstance(value.get("type"), str):
            raise InvalidFilter("An expression is true, false or an object with a type")
        op = value["type"]
        if op in ("true", "false"):
            return bool(op == "true")
        if op == "literal":
            if not isinstance(value.get("value"), bool):
                raise InvalidFilter("A literal is an expression only if it is true or false")
            return bool(value["value"])
        if op in ("and", "or"):
            return self._connective(op, value, depth)
        if op == "not":
            return Negation(part=self.parse(_member(value, "child"), depth + 1))
        self._predicates += 1
        if self._predicates > PREDICATES_MAX:
            raise InvalidFilter(f"A filter has at most {PREDICATES_MAX} predicates")
        if op in _UNARY:
            return self._unary(op, value)
        if op in _COMPARISONS or op in _PREFIXES:
            return self._comparison(op, value)
        if op in _MEMBERSHIPS:
            return self._membership(op, value)
        raise InvalidFilter(f"Unknown expression type: {op[:100]}")

    def _connective(self, op: str, value: Mapping[str, Any], depth: int) -> Connective:
        """Return a chain of one connective as one value, however its parts nest."""
        parts: list[Expression] = []
        waiting: list[Any] = [value]
        while waiting:
            node = waiting.pop()
            if isinstance(node, dict) and node.get("type") == op:
                waiting += (_member(node, "right"), _member(node, "left"))
            else:
                parts.append(self.parse(node, depth + 1))
        return Connective(op=op, parts=tuple(parts))

    def _unary(self, op: str, value: Mapping[str, Any]) -> Leaf:
        operand = _operand(value, "child")
        column, term = self._term(operand)
        json = {"type": op, "term": term}
        if column is None:
            return Leaf(predicate=pruning.UNKNOWN, json=json)
        return Leaf(
            predicate=pruning.UnaryPredicate(op=_UNARY[op], column=column.field_id), json=json
        )

    def _comparison(self, op: str, value: Mapping[str, Any]) -> Leaf:
        if "left" in value or "right" in value:
            left, right = _member(value, "left"), _member(value, "right")
            if not _is_term(left) and _is_term(right) and op in _COMPARISONS:
                left, right, op = right, left, _COMPARISONS[op]
            if not _is_term(left) or _is_term(right):
                _check_depth(value)
                return Leaf(predicate=pruning.UNKNOWN, json=value)
        else:
            left, right = _member(value, "term"), _member(value, "value")
        column, term = self._term(left)
        spelling = _literal(right)
        typed = _UNKNOWN if column is None else _typed(column.type, spelling)
        if column is None or typed is _UNKNOWN:
            json = {"type": op, "term": term, "value": spelling}
            return Leaf(predicate=pruning.UNKNOWN, json=json)
        json = {"type": op, "term": term, "value": _spelled(column.type, typed, spelling)}
        if op in _PREFIXES and not isinstance(typed, str):
            return Leaf(predicate=pruning.UNKNOWN, json=json)
        return Leaf(
            predicate=pruning.Comparison(op=op, column=column.field_id, value=typed), json=json
        )

    def _membership(self, op: str, value: Mapping[str, Any]) -> Leaf:
        column, term = self._term(_operand(value, "child"))
        listed = _member(value, "values")
        if isinstance(listed, dict) and listed.get("type") == "literals":
            listed = _member(listed, "values")
        if not isinstance(listed, list):
            raise InvalidFilter(f"The values of {op} are an array")
        spellings = [_literal(each) for each in listed]
        json = {"type": op, "term": term, "values": spellings}
        self._values += len(spellings)
        if column is None or self._values > VALUES_MAX:
            return Leaf(predicate=pruning.UNKNOWN, json=json)
        typed = [_typed(column.type, spelling) for spelling in spellings]
        if any(each is _UNKNOWN for each in typed):
            return Leaf(predicate=pruning.UNKNOWN, json=json)
        json["values"] = [
            _spelled(column.type, each, spelling)
            for each, spelling in zip(typed, spellings, strict=True)
        ]
        predicate = _among(column.field_id, typed, negated=_MEMBERSHIPS[op])
        return Leaf(predicate=predicate, json=json)

    def _term(self, operand: Any) -> tuple[datatypes.NestedField | None, Any]:
        """Return the column of an operand, None if it is no plain column, and its older form."""
        if isinstance(operand, str):
            column = self._names.find(operand)
            return column, operand if column is None else self._name(column)
        if not isinstance(operand, dict):
            raise InvalidFilter("The term of a predicate is a column or a transform")
        _check_depth(operand)
        match operand.get("type"):
            case "reference":
                return self._reference(operand)
            case "transform":
                self._term(_member(operand, "term"))
                return None, operand
            case "apply":
                return None, operand
        raise InvalidFilter("The term of a predicate is a reference, a transform or a function")

    def _reference(self, operand: Mapping[str, Any]) -> tuple[datatypes.NestedField | None, Any]:
        field_id = operand.get("id")
        if isinstance(field_id, int) and not isinstance(field_id, bool):
            column = self._names.columns.get(field_id)
            if column is None:
                raise InvalidFilter(f"Cannot find field {field_id} in the schema")
            return column, self._name(column)
        name = operand.get("name", operand.get("term"))
        if not isinstance(name, str):
            raise InvalidFilter("A reference has a name or an id")
        return self._term(name)

    def _name(self, column: datatypes.NestedField) -> str:
        self._names_characters += len(column.full_name)
        if self._names_characters > NAMES_CHARACTERS_MAX:
            raise InvalidFilter(
                f"The names of a filter's columns have at most {NAMES_CHARACTERS_MAX} characters"
            )
        return column.full_name


def _check_depth(value: Any) -> None:
    """Raise InvalidFilter for a term that nests too deeply to be written again."""
    level = [value]
    for _ in range(TERM_DEPTH_MAX):
        inner: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                inner += each.values()
            elif isinstance(each, list):
                inner += each
        if not inner:
            return
        level = inner
    raise InvalidFilter(f"A term nests at most {TERM_DEPTH_MAX} levels")


def _member(value: Mapping[str, Any], name: str) -> Any:
    try:
        return value[name]
    except KeyError:
        raise InvalidFilter(f"The expression {value.get('type')} has no {name}") from None


def _operand(value: Mapping[str, Any], name: str) -> Any:
    return value[name] if name in value else _member(value, "term")


def _is_term(operand: Any) -> bool:
    return isinstance(operand, dict) and operand.get("type") in ("reference", "transform", "apply")


def _literal(operand: Any) -> Any:
    if isinstance(operand, dict):
        if operand.get("type") != "literal":
            raise InvalidFilter("A literal is a plain value or an object of type literal")
        operand = _member(operand, "value")
    if isinstance(operand, dict | list):
        raise InvalidFilter("A literal is a value of a primitive type")
    return operand


def _typed(type_: Any, spelling: Any) -> Any:
    """Return a literal as a value of its column's type, _UNKNOWN if it is none."""
    try:
        if not datatypes.is_primitive(type_):
            return _UNKNOWN
        return _bounded(datatypes.name_of(type_), type_, spelling)
    except (values.InvalidValue, datatypes.InvalidType, decimal.InvalidOperation):
        return _UNKNOWN


def _bounded(type_name: str, type_: Any, spelling: Any) -> Any:
    if type_name in ("int", "long"):
        if isinstance(spelling, float) and spelling.is_integer():
            spelling = int(spelling)
        if isinstance(spelling, bool) or not isinstance(spelling, int):
            return _UNKNOWN
        return spelling if spelling.bit_length() <= INTEGER_BITS_MAX else _UNKNOWN
    if isinstance(spelling, int) and spelling.bit_length() > INTEGER_BITS_MAX:
        return _UNKNOWN
    if type_name.startswith("timestamp") and isinstance(spelling, str):
        spelling = _spelled_timestamp(type_name, spelling)
    typed = values.from_json(type_, spelling)
    if isinstance(typed, decimal.Decimal):
        # a number with a vast exponent takes vast memory as an integer
        exponent = typed.adjusted() if typed else 0
        return typed if abs(exponent) <= DECIMAL_EXPONENT_MAX else _UNKNOWN
    return _single(typed) if type_name == "float" and isinstance(typed, float) else typed


def _spelled_timestamp(type_name: str, text: str) -> str:
    """Return a time with a zone for a column with one: some clients omit it where it is UTC."""
    zoned = text.endswith("Z") or "+" in text[10:] or "-" in text[10:]
    return text if zoned or "tz" not in type_name else f"{text}+00:00"


def _spelled(type_: Any, typed: Any, spelling: Any) -> Any:
    """Return a literal for a residual: dates and times as text, others as the client wrote them."""
    if datatypes.name_of(type_) not in _TEMPORAL:
        return spelling
    try:
        return values.to_json(type_, typed)
    except values.InvalidValue:
        return spelling


def _single(number: float) -> float:
    """Return a number as a column of type float stores it."""
    try:
        rounded: float = struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        rounded = math.copysign(math.inf, number)
    return rounded


def _among(column: int, members: Sequence[Any], *, negated: bool) -> pruning.Predicate:
    if len(members) <= PRUNING_VALUES_MAX:
        return pruning.Membership(column=column, values=tuple(members), negated=negated)
    comparable = not any(isinstance(each, float) and math.isnan(each) for each in members)
    if negated or not comparable:
        return pruning.UNKNOWN
    return pruning.And(
        parts=(
            pruning.Comparison(op="gt-eq", column=column, value=min(members)),
            pruning.Comparison(op="lt-eq", column=column, value=max(members)),
        )
    )


class _Budget:
    """Makes the predicate for pruning, of at most PRUNING_WEIGHT_MAX comparisons. Mutable."""

    def __init__(self) -> None:
        self.spent = 0

    def predicate_of(self, expression: Expression, *, negate: bool = False) -> pruning.Predicate:
        """Return a predicate that every row of the expression, negated or not, satisfies.

        A `not` is moved into the leaves here: the range of a long membership has more values
        than its list, so that its negation would be no predicate for pruning.
        """
        match expression:
            case bool():
                return pruning.Constant(value=expression is not negate)
            case Negation(part=part):
                return self.predicate_of(part, negate=not negate)
            case Connective(op=op, parts=parts):
                inner = tuple([self.predicate_of(part, negate=negate) for part in parts])
                is_and = (op == "and") is not negate
                return pruning.And(parts=inner) if is_and else pruning.Or(parts=inner)
            case Leaf(predicate=predicate):
                weight = _weight(predicate)
                is_range = isinstance(predicate, pruning.And)
                if (negate and is_range) or self.spent + weight > PRUNING_WEIGHT_MAX:
                    return pruning.UNKNOWN
                self.spent += weight
                return pruning.Not(part=predicate) if negate else predicate


def _weight(predicate: pruning.Predicate) -> int:
    match predicate:
        case pruning.Membership(values=members):
            return max(1, len(members))
        case pruning.And(parts=parts):
            return len(parts)
    return 1


# --- residuals ----------------------------------------------------------------------------------


class Residuals:
    """What remains of a filter for the rows of a file whose partition is known.

    Mutable: it keeps the residuals of the partitions that it has seen.
    """

    def __init__(
        self, filter_: Filter, specs: Sequence[Mapping[str, Any]], schema: Mapping[str, Any]
    ) -> None:
        self._expression = filter_.expression
        self._specs = {spec["spec-id"]: spec for spec in specs}
        is_decided = isinstance(self._expression, bool) or not any(spec["fields"] for spec in specs)
        self._columns = {} if is_decided else datatypes.columns(schema)
        self._decided: dict[int, dict[int, tuple[Any, Any]]] = {}
        self._kept: dict[Any, msgspec.Raw] = {}
        self._whole = _encode(self._expression)

    def of(self, file: manifests.DataFile) -> msgspec.Raw:
        """Return the JSON of a file's residual.

        Of a large filter only the first predicates are decided; the others remain.
        """
        filters = self._filters_of(file.spec_id)
        if not filters:
            return self._whole
        key = (file.spec_id, tuple([(type(value), value) for value in file.partition]))
        kept = self._kept.get(key)
        if kept is None:
            kept = _encode(self._remains(self._expression, filters, file.partition))
            if len(self._kept) < RESIDUALS_KEPT_MAX:
                self._kept[key] = kept
        return kept

    def _filters_of(self, spec_id: int) -> dict[int, tuple[Any, Any]]:
        """Return, by leaf, the filters of partitions that may match it, and its negation."""
        filters = self._decided.get(spec_id)
        if filters is None:
            filters = self._decided[spec_id] = {}
            spec = self._specs.get(spec_id)
            if spec is not None and spec["fields"] and self._columns:
                self._decide(self._expression, spec, filters)
        return filters

    def _decide(
        self,
        expression: Expression,
        spec: Mapping[str, Any],
        filters: dict[int, tuple[Any, Any]],
    ) -> None:
        sources = {field.get("source-id") for field in spec["fields"]}
        sources |= {each for field in spec["fields"] for each in field.get("source-ids") or ()}
        present = [self._columns[source] for source in sources if source in self._columns]
        flat = {
            "fields": [
                {"id": each.field_id, "name": each.name, "type": each.type, "required": False}
                for each in present
            ]
        }
        spent = 0
        for leaf in _leaves(expression):
            weight = _weight(leaf.predicate)
            if spent + weight <= PRUNING_WEIGHT_MAX and _column_of(leaf.predicate) in sources:
                spent += weight
                matching, failing = [
                    pruning.PartitionFilter(predicate, spec, flat)
                    for predicate in (leaf.predicate, pruning.Not(part=leaf.predicate))
                ]
                if not (matching.keeps_all and failing.keeps_all):
                    filters[id(leaf)] = (matching, failing)

    def _remains(
        self,
        expression: Expression,
        filters: Mapping[int, tuple[Any, Any]],
        partition: Sequence[Any],
        *,
        negated: bool = False,
    ) -> Expression:
        """Return what remains of an expression. negated: it is inside an odd number of `not`.

        A comparison with null is neither true nor false: no row of a null partition satisfies it,
        and none its negation. It remains as what no row satisfies where it stands.
        """
        match expression:
            case bool():
                return expression
            case Negation(part=part):
                inner = self._remains(part, filters, partition, negated=not negated)
                return not inner if isinstance(inner, bool) else Negation(part=inner)
            case Connective(op=op, parts=parts):
                decides = op == "or"  # true decides an or, false an and
                kept: list[Expression] = []
                for part in parts:
                    inner = self._remains(part, filters, partition, negated=negated)
                    if isinstance(inner, bool):
                        if inner is decides:
                            return decides
                    else:
                        kept.append(inner)
                if not kept:
                    return not decides
                return kept[0] if len(kept) == 1 else Connective(op=op, parts=tuple(kept))
            case Leaf():
                matching, failing = filters.get(id(expression), (None, None))
                if matching is None or len(partition) == 0:
                    return expression
                matches = matching.may_match_partition(partition)
                fails = failing.may_match_partition(partition)
                if not (matches or fails):
                    return negated
                return expression if matches is fails else matches


def _leaves(expression: Expression) -> list[Leaf]:
    match expression:
        case Leaf():
            return [expression]
        case Negation(part=part):
            return _leaves(part)
        case Connective(parts=parts):
            return [leaf for part in parts for leaf in _leaves(part)]
        case bool():
            return []


def _column_of(predicate: pruning.Predicate) -> int | None:
    match predicate:
        case pruning.Comparison() | pruning.Membership() | pruning.UnaryPredicate():
            return predicate.column
    return None


def _encode(expression: Expression) -> msgspec.Raw:
    return msgspec.Raw(_encoded(expression))


def _encoded(expression: Expression) -> bytes:
    """Return an expression's JSON."""
    match expression:
        case bool():
            return b"true" if expression else b"false"
        case Leaf(json=json):
            return msgspec.json.encode(json)
        case Negation(part=part):
            return b'{"type":"not","child":%s}' % _encoded(part)
        case Connective(op=op, parts=parts):
            return _balanced(op.encode(), [_encoded(part) for part in parts])


def _balanced(op: bytes, parts: Sequence[bytes]) -> bytes:
    """Return a chain as pairs of halves, so that its depth is the logarithm of its length."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    left, right = _balanced(op, parts[:half]), _balanced(op, parts[half:])
    return b'{"type":"%s","left":%s,"right":%s}' % (op, left, right)
