"""engine: maintenance settings of table buckets and tables, and what the jobs came to.

The removal of unreferenced files is the sweep (`catalog.sweep`), which obeys the bucket's settings;
its status is that of the sweep's latest run. Compaction and the expiry of snapshots are run by the
server (`jobs`); the status of each is that of its latest run for the table. What a user runs by
hand (`python -m pipeline compact`) takes the table's settings as defaults, and is no run of the
server. Settings that a request leaves out are AWS's defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from catalog import properties
from catalog.sweep import retention, sweeping
from jobs import rows
from jobs import settings as upkeep_settings
from jobs.settings import COMPACTION, ENABLED, SNAPSHOTS, STATUS
from s3tables import errors
from s3tables.resources import Resources, TableResource
from server import calls
from storage import settings

Members = Mapping[str, Any]

REMOVAL: Final = "icebergUnreferencedFileRemoval"
DISABLED: Final = "disabled"

FILE_SIZES_MB: Final = range(64, 513)
"""The target sizes of compaction that AWS documents; its model has no such bound."""
STRATEGIES: Final = ("auto", "binpack", "sort", "z-order")
"""Strategies of compaction. A compaction that is to sort a table without a sort order fails."""
_TASKS: Final[Mapping[str, rows.Task]] = {COMPACTION: "compaction", SNAPSHOTS: "snapshots"}
_DAYS: Final = {
    "unreferencedDays": retention.UNREFERENCED_DAYS,
    "nonCurrentDays": retention.NONCURRENT_DAYS,
}
"""Members of the removal's settings, and the table bucket's settings that the sweep obeys."""


async def put_bucket_maintenance(resources: Resources, call: calls.Call) -> Members:
    """PutTableBucketMaintenanceConfiguration: replaces the settings of the sweep."""
    members = call.value.members
    bucket = resources.bucket(members["tableBucketARN"])
    value = _check_value(members)
    changed: dict[str, Any] = {
        name: value["settings"].get(member, retention.DEFAULTS[name])
        for member, name in _DAYS.items()
    }
    changed[retention.REMOVES_UNREFERENCED] = value[STATUS] == ENABLED

    await resources.change_bucket_settings(call, bucket, lambda old: {**old, **changed})
    return {}


async def get_bucket_maintenance(resources: Resources, call: calls.Call) -> Members:
    """GetTableBucketMaintenanceConfiguration."""
    arn = call.value.members["tableBucketARN"]
    bucket = resources.bucket(arn)
    days = {
        member: bucket.settings.get(name, retention.DEFAULTS[name])
        for member, name in _DAYS.items()
    }
    status = ENABLED if retention.removes_unreferenced(bucket.settings) else DISABLED
    return {
        "tableBucketARN": resources.bucket_arn(bucket),
        "configuration": {REMOVAL: _show(REMOVAL, status, days)},
    }


async def put_table_maintenance(resources: Resources, call: calls.Call) -> Members:
    """PutTableMaintenanceConfiguration: replaces the settings of one type."""
    members = call.value.members
    value = _check_value(members)
    configuration = {STATUS: value[STATUS], **value["settings"]}
    table = _find_table(resources, members)

    def change(old: settings.Settings) -> settings.Settings:
        others = old.get(settings.MAINTENANCE, {})
        return {**old, settings.MAINTENANCE: {**others, members["type"]: configuration}}

    await resources.change_table_settings(call, table, change)
    return {}


async def get_table_maintenance(resources: Resources, call: calls.Call) -> Members:
    """GetTableMaintenanceConfiguration: both types, with every setting."""
    table = _find_table(resources, call.value.members)
    configurations = {}
    for name, stored in _configurations(resources, table).items():
        shown = {member: text for member, text in stored.items() if member != STATUS}
        configurations[name] = _show(name, stored[STATUS], shown)
    return {"tableARN": resources.table_arn(table), "configuration": configurations}


async def get_job_status(resources: Resources, call: calls.Call) -> Members:
    """GetTableMaintenanceJobStatus."""
    table = _find_table(resources, call.value.members)
    statuses: dict[str, Members] = {
        name: _status_of_task(resources, table, _TASKS[name])
        if stored[STATUS] == ENABLED
        else {STATUS: "Disabled"}
        for name, stored in _configurations(resources, table).items()
    }
    statuses[REMOVAL] = {STATUS: "Disabled"}
    if retention.removes_unreferenced(table.bucket.settings):
        report = resources.sweep.finished(table.bucket.name)
        location = properties.plain_uri(table.pointer.location)
        statuses[REMOVAL] = _status_of(report, location=location)
    return {"tableARN": resources.table_arn(table), "status": statuses}


def _status_of_task(resources: Resources, table: TableResource, task: rows.Task) -> Members:
    """Return what the latest run of a task came to for a table."""
    row = rows.find_maintenance(
        resources.index, table.bucket.bucket_id, table.pointer.object_uuid, task
    )
    if row is None:
        return {STATUS: "Not_Yet_Run"}
    ran: dict[str, Any] = {"lastRunTimestamp": row.started_at_ms}
    if row.failure:
        return {STATUS: "Failed", **ran, "failureMessage": row.failure}
    return {STATUS: "Successful", **ran}


def _status_of(report: sweeping.Report | None, *, location: str) -> Members:
    """Return what a run of the sweep came to for the table at a location."""
    if report is None or report.started_at_ms is None:
        return {STATUS: "Not_Yet_Run"}
    is_listed = report.problems_count <= len(report.problems)
    unread = [each for each in report.problems if f"{location}/" in each]
    failure = report.error
    if failure is None and unread:
        failure = f"Every file of the table was kept: {unread[0]}"
    elif failure is None and not is_listed:
        failure = (
            f"{report.problems_count} files could not be read; every file of their tables was kept"
        )
    ran: dict[str, Any] = {"lastRunTimestamp": report.started_at_ms}
    if failure is None:
        return {STATUS: "Successful", **ran}
    return {STATUS: "Failed", **ran, "failureMessage": failure}


def _check_value(members: Members) -> dict[str, Any]:
    """Return a request's status and settings. Raises BadRequest."""
    name, value = members["type"], members["value"]
    union: Mapping[str, Mapping[str, Any]] = value.get("settings", {name: {}})
    if set(union) != {name}:
        raise errors.BadRequest(f"The settings are not those of {name}.")
    for_type = union[name]
    strategy = for_type.get("strategy", "auto")
    if strategy not in STRATEGIES:
        raise errors.BadRequest(f"strategy must be one of {', '.join(STRATEGIES)}.")
    size = for_type.get("targetFileSizeMB")
    if size is not None and size not in FILE_SIZES_MB:
        raise errors.BadRequest(
            f"targetFileSizeMB must be between {FILE_SIZES_MB[0]} and {FILE_SIZES_MB[-1]}."
        )
    return {STATUS: value.get(STATUS, ENABLED), "settings": dict(for_type)}


def _configurations(resources: Resources, table: TableResource) -> dict[str, dict[str, Any]]:
    """Return a table's settings by type, with defaults, and the status of each type."""
    return upkeep_settings.configurations(
        resources.index, table.bucket.bucket_id, table.pointer.object_uuid
    )


def _show(name: str, status: str, values: Members) -> Members:
    return {STATUS: status, "settings": {name: dict(values)}}


def _find_table(resources: Resources, members: Members) -> TableResource:
    return resources.table(members["tableBucketARN"], members["namespace"], members["name"])
