"""rule: the operation of a method and a path, and the values of the path's labels.

A path is matched segment by segment, each decoded once after splitting, so that `%2F` in an ARN
does not split it. Some proxies and SDKs send ARNs decoded: then `...:bucket` and `name` are joined
again, and a label for an ARN of any depth takes the rest of the path. No prefix matches, and an
empty segment never fills a label.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from server.aws import shapes


@dataclass(frozen=True, kw_only=True, slots=True)
class Match:
    """An operation and the values of its labels, by wire name."""

    operation: shapes.OperationModel
    labels: Mapping[str, str]


def match(service: shapes.ServiceModel, method: str, segments: Sequence[str]) -> Match | None:
    """Return the operation of a request; None if the service has none.

    segments: of the path, split at `/` and then decoded once.
    """
    whole = _join_arn(segments)
    for operation in service.operations.values():
        if operation.method == method:
            labels = _fill(operation.route, whole)
            if labels is not None:
                return Match(operation=operation, labels=labels)
    return None


def _join_arn(segments: Sequence[str]) -> Sequence[str]:
    """Return segments in which a bucket ARN that arrived decoded, hence split, is joined."""
    if len(segments) > 2 and segments[1].startswith("arn:") and segments[1].endswith(":bucket"):
        return (segments[0], f"{segments[1]}/{segments[2]}", *segments[3:])
    return segments


def _fill(route: Sequence[str | shapes.Label], segments: Sequence[str]) -> Mapping[str, str] | None:
    labels = {}
    for index, expected in enumerate(route):
        if index >= len(segments):
            return None
        if isinstance(expected, str):
            if segments[index] != expected:
                return None
        elif expected.greedy:
            rest = "/".join(segments[index:])
            if not rest:
                return None
            labels[expected.name] = rest
            return labels
        elif segments[index]:
            labels[expected.name] = segments[index]
        else:
            return None
    return labels if len(segments) == len(route) else None
