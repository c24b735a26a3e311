"""rule: lifecycle rules as S3 writes them: the document of a bucket's rules, and headers.

A document that AWS refuses is refused with the same code, but for moves to STANDARD_IA and
ONEZONE_IA before 30 days, which are taken. A transition to an archive, from which an object is not
read without a restore, raises S3FeatureNotImplemented.
"""

from __future__ import annotations

import datetime
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from server import xmltext
from server.s3 import errors, fields, wire
from storage import keys, lifecycle

ID_CHARS_MAX: Final = 255
DAYS_MAX: Final = 2**31 - 1
BYTES_MAX: Final = 2**50
"""The largest size in a filter."""
DATES_END_MS: Final = 253_402_300_800_000
"""The beginning of the year 10000, which a date in a header cannot name."""

_ACTIONS: Final = (
    "Expiration",
    "NoncurrentVersionExpiration",
    "AbortIncompleteMultipartUpload",
    "Transition",
    "NoncurrentVersionTransition",
)
_ONCE: Final = frozenset({"ID", "Prefix", "Filter", "Status", *_ACTIONS[:3]})
_ARCHIVES: Final = frozenset({"GLACIER", "DEEP_ARCHIVE"})
_PREDICATES: Final = frozenset({"Prefix", "Tag", "ObjectSizeGreaterThan", "ObjectSizeLessThan"})
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_DAY: Final = datetime.timedelta(days=1)


def parse(data: bytes) -> tuple[lifecycle.LifecycleRule, ...]:
    """Return the rules of PutBucketLifecycleConfiguration.

    A rule without an ID gets one. Raises MalformedXML, UnexpectedXml, InvalidArgument,
    InvalidRequest, InvalidTag, S3FeatureNotImplemented.
    """
    root = xmltext.parse(data)
    if root.name != "LifecycleConfiguration" or not root.children:
        raise _malformed()
    if len(root.children) > lifecycle.RULES_MAX:
        raise errors.InvalidRequest(
            "The number of lifecycle rules must not exceed the allowed limit of "
            f"{lifecycle.RULES_MAX} rules"
        )
    rules = [_rule(child) for child in root.children]
    named: set[str] = set()
    for rule in rules:
        if rule.id and rule.id in named:
            raise errors.InvalidArgument(
                "Rule ID must be unique. Found same ID for more than one rule",
                ArgumentName="ID",
                ArgumentValue=rule.id,
            )
        named.add(rule.id)
    return tuple(_with_ids(rules, named))


def document(rules: Sequence[lifecycle.LifecycleRule]) -> bytes:
    """Return GetBucketLifecycleConfiguration's answer."""
    return wire.document("LifecycleConfiguration", "".join(_shown(rule) for rule in rules))


def expiration_headers(due: lifecycle.Due | None) -> tuple[tuple[str, str], ...]:
    """Return the header of a read or write of an object; none if it does not expire before
    DATES_END_MS."""
    if due is None or due.at_ms >= DATES_END_MS:
        return ()
    rule_id = urllib.parse.quote(due.rule_id, safe="")
    text = f'expiry-date="{wire.format_date(due.at_ms)}", rule-id="{rule_id}"'
    return (("x-amz-expiration", text),)


def abort_headers(due: lifecycle.Due | None) -> tuple[tuple[str, str], ...]:
    """Return the headers of an upload; none if no rule aborts it before DATES_END_MS."""
    if due is None or due.at_ms >= DATES_END_MS:
        return ()
    return (
        ("x-amz-abort-date", wire.format_date(due.at_ms)),
        ("x-amz-abort-rule-id", urllib.parse.quote(due.rule_id, safe="")),
    )


# Parsing.


def _rule(element: xmltext.Element) -> lifecycle.LifecycleRule:
    counted = [child.name for child in element.children]
    if element.name != "Rule" or any(
        name not in _ONCE | set(_ACTIONS[3:]) or (name in _ONCE and counted.count(name) > 1)
        for name in set(counted)
    ):
        raise _malformed()
    status, rule_id = element.child("Status"), element.child("ID")
    if status is None or status.text.strip() not in ("Enabled", "Disabled"):
        raise _malformed()
    name = "" if rule_id is None else rule_id.text
    if len(name) > ID_CHARS_MAX:
        raise errors.InvalidArgument(
            f"ID length should not exceed allowed limit of {ID_CHARS_MAX}",
            ArgumentName="ID",
            ArgumentValue=name[:ID_CHARS_MAX],
        )
    if not any(each in counted for each in _ACTIONS):
        raise errors.InvalidRequest("At least one action needs to be specified in a rule")
    rule = _selection(element, name, is_enabled=status.text.strip() == "Enabled")
    return _with_transitions(_with_actions(rule, element), element)


def _selection(element: xmltext.Element, name: str, *, is_enabled: bool) -> lifecycle.LifecycleRule:
    """Return a rule without actions: what it applies to."""
    prefix, filtering = element.child("Prefix"), element.child("Filter")
    if (prefix is None) == (filtering is None):
        raise _malformed()
    if prefix is not None:
        return lifecycle.LifecycleRule(
            id=name, is_enabled=is_enabled, written="prefix", prefix=_prefix(prefix)
        )
    assert filtering is not None
    predicates, written = filtering.children, "filter"
    if len(predicates) > 1:
        raise _malformed()
    if predicates and predicates[0].name == "And":
        predicates, written = predicates[0].children, "and"
        if len(predicates) < 2:
            raise _malformed()
    counted = [child.name for child in predicates]
    if any(
        each not in _PREDICATES or (each != "Tag" and counted.count(each) > 1)
        for each in set(counted)
    ):
        raise _malformed()
    values = {child.name: child for child in predicates}
    over = _size(values.get("ObjectSizeGreaterThan"), least=0)
    under = _size(values.get("ObjectSizeLessThan"), least=1)
    if over is not None and under is not None and under <= over:
        raise errors.InvalidRequest(
            "'ObjectSizeLessThan' has to be a value greater than 'ObjectSizeGreaterThan'."
        )
    return lifecycle.LifecycleRule(
        id=name,
        is_enabled=is_enabled,
        written="and" if written == "and" else "filter",
        prefix=_prefix(values["Prefix"]) if "Prefix" in values else None,
        tags=_tags([child for child in predicates if child.name == "Tag"]),
        size_greater_than=over,
        size_less_than=under,
    )


def _with_actions(
    rule: lifecycle.LifecycleRule, element: xmltext.Element
) -> lifecycle.LifecycleRule:
    expiration, noncurrent, abort = (element.child(name) for name in _ACTIONS[:3])
    has_sizes = rule.size_greater_than is not None or rule.size_less_than is not None
    if expiration is not None:
        rule = _with_expiration(rule, expiration, has_sizes=has_sizes)
    if noncurrent is not None:
        _check_children(noncurrent, ("NoncurrentDays", "NewerNoncurrentVersions"))
        days, newer = (
            noncurrent.child("NoncurrentDays"),
            noncurrent.child("NewerNoncurrentVersions"),
        )
        if days is None:
            raise _malformed()
        if newer is not None and rule.written == "prefix":
            raise _newer_without_filter()
        rule = msgspec.structs.replace(
            rule,
            noncurrent_days=_days(days, "NoncurrentVersionExpiration"),
            newer_noncurrent=None if newer is None else _newer(newer, noncurrent.name),
        )
    if abort is not None:
        _check_children(abort, ("DaysAfterInitiation",))
        days = abort.child("DaysAfterInitiation")
        if days is None:
            raise _malformed()
        if rule.tags or has_sizes:
            what = "Tags" if rule.tags else "Object Size"
            raise errors.InvalidRequest(
                f"AbortIncompleteMultipartUpload cannot be specified with {what}."
            )
        rule = msgspec.structs.replace(
            rule, abort_days=_days(days, "AbortIncompleteMultipartUpload")
        )
    return rule


def _with_expiration(
    rule: lifecycle.LifecycleRule, expiration: xmltext.Element, *, has_sizes: bool
) -> lifecycle.LifecycleRule:
    _check_children(expiration, ("Days", "Date", "ExpiredObjectDeleteMarker"))
    if len(expiration.children) != 1:
        raise _malformed()
    (child,) = expiration.children
    match child.name:
        case "Days":
            return msgspec.structs.replace(rule, expiration_days=_days(child, "Expiration"))
        case "Date":
            return msgspec.structs.replace(rule, expiration_at_ms=_date(child, "Expiration"))
    text = child.text.strip().lower()
    if text not in ("true", "false"):
        raise _malformed()
    if rule.tags or has_sizes:
        what = "tags" if rule.tags else "object size"
        raise errors.InvalidRequest(f"ExpiredObjectDeleteMarker cannot be specified with {what}.")
    return msgspec.structs.replace(rule, removes_markers=text == "true")


def _with_transitions(
    rule: lifecycle.LifecycleRule, element: xmltext.Element
) -> lifecycle.LifecycleRule:
    moves = tuple(_transition(each) for each in element.children if each.name == "Transition")
    of_noncurrent = tuple(
        _noncurrent_transition(rule, each)
        for each in element.children
        if each.name == "NoncurrentVersionTransition"
    )
    days = [(each.storage_class, each.days) for each in moves if each.days is not None]
    dates = [(each.storage_class, each.at_ms) for each in moves if each.at_ms is not None]
    if (days and (dates or rule.expiration_at_ms is not None)) or (
        dates and rule.expiration_days is not None
    ):
        raise errors.InvalidRequest(
            "Found mixed 'Date' and 'Days' based Expiration and Transition actions in one rule"
        )
    _check_order("Days", "Transition", "Expiration", days, rule.expiration_days)
    _check_order("Date", "Transition", "Expiration", dates, rule.expiration_at_ms)
    _check_order(
        "NoncurrentDays",
        "NoncurrentVersionTransition",
        "NoncurrentVersionExpiration",
        [(each.storage_class, each.days) for each in of_noncurrent],
        rule.noncurrent_days,
    )
    return msgspec.structs.replace(rule, transitions=moves, noncurrent_transitions=of_noncurrent)


def _transition(element: xmltext.Element) -> lifecycle.Transition:
    _check_children(element, ("Days", "Date", "StorageClass"))
    days, date = element.child("Days"), element.child("Date")
    if (days is None) == (date is None):
        raise _malformed()
    return lifecycle.Transition(
        days=None if days is None else _whole(days, least=0, most=DAYS_MAX, action=element.name),
        at_ms=None if date is None else _date(date, element.name),
        storage_class=_storage_class(element),
    )


def _noncurrent_transition(
    rule: lifecycle.LifecycleRule, element: xmltext.Element
) -> lifecycle.NoncurrentTransition:
    _check_children(element, ("NoncurrentDays", "NewerNoncurrentVersions", "StorageClass"))
    days, newer = element.child("NoncurrentDays"), element.child("NewerNoncurrentVersions")
    if days is None:
        raise _malformed()
    if newer is not None and rule.written == "prefix":
        raise _newer_without_filter()
    return lifecycle.NoncurrentTransition(
        days=_whole(days, least=0, most=DAYS_MAX, action=element.name),
        newer=None if newer is None else _newer(newer, element.name),
        storage_class=_storage_class(element),
    )


def _storage_class(element: xmltext.Element) -> str:
    child = element.child("StorageClass")
    name = "" if child is None else child.text.strip()
    if name in _ARCHIVES:
        raise errors.S3FeatureNotImplemented(
            f"A {element.name} to {name} asks for functionality that is not implemented: there is "
            f"no archive. Storage classes to move to are {', '.join(lifecycle.CLASSES)}",
            Element=element.name,
        )
    if name not in lifecycle.CLASSES:
        raise _malformed()
    return name


def _check_order(
    unit: str,
    action: str,
    removal: str,
    moves: Sequence[tuple[str, int]],
    removed: int | None,
) -> None:
    """Raise unless each move comes before the removal and before the moves that follow it.

    moves: storage classes, and when a version moves there, in the unit of removed.
    """
    for number, (storage_class, moment) in enumerate(moves):
        if removed is not None and moment >= removed:
            raise errors.InvalidArgument(
                f"'{unit}' in the {removal} action must be greater than '{unit}' in the {action} "
                "action",
                ArgumentName=unit,
            )
        for other, other_moment in moves[:number]:
            if other == storage_class:
                raise errors.InvalidRequest(
                    f"'StorageClass' must be different for '{action}' actions in one rule"
                )
            first, second = (other, other_moment), (storage_class, moment)
            if not lifecycle.moves(other, storage_class):
                first, second = second, first
            if not lifecycle.moves(first[0], second[0]) or first[1] >= second[1]:
                raise errors.InvalidArgument(
                    f"'{unit}' in the {action} action for StorageClass '{second[0]}' must be "
                    f"greater than that for '{first[0]}': objects move in the order "
                    f"{', '.join(lifecycle.CLASSES)}, and not from ONEZONE_IA to GLACIER_IR",
                    ArgumentName=unit,
                )


def _check_children(element: xmltext.Element, names: Sequence[str]) -> None:
    counted = [child.name for child in element.children]
    if len(set(counted)) != len(counted) or not set(counted) <= set(names):
        raise _malformed()


def _prefix(element: xmltext.Element) -> str:
    if len(element.text.encode("utf-8", "surrogatepass")) > keys.KEY_BYTES_MAX:
        raise errors.InvalidRequest(f"The maximum size of a prefix is {keys.KEY_BYTES_MAX}.")
    return element.text


def _tags(elements: Sequence[xmltext.Element]) -> tuple[tuple[str, str], ...]:
    pairs = []
    for element in elements:
        name, value = element.child("Key"), element.child("Value")
        if name is None or value is None or len(element.children) != 2:
            raise _malformed()
        pairs.append((name.text, value.text))
    if len({name for name, _ in pairs}) != len(pairs):
        raise errors.InvalidRequest("Duplicate Tag Keys are not allowed.")
    return tuple(fields.check_tags(pairs).items())


def _size(element: xmltext.Element | None, *, least: int) -> int | None:
    if element is None:
        return None
    return _whole(element, least=least, most=BYTES_MAX, action="Filter")


def _days(element: xmltext.Element, action: str) -> int:
    return _whole(element, least=1, most=DAYS_MAX, action=action)


def _newer(element: xmltext.Element, action: str) -> int:
    return _whole(element, least=1, most=lifecycle.NEWER_MAX, action=action)


def _newer_without_filter() -> errors.InvalidRequest:
    return errors.InvalidRequest("NewerNoncurrentVersions can only be used with a Filter element")


def _whole(element: xmltext.Element, *, least: int, most: int, action: str) -> int:
    text = element.text.strip()
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 18):
        raise _malformed()
    if not least <= int(text) <= most:
        meaning = "a positive integer" if least == 1 else "a non-negative integer"
        raise errors.InvalidArgument(
            f"'{element.name}' for {action} action must be {meaning} of at most {most}",
            ArgumentName=element.name,
            ArgumentValue=text,
        )
    return int(text)


def _date(element: xmltext.Element, action: str) -> int:
    """Return a midnight of UTC in ISO 8601 as Unix milliseconds. Without a zone it is in UTC."""
    text = element.text.strip()
    try:
        moment = datetime.datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=datetime.UTC)
        since = moment.astimezone(datetime.UTC) - _EPOCH
    except (ValueError, OverflowError):
        raise _malformed() from None
    if since % _DAY:
        raise errors.InvalidArgument(
            f"'Date' for {action} action must be at midnight GMT",
            ArgumentName="Date",
            ArgumentValue=text,
        )
    if not datetime.timedelta() <= since:
        raise errors.InvalidArgument(
            f"'Date' for {action} action must not be before 1970",
            ArgumentName="Date",
            ArgumentValue=text,
        )
    return since // datetime.timedelta(milliseconds=1)


def _with_ids(
    rules: Sequence[lifecycle.LifecycleRule], named: set[str]
) -> list[lifecycle.LifecycleRule]:
    """Return rules of which each has an ID: a digest of the rule where the document has none."""
    complete = []
    for number, rule in enumerate(rules):
        if not rule.id:
            name = lifecycle.digest(msgspec.msgpack.encode((number, rule)))
            while name in named:
                name = lifecycle.digest(name.encode())
            named.add(name)
            rule = msgspec.structs.replace(rule, id=name)
        complete.append(rule)
    return complete


def _malformed() -> errors.UnexpectedXml:
    return errors.UnexpectedXml("the body is not a lifecycle configuration")


# Writing.


def _shown(rule: lifecycle.LifecycleRule) -> str:
    parts = [
        _expiration(rule),
        _element("ID", rule.id),
        _selected(rule),
        _element("Status", "Enabled" if rule.is_enabled else "Disabled"),
    ]
    for each in rule.transitions:
        inner = _moment(days=each.days, at_ms=each.at_ms)
        inner += _element("StorageClass", each.storage_class)
        parts.append(f"<Transition>{inner}</Transition>")
    for move in rule.noncurrent_transitions:
        inner = _noncurrent(move.days, move.newer) + _element("StorageClass", move.storage_class)
        parts.append(f"<NoncurrentVersionTransition>{inner}</NoncurrentVersionTransition>")
    if rule.noncurrent_days is not None:
        inner = _noncurrent(rule.noncurrent_days, rule.newer_noncurrent)
        parts.append(f"<NoncurrentVersionExpiration>{inner}</NoncurrentVersionExpiration>")
    if rule.abort_days is not None:
        inner = _element("DaysAfterInitiation", str(rule.abort_days))
        parts.append(f"<AbortIncompleteMultipartUpload>{inner}</AbortIncompleteMultipartUpload>")
    return f"<Rule>{''.join(parts)}</Rule>"


def _expiration(rule: lifecycle.LifecycleRule) -> str:
    if rule.expiration_days is not None or rule.expiration_at_ms is not None:
        inner = _moment(days=rule.expiration_days, at_ms=rule.expiration_at_ms)
    elif rule.removes_markers is not None:
        inner = _element("ExpiredObjectDeleteMarker", str(rule.removes_markers).lower())
    else:
        return ""
    return f"<Expiration>{inner}</Expiration>"


def _moment(*, days: int | None, at_ms: int | None) -> str:
    """Return the element of whichever of the two is there."""
    if days is not None:
        return _element("Days", str(days))
    assert at_ms is not None, "a rule has one of the two"
    return _element("Date", wire.format_timestamp(at_ms))


def _noncurrent(days: int, newer: int | None) -> str:
    kept = "" if newer is None else _element("NewerNoncurrentVersions", str(newer))
    return _element("NoncurrentDays", str(days)) + kept


def _selected(rule: lifecycle.LifecycleRule) -> str:
    if rule.written == "prefix":
        return _element("Prefix", rule.prefix or "")
    tags = [
        f"<Tag>{_element('Key', name)}{_element('Value', value)}</Tag>" for name, value in rule.tags
    ]
    sizes: Mapping[str, int | None] = {
        "ObjectSizeGreaterThan": rule.size_greater_than,
        "ObjectSizeLessThan": rule.size_less_than,
    }
    inner = "" if rule.prefix is None else _element("Prefix", rule.prefix)
    inner += "".join(tags)
    inner += "".join(_element(name, str(size)) for name, size in sizes.items() if size is not None)
    if rule.written == "and":
        inner = f"<And>{inner}</And>"
    return f"<Filter>{inner}</Filter>"


def _element(name: str, text: str) -> str:
    return f"<{name}>{xmltext.escape(text)}</{name}>"
