"""rule: AWS policy documents, parsed once into matchers.

A document is checked completely: an element, operator, action prefix, ARN, address or date that is
not valid is refused with its path in the document, because a typo that is stored silently allows or
denies. A compiled policy answers whether a statement applies to a demand; `server.access.decide`
combines statements. Source: IAM user guide, "Policy elements" and "grammar".
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Final, Literal, TypeAlias

from server import limits
from server.access import actions, conditionkeys, errors, model

PolicyType: TypeAlias = Literal["identity", "resource"]
Values: TypeAlias = Mapping[str, tuple[str, ...]]
"""A demand's condition keys, in lower case, with all their values."""

VERSIONS: Final = ("2012-10-17", "2008-10-17")
ACTION_PREFIXES: Final = frozenset(actions.ACTIONS)
KEY_PREFIXES: Final = frozenset({"aws", "s3", "s3tables", "iam", "sts", "lake"})
DOCUMENT_ELEMENTS: Final = frozenset({"Version", "Id", "Statement"})
STATEMENT_ELEMENTS: Final = frozenset(
    {"Sid", "Effect", "Principal", "NotPrincipal", "Action", "NotAction", "Resource",
     "NotResource", "Condition"}
)  # fmt: skip
PRINCIPAL_TYPES: Final = frozenset({"AWS", "CanonicalUser", "Service", "Federated"})

STAR: Final = "*"
"""Any run of characters, in a list of regular expression pieces, in which a star is `\\*`."""

_ACTION: Final = re.compile(r"([a-z0-9-]+):([a-z0-9*?]+)", re.IGNORECASE)
_PRINCIPAL_ARN: Final = re.compile(
    r"arn:aws[a-z-]*:(iam|sts)::([0-9]{12})?:(root|user/.+|role/.+|assumed-role/.+)"
)
_VARIABLE: Final = re.compile(r"\$\{([^}]*)\}")
_EPOCH: Final = re.compile(r"[0-9]{1,12}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Pattern:
    """A text with `*`, `?` and, if they are enabled, variables like `${aws:username}`.

    parts: pieces of a regular expression, STAR, and variables as tuples (key, default or None).
    regex: the whole expression, if it has no variable.
    """

    text: str
    parts: tuple[str | tuple[str, str | None], ...]
    regex: re.Pattern[str] | None
    ignore_case: bool = False

    def matches(self, value: str, values: Values) -> bool:
        """Return whether value matches.

        A variable without a single value, or with a very long one, matches nothing. A value longer
        than any name that exists is matched by `*` alone.
        """
        if len(value) > limits.POLICY_MATCHED_CHARS_MAX:
            return self.text == "*"
        if self.regex is not None:
            return self.regex.fullmatch(value) is not None
        pieces = []
        for part in self.parts:
            if isinstance(part, str):
                pieces.append(part)
                continue
            key, default = part
            key_values = values.get(key, ())
            if len(key_values) != 1 and default is None:
                return False
            text = key_values[0] if len(key_values) == 1 else default or ""
            if len(text) > limits.POLICY_VARIABLE_CHARS_MAX:
                return False
            pieces.append(re.escape(text))
        return _compile(pieces, self.ignore_case).fullmatch(value) is not None


Test: TypeAlias = Callable[[str, Values], bool]


@dataclass(frozen=True, kw_only=True, slots=True)
class Condition:
    """One operator on one key. negated: no test may hold, instead of one must hold."""

    operator: str
    key: str
    tests: tuple[Test, ...]
    negated: bool
    if_exists: bool
    quantifier: Literal["", "ForAnyValue", "ForAllValues"]
    null: bool | None = None

    def holds(self, values: Values) -> bool:
        """Return whether the demand's values meet the condition."""
        key_values = values.get(self.key, ())
        if self.null is not None:
            return (not key_values) is self.null
        if not key_values:
            if self.if_exists or self.quantifier == "ForAllValues":
                return True
            return self.negated and self.quantifier == ""
        fits = [any(test(value, values) for test in self.tests) for value in key_values]
        match self.quantifier:
            case "ForAllValues":
                return not any(fits) if self.negated else all(fits)
            case "ForAnyValue":
                return not all(fits) if self.negated else any(fits)
            case _:
                return not any(fits) if self.negated else any(fits)


PrincipalMatch: TypeAlias = Literal["none", "account", "direct"]


@dataclass(frozen=True, kw_only=True, slots=True)
class PrincipalElement:
    """The principals that a resource policy's statement names. accounts: account ids, which stand
    for every principal of the account that its own policies allow."""

    everyone: bool = False
    accounts: frozenset[str] = frozenset()
    arns: frozenset[str] = frozenset()
    canonical_ids: frozenset[str] = frozenset()

    def match(self, principal: model.Principal) -> PrincipalMatch:
        """Return how the statement names principal: itself, or its account."""
        if self.everyone or principal.arn in self.arns:
            return "direct"
        if principal.type == "anonymous":
            return "none"
        if principal.canonical_id in self.canonical_ids:
            return "direct"
        return "account" if principal.account_id in self.accounts else "none"


@dataclass(frozen=True, kw_only=True, slots=True)
class Statement:
    """One compiled statement. name: its Sid, or its number in the document."""

    name: str
    allow: bool
    principals: PrincipalElement | None
    not_principals: bool
    actions: tuple[Pattern, ...]
    not_actions: bool
    resources: tuple[Pattern, ...]
    not_resources: bool
    conditions: tuple[Condition, ...]

    def applies(self, action: str, resource: str, values: Values) -> bool:
        """Return whether the statement applies to this demand, for any principal."""
        return (
            any(p.matches(action, values) for p in self.actions) is not self.not_actions
            and any(p.matches(resource, values) for p in self.resources) is not self.not_resources
            and all(condition.holds(values) for condition in self.conditions)
        )

    def names(self, principal: model.Principal) -> PrincipalMatch:
        """Return how the statement names this principal; identity policies always apply to it."""
        if self.principals is None:
            return "direct"
        match = self.principals.match(principal)
        if self.not_principals:
            return "none" if match != "none" else "direct"
        return match


@dataclass(frozen=True, kw_only=True, slots=True)
class CompiledPolicy:
    """A checked document, ready for evaluation."""

    statements: tuple[Statement, ...]
    policy_type: PolicyType


def parse_policy(
    document: str | bytes | Mapping[str, Any], *, policy_type: PolicyType
) -> CompiledPolicy:
    """Return the policy of a document (JSON text, or decoded).

    policy_type: an identity policy has no Principal; a resource policy has Principal or
    NotPrincipal. Raises MalformedPolicy with the path of the fault.
    """
    if isinstance(document, str | bytes):
        if len(document) > limits.POLICY_BYTES_MAX:
            raise _fault("", f"a policy is at most {limits.POLICY_BYTES_MAX} bytes long")
        try:
            document = json.loads(document, object_pairs_hook=_unique)
        except (ValueError, RecursionError) as error:
            raise _fault("", f"this is not JSON: {error}") from None
    if not isinstance(document, Mapping):
        raise _fault("", "a policy is a JSON object")
    _check_elements(document, DOCUMENT_ELEMENTS, "")
    version = document.get("Version", VERSIONS[1])
    if version not in VERSIONS:
        raise _fault("Version", f"must be one of {', '.join(VERSIONS)}")
    if "Id" in document and not isinstance(document["Id"], str):
        raise _fault("Id", "must be text")
    if "Statement" not in document:
        raise _fault("Statement", "is missing")
    raw = document["Statement"]
    listed = isinstance(raw, list | tuple)
    entries: Sequence[Any] = raw if listed else [raw]
    if not entries:
        raise _fault("Statement", "has no statement")
    if len(entries) > limits.POLICY_STATEMENTS_MAX:
        raise _fault("Statement", f"there are more than {limits.POLICY_STATEMENTS_MAX} statements")
    statements = []
    sids: set[str] = set()
    for index, entry in enumerate(entries):
        path = f"Statement[{index}]" if listed else "Statement"
        statement = _statement(entry, path, index, policy_type, variables=version == VERSIONS[0])
        if sid := entry.get("Sid"):
            if sid in sids:
                raise _fault(f"{path}.Sid", f"{sid!r} appears twice")
            sids.add(sid)
        statements.append(statement)
    if policy_type == "resource":
        _check_variables_count(document)
    return CompiledPolicy(statements=tuple(statements), policy_type=policy_type)


def _check_variables_count(document: Mapping[str, Any]) -> None:
    """Raise MalformedPolicy for many variables: each is an expression to compile at every request.

    Clients write the policies of resources, and the event loop evaluates them.
    """
    if json.dumps(document).count("${") > limits.POLICY_VARIABLES_MAX:
        raise _fault("", f"a policy has at most {limits.POLICY_VARIABLES_MAX} variables")


def _statement(
    entry: Any, path: str, index: int, policy_type: PolicyType, *, variables: bool
) -> Statement:
    if not isinstance(entry, Mapping):
        raise _fault(path, "a statement is a JSON object")
    _check_elements(entry, STATEMENT_ELEMENTS, path)
    sid = entry.get("Sid", "")
    if not isinstance(sid, str):
        raise _fault(f"{path}.Sid", "must be text")
    if entry.get("Effect") not in ("Allow", "Deny"):
        raise _fault(f"{path}.Effect", "must be Allow or Deny")
    action_element = _one_of(entry, "Action", "NotAction", path)
    resource_element = _one_of(entry, "Resource", "NotResource", path)
    principals, not_principals = None, False
    if policy_type == "identity":
        for element in ("Principal", "NotPrincipal"):
            if element in entry:
                raise _fault(f"{path}.{element}", "is not allowed in an identity's policy")
    else:
        element = _one_of(entry, "Principal", "NotPrincipal", path)
        principals = _principals(entry[element], f"{path}.{element}")
        not_principals = element == "NotPrincipal"
    return Statement(
        name=sid or str(index),
        allow=entry["Effect"] == "Allow",
        principals=principals,
        not_principals=not_principals,
        actions=tuple(
            _action(text, where)
            for text, where in _texts(entry[action_element], f"{path}.{action_element}")
        ),
        not_actions=action_element == "NotAction",
        resources=tuple(
            _resource(text, where, variables=variables)
            for text, where in _texts(entry[resource_element], f"{path}.{resource_element}")
        ),
        not_resources=resource_element == "NotResource",
        conditions=_conditions(
            entry.get("Condition", {}), f"{path}.Condition", variables=variables
        ),
    )


def _action(text: str, path: str) -> Pattern:
    if text != "*":
        match = _ACTION.fullmatch(text)
        if match is None:
            raise _fault(path, f"{text!r} is not an action, like s3:GetObject")
        if match[1].lower() not in ACTION_PREFIXES:
            raise _fault(
                path, f"no service {match[1]!r}; the services are {_listed(ACTION_PREFIXES)}"
            )
        fault = actions.suggest(match[1].lower(), match[2])
        if fault is not None:
            raise _fault(path, fault)
    return compile_pattern(text, variables=False, ignore_case=True)


def _resource(text: str, path: str, *, variables: bool) -> Pattern:
    if text != "*":
        parts = text.split(":", 5)
        if len(parts) != 6 or parts[0] != "arn" or not parts[5]:
            raise _fault(path, f"{text!r} is neither * nor an ARN")
        if not re.fullmatch(r"aws(-[a-z]+)*|\*", parts[1]):
            raise _fault(path, f"{text!r}: no partition {parts[1]!r}")
        if parts[2] not in ACTION_PREFIXES and parts[2] != "*":
            raise _fault(path, f"{text!r}: no service {parts[2]!r}")
    if variables:
        _check_variables(text, path)
    return compile_pattern(text, variables=variables)


def _principals(value: Any, path: str) -> PrincipalElement:
    if value == "*":
        return PrincipalElement(everyone=True)
    if not isinstance(value, Mapping) or not value:
        raise _fault(path, 'must be "*" or an object like {"AWS": "arn:..."}')
    _check_elements(value, PRINCIPAL_TYPES, path)
    everyone = False
    accounts, arns, canonical_ids = set(), set(), set()
    for name, listed in value.items():
        for text, where in _texts(listed, f"{path}.{name}"):
            if name == "CanonicalUser":
                canonical_ids.add(text)
            elif name != "AWS":
                continue  # a service or a federation: validated, but no principal here matches
            elif text == "*":
                everyone = True
            elif re.fullmatch(r"[0-9]{12}", text):
                accounts.add(text)
            elif "*" in text or "?" in text:
                # It would be compared as it stands, and a Deny would never bind.
                raise _fault(where, f"{text!r}: a principal has no wildcards, except * alone")
            elif match := _PRINCIPAL_ARN.fullmatch(text):
                if match[3] == "root" and match[2]:
                    accounts.add(match[2])
                arns.add(text)
            else:
                raise _fault(
                    where, f"{text!r} is neither an account id nor an ARN of a user or role"
                )
    return PrincipalElement(
        everyone=everyone,
        accounts=frozenset(accounts),
        arns=frozenset(arns),
        canonical_ids=frozenset(canonical_ids),
    )


def _conditions(value: Any, path: str, *, variables: bool) -> tuple[Condition, ...]:
    if not isinstance(value, Mapping):
        raise _fault(path, "must be an object: operator, then key, then values")
    conditions = []
    for operator, keys in value.items():
        where = f"{path}.{operator}"
        if not isinstance(keys, Mapping):
            raise _fault(where, "must be an object: key, then values")
        for key, raw in keys.items():
            conditions.append(_condition(operator, key, raw, f"{where}.{key}", variables=variables))
    return tuple(conditions)


def _condition(operator: str, key: str, raw: Any, path: str, *, variables: bool) -> Condition:
    quantifier, colon, bare = operator.rpartition(":")
    if colon and quantifier not in ("ForAnyValue", "ForAllValues"):
        raise _fault(path.rsplit(".", 1)[0], f"no operator {operator!r}")
    if_exists = bare.endswith("IfExists")
    bare = bare.removesuffix("IfExists")
    if bare not in OPERATORS or (bare == "Null" and (if_exists or colon)):
        raise _fault(path, f"no operator {operator!r}")
    prefix, colon, rest = key.partition(":")
    if not colon or not rest or prefix.lower() not in KEY_PREFIXES:
        raise _fault(path, f"no condition key {key!r}; keys start with {_listed(KEY_PREFIXES)}")
    fault = conditionkeys.suggest(prefix.lower(), rest)
    if fault is not None:
        raise _fault(path, fault)
    texts = _texts(raw, path, scalars=True)
    null = None
    negated = False
    tests: tuple[Test, ...] = ()
    if bare == "Null":
        if len(texts) != 1 or texts[0][0].lower() not in ("true", "false"):
            raise _fault(path, "Null takes true or false")
        null = texts[0][0].lower() == "true"
    else:
        build, negated = OPERATORS[bare]
        tests = tuple(build(text, where, variables) for text, where in texts)
    return Condition(
        operator=operator,
        key=key.lower(),
        tests=tests,
        negated=negated,
        if_exists=if_exists,
        quantifier=quantifier if quantifier in ("ForAnyValue", "ForAllValues") else "",  # type: ignore[arg-type]  # checked above
        null=null,
    )


def compile_pattern(
    text: str, *, variables: bool, ignore_case: bool = False, wildcards: bool = True
) -> Pattern:
    """Return the matcher of a text with `*`, `?` and, from version 2012-10-17 on, variables."""
    parts: list[str | tuple[str, str | None]] = []
    position = 0
    while position < len(text):
        variable = _VARIABLE.match(text, position) if variables else None
        if variable is not None:
            parts.append(_variable(variable[1]))
            position = variable.end()
            continue
        character = text[position]
        if wildcards and character in "*?":
            parts.append(STAR if character == "*" else ".")
        else:
            parts.append(re.escape(character))
        position += 1
    pieces = [part for part in parts if isinstance(part, str)]
    regex = _compile(pieces, ignore_case) if len(pieces) == len(parts) else None
    return Pattern(text=text, parts=tuple(parts), regex=regex, ignore_case=ignore_case)


def _compile(pieces: Sequence[str], ignore_case: bool) -> re.Pattern[str]:
    """Return the expression of pieces and stars.

    The text between two stars matches at its first occurrence only: without these atomic groups a
    key could make a pattern of many stars backtrack for hours.
    """
    runs: list[list[str]] = [[]]
    for piece in pieces:
        if piece == STAR:
            runs.append([])
        else:
            runs[-1].append(piece)
    first, *others = ("".join(run) for run in runs)
    text = first
    if others:
        text += "".join(f"(?>.*?{run})" for run in others[:-1] if run) + ".*" + others[-1]
    return re.compile(text, re.DOTALL | (re.IGNORECASE if ignore_case else 0))


def _check_variables(text: str, path: str) -> None:
    """Raise MalformedPolicy for a variable of a condition key that does not exist."""
    for inside in _VARIABLE.findall(text):
        named = _variable(inside)
        if isinstance(named, str):
            continue
        service, colon, name = named[0].partition(":")
        if not colon or not name or service not in KEY_PREFIXES:
            raise _fault(path, f"no condition key {named[0]!r} for the variable ${{{inside}}}")
        fault = conditionkeys.suggest(service, name)
        if fault is not None:
            raise _fault(path, f"the variable ${{{inside}}}: {fault}")


def _variable(inside: str) -> str | tuple[str, str | None]:
    if inside in ("*", "?", "$"):
        return re.escape(inside)
    name, comma, default = inside.partition(",")
    quoted = re.fullmatch(r"\s*'(.*)'\s*", default) if comma else None
    return name.strip().lower(), quoted[1] if quoted else None


def _text_test(*, ignore_case: bool, wildcards: bool) -> Callable[[str, str, bool], Test]:
    def build(text: str, path: str, variables: bool) -> Test:
        if variables:
            _check_variables(text, path)
        pattern = compile_pattern(
            text, variables=variables, ignore_case=ignore_case, wildcards=wildcards
        )
        return pattern.matches

    return build


def _arn_test(text: str, path: str, variables: bool) -> Test:
    parts = text.split(":", 5)
    if text == "*":
        parts = ["*"] * 6
    if len(parts) != 6:
        raise _fault(path, f"{text!r} is not an ARN")
    if variables:
        _check_variables(text, path)
    patterns = [compile_pattern(part, variables=variables) for part in parts]

    def test(value: str, values: Values) -> bool:
        value_parts = value.split(":", 5)
        return len(value_parts) == 6 and all(
            pattern.matches(part, values)
            for pattern, part in zip(patterns, value_parts, strict=True)
        )

    return test


Comparison: TypeAlias = Callable[[Any, Any], bool]


def _ordered_test(
    read: Callable[[str], Any], what: str, compare: Comparison
) -> Callable[[str, str, bool], Test]:
    def build(text: str, path: str, variables: bool) -> Test:
        wanted = read(text)
        if wanted is None:
            raise _fault(path, f"{text!r} is not {what}")

        def test(value: str, values: Values) -> bool:
            parsed_value = read(value)
            return parsed_value is not None and compare(parsed_value, wanted)

        return test

    return build


def _number(text: str) -> Decimal | None:
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def _date(text: str) -> datetime | None:
    try:
        if _EPOCH.fullmatch(text):
            return datetime.fromtimestamp(int(text), tz=UTC)
        moment = datetime.fromisoformat(text)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _bool_test(text: str, path: str, variables: bool) -> Test:
    wanted = text.lower()
    if wanted not in ("true", "false"):
        raise _fault(path, f"{text!r} is neither true nor false")
    return lambda value, values: value.lower() == wanted


def _binary_test(text: str, path: str, variables: bool) -> Test:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise _fault(path, f"{text!r} is not base64") from None
    return lambda value, values: value == text


def _address_test(text: str, path: str, variables: bool) -> Test:
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise _fault(path, f"{text!r} is neither an IP address nor a CIDR range") from None

    def test(value: str, values: Values) -> bool:
        try:
            return ipaddress.ip_address(value) in network
        except ValueError:
            return False

    return test


_EQUAL: Comparison = lambda value, wanted: bool(value == wanted)  # noqa: E731 - rows of a table
_LESS: Comparison = lambda value, wanted: bool(value < wanted)  # noqa: E731
_LESS_EQUAL: Comparison = lambda value, wanted: bool(value <= wanted)  # noqa: E731
_MORE: Comparison = lambda value, wanted: bool(value > wanted)  # noqa: E731
_MORE_EQUAL: Comparison = lambda value, wanted: bool(value >= wanted)  # noqa: E731


def _never(text: str, path: str, variables: bool) -> Test:
    raise AssertionError("the operator Null has no test")


OPERATORS: Final[Mapping[str, tuple[Callable[[str, str, bool], Test], bool]]] = {
    "StringEquals": (_text_test(ignore_case=False, wildcards=False), False),
    "StringNotEquals": (_text_test(ignore_case=False, wildcards=False), True),
    "StringEqualsIgnoreCase": (_text_test(ignore_case=True, wildcards=False), False),
    "StringNotEqualsIgnoreCase": (_text_test(ignore_case=True, wildcards=False), True),
    "StringLike": (_text_test(ignore_case=False, wildcards=True), False),
    "StringNotLike": (_text_test(ignore_case=False, wildcards=True), True),
    "ArnEquals": (_arn_test, False),
    "ArnNotEquals": (_arn_test, True),
    "ArnLike": (_arn_test, False),
    "ArnNotLike": (_arn_test, True),
    "NumericEquals": (_ordered_test(_number, "a number", _EQUAL), False),
    "NumericNotEquals": (_ordered_test(_number, "a number", _EQUAL), True),
    "NumericLessThan": (_ordered_test(_number, "a number", _LESS), False),
    "NumericLessThanEquals": (_ordered_test(_number, "a number", _LESS_EQUAL), False),
    "NumericGreaterThan": (_ordered_test(_number, "a number", _MORE), False),
    "NumericGreaterThanEquals": (_ordered_test(_number, "a number", _MORE_EQUAL), False),
    "DateEquals": (_ordered_test(_date, "a date", _EQUAL), False),
    "DateNotEquals": (_ordered_test(_date, "a date", _EQUAL), True),
    "DateLessThan": (_ordered_test(_date, "a date", _LESS), False),
    "DateLessThanEquals": (_ordered_test(_date, "a date", _LESS_EQUAL), False),
    "DateGreaterThan": (_ordered_test(_date, "a date", _MORE), False),
    "DateGreaterThanEquals": (_ordered_test(_date, "a date", _MORE_EQUAL), False),
    "Bool": (_bool_test, False),
    "BinaryEquals": (_binary_test, False),
    "IpAddress": (_address_test, False),
    "NotIpAddress": (_address_test, True),
    "Null": (_never, False),
}
"""Operator -> the function that makes a test of a value, and whether the operator is negated."""


def _texts(value: Any, path: str, *, scalars: bool = False) -> list[tuple[str, str]]:
    """Return the text or texts at path, each with its own path. scalars: accept numbers and
    booleans too, as conditions do."""
    listed = isinstance(value, list | tuple)
    entries: Sequence[Any] = value if listed else [value]
    if not entries or len(entries) > limits.POLICY_VALUES_MAX:
        raise _fault(path, "has no value" if not entries else "has too many values")
    texts = []
    for index, entry in enumerate(entries):
        where = f"{path}[{index}]" if listed else path
        if scalars and isinstance(entry, bool):
            entry = "true" if entry else "false"
        elif scalars and isinstance(entry, int | float):
            entry = str(entry)
        if not isinstance(entry, str) or (not entry and not scalars):
            raise _fault(where, "must be text")
        texts.append((entry, where))
    return texts


def _one_of(entry: Mapping[str, Any], element: str, opposite: str, path: str) -> str:
    if (element in entry) == (opposite in entry):
        raise _fault(path, f"needs either {element} or {opposite}")
    return element if element in entry else opposite


def _check_elements(value: Mapping[str, Any], allowed: frozenset[str], path: str) -> None:
    for name in value:
        if name not in allowed:
            where = f"{path}.{name}" if path else str(name)
            raise _fault(where, f"unknown element; the elements are {_listed(allowed)}")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("an object has the same element twice")
    return members


def _listed(names: frozenset[str]) -> str:
    return ", ".join(sorted(names))


def _fault(path: str, what: str) -> errors.MalformedPolicy:
    return errors.MalformedPolicy(f"{path}: {what}" if path else what, path=path)
