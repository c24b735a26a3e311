"""rule: AWS policy documents, parsed once into matchers.

A document is checked completely: an element, operator, action prefix, ARN, address or date that is
not valid is refused with its path in the document, because a typo that is stored silently allows or
denies. A compiled policy answers whether a statement applies to a demand; `server.access.decide`
combines statements. Source: IAM user guide, "Policy elements" and "grammar".
"""

from __future__ import annotations

import base64
import binascii
import functools
import ipaddress
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

import msgspec

from server import limits
from server.access import actions, conditionkeys, errors, globs, model

PolicyType: TypeAlias = Literal["identity", "resource", "trust"]
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

_ACTION: Final = re.compile(r"([a-z0-9-]+):([a-z0-9*?]+)", re.IGNORECASE)
_PRINCIPAL_ARN: Final = re.compile(
    r"arn:aws[a-z-]*:(iam|sts)::([0-9]{12}|[A-Za-z][A-Za-z0-9_-]*)?"
    r":(root|user/.+|role/.+|assumed-role/.+)"
)
"""Other stores name accounts by words; here no caller is in such an account."""
_PARTITION: Final = re.compile(r"aws(-[a-z]+)*|\*")
_ACCOUNT: Final = re.compile(r"[0-9]{12}")
_QUOTED: Final = re.compile(r"\s*'(.*)'\s*")
_EPOCH: Final = re.compile(r"[0-9]{1,12}")

EXISTING_TAG: Final = "s3:existingobjecttag/"
"""The beginning of the condition keys of an object's tags, in lower case."""
RESOURCE_TAGS: Final = ("resourcetag/", "s3tables:tablebuckettag/")
"""Beginnings of the condition keys of other tags: `aws:ResourceTag/`, `iam:ResourceTag/`."""
TAGS: Final = (
    "aws:principaltag/",
    "aws:requesttag/",
    "aws:resourcetag/",
    "iam:resourcetag/",
    EXISTING_TAG,
    "s3:requestobjecttag/",
    "s3tables:tablebuckettag/",
)
"""Beginnings of the condition keys of all tags. One has several values if tags have keys that
differ only in case: condition keys have none."""
PARSED_VALUES_REMEMBERED: Final = 16
"""Values of requests that are remembered parsed: each is compared with many of a policy."""
ACTIONS_ABOUT_MAX: Final = 64
ACTION_CHARS_MAX: Final = 128
"""Actions of which a policy remembers its statements, and the longest: a client asks for few."""
_NO_VALUES: Final[Values] = MappingProxyType({})


class PolicyVariable(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A variable of a pattern: a condition key in lower case, and the text used without it."""

    key: str
    default: str | None

    def text(self, values: Values) -> str | None:
        """Return its text, or None if it has none, several, or a very long one."""
        key_values = values.get(self.key, ())
        text = key_values[0] if len(key_values) == 1 else self.default
        return text if text is None or len(text) <= limits.POLICY_VARIABLE_CHARS_MAX else None


class Pattern(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A text with `*`, `?` and, if they are enabled, variables like `${aws:username}`.

    glob: the whole, in lower case if case is ignored; None if it has variables. elements: what to
    build it of once the variables have values. prefix: all of it, if a `*` ends it and it has no
    other wildcard; most patterns of every request are such.
    """

    text: str
    glob: globs.Glob | None
    prefix: str | None = None
    elements: tuple[globs.Element | PolicyVariable, ...] = ()
    ignore_case: bool = False

    def matches(self, value: str, values: Values) -> bool:
        """Return whether value matches.

        A variable without a single value, or with a very long one, matches nothing. A value longer
        than any name that exists is matched by `*` alone.
        """
        if len(value) > limits.POLICY_MATCHED_CHARS_MAX:
            return self.text == "*"
        if self.ignore_case:
            value = value.lower()
        if self.prefix is not None:
            return value.startswith(self.prefix)
        glob = self._filled(values) if self.glob is None else self.glob
        return glob is not None and glob.matches(value)

    def _filled(self, values: Values) -> globs.Glob | None:
        """Return the glob with the values of its variables, or None if one has no value."""
        elements: list[globs.Element] = []
        for element in self.elements:
            if not isinstance(element, PolicyVariable):
                elements.append(element)
                continue
            text = element.text(values)
            if text is None:
                return None
            elements.append(text.lower() if self.ignore_case else text)
        return globs.build(elements)


Test: TypeAlias = Callable[[str, Values], bool]


@dataclass(frozen=True, kw_only=True, slots=True)
class Condition:
    """One operator on one key. negated: no test may hold, instead of one must hold. is_tag: the key
    is that of a tag. variable_tags: the keys of tags that variables in the tests name."""

    operator: str
    key: str
    tests: tuple[Test, ...]
    negated: bool
    if_exists: bool
    quantifier: Literal["", "ForAnyValue", "ForAllValues"]
    null: bool | None = None
    is_tag: bool = False
    variable_tags: frozenset[str] = frozenset()

    def holds(self, values: Values, *, allow: bool) -> bool:
        """Return whether the demand's values meet the condition. allow: of its statement.

        Of a tag with several values, each must meet the condition of an Allow, and one that of a
        Deny. A variable that names such a tag fails an Allow, and fits a Deny.
        """
        if self.variable_tags and _has_several(self.variable_tags, values):
            return not allow
        key_values = values.get(self.key, ())
        if self.is_tag and len(key_values) > 1:
            holding = [self._is_met((value,), values) for value in key_values]
            return all(holding) if allow else any(holding)
        return self._is_met(key_values, values)

    def _is_met(self, key_values: tuple[str, ...], values: Values) -> bool:
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
    for every principal of the account that its own policies allow. services: names of services of
    AWS; of this server's, only the delivery of logs acts as one. federations: ARNs of identity
    providers."""

    everyone: bool = False
    accounts: frozenset[str] = frozenset()
    arns: frozenset[str] = frozenset()
    canonical_ids: frozenset[str] = frozenset()
    services: frozenset[str] = frozenset()
    federations: frozenset[str] = frozenset()

    def match(self, principal: model.Principal) -> PrincipalMatch:
        """Return how the statement names principal: itself, or its account."""
        if self.everyone and principal.type == "web-identity":
            # A Deny to everyone binds. An Allow to everyone trusts no provider: it names accounts.
            return "account"
        if self.everyone or principal.arn in self.arns or principal.role_arn in self.arns:
            return "direct"
        if principal.type == "service":
            return "direct" if principal.name in self.services else "none"
        if principal.type == "web-identity":
            return "direct" if principal.arn in self.federations else "none"
        if principal.type == "anonymous":
            return "none"
        if principal.canonical_id in self.canonical_ids:
            return "direct"
        return "account" if principal.account_id in self.accounts else "none"


@dataclass(frozen=True, kw_only=True, slots=True)
class Statement:
    """One compiled statement. name: its Sid, or its number in the document. resource_tags: the keys
    of tags that variables in the resources name."""

    name: str
    allow: bool
    principals: PrincipalElement | None
    not_principals: bool
    actions: tuple[Pattern, ...]
    not_actions: bool
    resources: tuple[Pattern, ...]
    not_resources: bool
    conditions: tuple[Condition, ...]
    resource_tags: frozenset[str] = frozenset()

    @property
    def reads_values(self) -> bool:
        """Whether the statement tests condition keys, or a variable in it names one."""
        patterns = (*self.actions, *self.resources)
        return bool(self.conditions) or any(pattern.glob is None for pattern in patterns)

    def applies(self, action: str, resource: str, values: Values) -> bool:
        """Return whether the statement applies to this demand, for any principal."""
        return self.is_about(action) and self.covers(resource, values)

    def is_about(self, action: str) -> bool:
        """Return whether the statement is about an action, whose patterns have no variables."""
        return any(p.matches(action, _NO_VALUES) for p in self.actions) is not self.not_actions

    def covers(self, resource: str, values: Values) -> bool:
        """Return whether the statement is about a resource, and its conditions hold."""
        if self.resource_tags and _has_several(self.resource_tags, values):
            if self.allow:
                return False
        else:
            for pattern in self.resources:
                if pattern.matches(resource, values):
                    if self.not_resources:
                        return False
                    break
            else:
                if not self.not_resources:
                    return False
        if not self.conditions:
            return True
        return all(condition.holds(values, allow=self.allow) for condition in self.conditions)

    def names(self, principal: model.Principal) -> PrincipalMatch:
        """Return how the statement names this principal; identity policies always apply to it."""
        if self.principals is None:
            return "direct"
        match = self.principals.match(principal)
        if not self.not_principals:
            return match
        if match != "none":
            return "none"
        # Everyone but a few, which trusts no provider either.
        return "account" if principal.type == "web-identity" else "direct"


@dataclass(frozen=True, kw_only=True, slots=True)
class CompiledPolicy:
    """A checked document, ready for evaluation.

    reads_tags: a condition or a variable in it is about the tags that an object has.
    reads_resource_tags: one is about those of another resource, or of a table bucket. reads_values:
    a statement tests condition keys; without one a decision needs none.
    """

    statements: tuple[Statement, ...]
    policy_type: PolicyType
    reads_tags: bool = False
    reads_resource_tags: bool = False
    reads_values: bool = True
    _about: dict[str, tuple[Statement, ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """The statements about actions that were asked for; a policy never changes."""

    def about(self, action: str) -> tuple[Statement, ...]:
        """Return the statements that are about an action."""
        statements = self._about.get(action)
        if statements is None:
            if len(self._about) >= ACTIONS_ABOUT_MAX:
                self._about.clear()
            statements = tuple([each for each in self.statements if each.is_about(action)])
            if len(action) <= ACTION_CHARS_MAX:
                self._about[action] = statements
        return statements


def parse_policy(
    document: str | bytes | Mapping[str, Any],
    *,
    policy_type: PolicyType,
    is_clients: bool = False,
    is_stored: bool = False,
) -> CompiledPolicy:
    """Return the policy of a document (JSON text, or decoded by `decode`).

    policy_type: an identity policy has no Principal; a resource policy has Principal or
    NotPrincipal; a trust policy, which a role has, also has no Resource. is_clients: a client
    writes it; the configuration has it otherwise, or it is stored. is_stored: its actions were
    looked up when it was written. An earlier release took more patterns than POLICY_PATTERNS_MAX,
    and to look them up again would hold the event loop for half a second.
    Raises MalformedPolicy with the path of the fault.
    """
    document = decode(document) if isinstance(document, str | bytes) else _checked_object(document)
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
    if is_clients:
        _check_patterns_count(entries)
    statements = []
    sids: set[str] = set()
    for index, entry in enumerate(entries):
        path = f"Statement[{index}]" if listed else "Statement"
        statement = _statement(
            entry,
            path,
            index,
            policy_type,
            variables=version == VERSIONS[0],
            looks_up=not is_stored,
        )
        if sid := entry.get("Sid"):
            if sid in sids:
                raise _fault(f"{path}.Sid", f"{sid!r} appears twice")
            sids.add(sid)
        statements.append(statement)
    if is_clients or policy_type != "identity":
        _check_variables_count(document)
    text = str(document).lower()
    return CompiledPolicy(
        statements=tuple(statements),
        policy_type=policy_type,
        reads_tags=EXISTING_TAG in text,
        reads_resource_tags=any(key in text for key in RESOURCE_TAGS),
        reads_values=any(statement.reads_values for statement in statements),
    )


def decode(text: str | bytes) -> Mapping[str, Any]:
    """Return the decoded JSON of a policy. Raises MalformedPolicy, also for a text in JSON, which
    would be taken for the JSON of a policy."""
    size_bytes = len(text.encode(errors="surrogatepass") if isinstance(text, str) else text)
    if size_bytes > limits.POLICY_BYTES_MAX:
        raise _fault("", f"a policy is at most {limits.POLICY_BYTES_MAX} bytes long")
    try:
        document = json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise _fault("", f"this is not JSON: {error}") from None
    return _checked_object(document)


def _checked_object(document: Any) -> Mapping[str, Any]:
    if not isinstance(document, Mapping):
        raise _fault("", "a policy is a JSON object")
    return document


def _check_patterns_count(entries: Sequence[Any]) -> None:
    """Raise MalformedPolicy for many patterns of actions that are compared with each action: 20 KiB
    of them took a second."""
    named = [
        entry.get(element, ())
        for entry in entries
        if isinstance(entry, Mapping)
        for element in ("Action", "NotAction")
    ]
    texts = [text for value in named for text in (value if isinstance(value, list) else [value])]
    count = sum(isinstance(text, str) and actions.is_costly(text) for text in texts)
    if count > limits.POLICY_PATTERNS_MAX:
        raise _fault(
            "",
            f"a policy has at most {limits.POLICY_PATTERNS_MAX} actions with a wildcard that is "
            "no star at the end",
        )


def _check_variables_count(document: Mapping[str, Any]) -> None:
    """Raise MalformedPolicy for many variables: each is given its value anew at every request.

    Clients write such policies, and the event loop evaluates them.
    """
    if json.dumps(document).count("${") > limits.POLICY_VARIABLES_MAX:
        raise _fault("", f"a policy has at most {limits.POLICY_VARIABLES_MAX} variables")


def _statement(
    entry: Any,
    path: str,
    index: int,
    policy_type: PolicyType,
    *,
    variables: bool,
    looks_up: bool,
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
    resource_element = None
    if policy_type != "trust":
        resource_element = _one_of(entry, "Resource", "NotResource", path)
    elif "Resource" in entry or "NotResource" in entry:
        raise _fault(path, "a trust policy has no Resource: it is about its role")
    principals, not_principals = None, False
    if policy_type == "identity":
        for element in ("Principal", "NotPrincipal"):
            if element in entry:
                raise _fault(f"{path}.{element}", "is not allowed in an identity's policy")
    else:
        element = _one_of(entry, "Principal", "NotPrincipal", path)
        principals = _principals(entry[element], f"{path}.{element}")
        not_principals = element == "NotPrincipal"
    resources = (
        []
        if resource_element is None
        else _texts(entry[resource_element], f"{path}.{resource_element}")
    )
    return Statement(
        name=sid or str(index),
        allow=entry["Effect"] == "Allow",
        principals=principals,
        not_principals=not_principals,
        actions=tuple(
            _action(text, where, looks_up=looks_up)
            for text, where in _texts(entry[action_element], f"{path}.{action_element}")
        ),
        not_actions=action_element == "NotAction",
        resources=(_ANY_RESOURCE,)
        if resource_element is None
        else tuple(_resource(text, where, variables=variables) for text, where in resources),
        not_resources=resource_element == "NotResource",
        conditions=_conditions(
            entry.get("Condition", {}),
            f"{path}.Condition",
            variables=variables,
            is_trust=policy_type == "trust",
        ),
        resource_tags=_tags_named(resources, variables=variables),
    )


def _action(text: str, path: str, *, looks_up: bool) -> Pattern:
    """Return the pattern of an action. looks_up: one that fits no action is refused."""
    if text != "*":
        match = _ACTION.fullmatch(text)
        if match is None:
            raise _fault(path, f"{text!r} is not an action, like s3:GetObject")
        if match[1].lower() not in ACTION_PREFIXES:
            raise _fault(
                path, f"no service {match[1]!r}; the services are {_listed(ACTION_PREFIXES)}"
            )
        fault = actions.suggest(match[1].lower(), match[2]) if looks_up else None
        if fault is not None:
            raise _fault(path, fault)
    return compile_pattern(text, variables=False, ignore_case=True)


def _resource(text: str, path: str, *, variables: bool) -> Pattern:
    if text != "*":
        parts = text.split(":", 5)
        if len(parts) != 6 or parts[0] != "arn" or not parts[5]:
            raise _fault(path, f"{text!r} is neither * nor an ARN")
        if not _PARTITION.fullmatch(parts[1]):
            raise _fault(path, f"{text!r}: no partition {parts[1]!r}")
        if parts[2] not in ACTION_PREFIXES and parts[2] != "*":
            raise _fault(path, f"{text!r}: no service {parts[2]!r}")
    if variables and "${" in text:
        _check_variables(text, path)
    return compile_pattern(text, variables=variables)


def _principals(value: Any, path: str) -> PrincipalElement:
    if value == "*":
        return PrincipalElement(everyone=True)
    if not isinstance(value, Mapping) or not value:
        raise _fault(path, 'must be "*" or an object like {"AWS": "arn:..."}')
    _check_elements(value, PRINCIPAL_TYPES, path)
    everyone = False
    accounts, arns, canonical_ids, services, federations = set(), set(), set(), set(), set()
    for name, listed in value.items():
        for text, where in _texts(listed, f"{path}.{name}"):
            if name == "CanonicalUser":
                canonical_ids.add(text)
            elif name == "Service":
                services.add(text)
            elif name == "Federated":
                federations.add(text)
            elif text == "*":
                everyone = True
            elif _ACCOUNT.fullmatch(text):
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
        services=frozenset(services),
        federations=frozenset(federations),
    )


def _conditions(value: Any, path: str, *, variables: bool, is_trust: bool) -> tuple[Condition, ...]:
    if not isinstance(value, Mapping):
        raise _fault(path, "must be an object: operator, then key, then values")
    conditions = []
    for operator, keys in value.items():
        where = f"{path}.{operator}"
        if not isinstance(keys, Mapping):
            raise _fault(where, "must be an object: key, then values")
        for key, raw in keys.items():
            conditions.append(
                _condition(
                    operator, key, raw, f"{where}.{key}", variables=variables, is_trust=is_trust
                )
            )
    return tuple(conditions)


def _condition(
    operator: str, key: str, raw: Any, path: str, *, variables: bool, is_trust: bool
) -> Condition:
    quantifier, colon, bare = operator.rpartition(":")
    if colon and quantifier not in ("ForAnyValue", "ForAllValues"):
        raise _fault(path.rsplit(".", 1)[0], f"no operator {operator!r}")
    if_exists = bare.endswith("IfExists")
    bare = bare.removesuffix("IfExists")
    if bare not in OPERATORS or (bare == "Null" and (if_exists or colon)):
        raise _fault(path, f"no operator {operator!r}")
    if not (is_trust and conditionkeys.is_of_provider(key)):
        _check_key(key, path)
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
        is_tag=key.lower().startswith(TAGS),
        variable_tags=_tags_named(texts, variables=variables),
    )


def _check_key(key: str, path: str) -> None:
    prefix, colon, rest = key.partition(":")
    if not colon or not rest or prefix.lower() not in KEY_PREFIXES:
        raise _fault(path, f"no condition key {key!r}; keys start with {_listed(KEY_PREFIXES)}")
    fault = conditionkeys.suggest(prefix.lower(), rest)
    if fault is not None:
        raise _fault(path, fault)


def compile_pattern(
    text: str, *, variables: bool, ignore_case: bool = False, wildcards: bool = True
) -> Pattern:
    """Return the matcher of a text with `*`, `?` and, from version 2012-10-17 on, variables.

    Without regard to case, texts are compared in lower case.
    """
    if not variables or "${" not in text:
        folded = text.lower() if ignore_case else text
        glob = globs.parse(folded) if wildcards else globs.Glob(head=folded)
        return Pattern(text=text, glob=glob, prefix=glob.prefix, ignore_case=ignore_case)
    elements: list[globs.Element | PolicyVariable] = []
    for piece, is_variable in _pieces(text):
        folded = piece.lower() if ignore_case and not is_variable else piece
        if is_variable:
            elements.append(_variable(piece))
        elif wildcards:
            elements.extend(globs.elements_of(folded))
        else:
            elements.append(folded)
    fixed = [element for element in elements if not isinstance(element, PolicyVariable)]
    if len(fixed) == len(elements):
        return Pattern(text=text, glob=globs.build(fixed), ignore_case=ignore_case)
    return Pattern(text=text, glob=None, elements=tuple(elements), ignore_case=ignore_case)


_ANY_RESOURCE: Final = compile_pattern("*", variables=False)


def _check_variables(text: str, path: str) -> None:
    """Raise MalformedPolicy for a variable of a condition key that does not exist."""
    for piece, is_variable in _pieces(text):
        named = _variable(piece) if is_variable else piece
        if not isinstance(named, PolicyVariable):
            continue
        service, colon, name = named.key.partition(":")
        shown = f"${{{piece}}}"
        if not colon or not name or service not in KEY_PREFIXES:
            raise _fault(path, f"no condition key {named.key!r} for the variable {shown}")
        fault = conditionkeys.suggest(service, name)
        if fault is not None:
            raise _fault(path, f"the variable {shown}: {fault}")


def _tags_named(texts: Sequence[tuple[str, str]], *, variables: bool) -> frozenset[str]:
    """Return the condition keys of tags that variables in texts name."""
    if not variables:
        return frozenset()
    named = [
        _variable(piece) for text, _ in texts for piece, is_variable in _pieces(text) if is_variable
    ]
    return frozenset(
        each.key for each in named if isinstance(each, PolicyVariable) and each.key.startswith(TAGS)
    )


def _has_several(tags: frozenset[str], values: Values) -> bool:
    """Return whether one of the condition keys of tags has several values."""
    return any(len(values.get(key, ())) > 1 for key in tags)


def _pieces(text: str) -> list[tuple[str, bool]]:
    """Return the literal pieces of a text and the insides of its variables, which are marked."""
    pieces = []
    position = 0
    while (start := text.find("${", position)) >= 0 and (stop := text.find("}", start)) >= 0:
        pieces.append((text[position:start], False))
        pieces.append((text[start + 2 : stop], True))
        position = stop + 1
    pieces.append((text[position:], False))
    return pieces


def _variable(inside: str) -> str | PolicyVariable:
    if inside in ("*", "?", "$"):
        return inside
    name, comma, default = inside.partition(",")
    quoted = _QUOTED.fullmatch(default) if comma else None
    return PolicyVariable(key=name.strip().lower(), default=quoted[1] if quoted else None)


def _text_test(*, ignore_case: bool, wildcards: bool) -> Callable[[str, str, bool], Test]:
    def build(text: str, path: str, variables: bool) -> Test:
        if variables and "${" in text:
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
    if variables and "${" in text:
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


@functools.lru_cache(PARSED_VALUES_REMEMBERED)
def _number(text: str) -> Decimal | None:
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


@functools.lru_cache(PARSED_VALUES_REMEMBERED)
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
    if "/" not in text:
        wanted = _address(text)
        if wanted is None:
            raise _fault(path, f"{text!r} is neither an IP address nor a CIDR range")
        return lambda value, values: _address(value) == wanted
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise _fault(path, f"{text!r} is neither an IP address nor a CIDR range") from None

    def test(value: str, values: Values) -> bool:
        address = _address(value)
        return address is not None and address in network

    return test


@functools.lru_cache(PARSED_VALUES_REMEMBERED)
def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


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
