"""rule: maps errors of lower floors to Snowflake's errors.

The engine's faults have Snowflake's number if a value caused them; the catalog's and storage's are
conditions. Unknown exceptions propagate, and become internal errors in the face.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from catalog import errors as catalog_errors
from catalog import sequence_errors
from catalog.metadata import errors as metadata_errors
from server import errortables
from server.access import errors as access_errors
from sql import errors
from sql.dialect import names
from storage import errors as storage_errors

if TYPE_CHECKING:
    from sql import engine

Fault: TypeAlias = Callable[[str], errors.SqlError]


def of_engine(fault: engine.EngineFault, *, query_id: str = "") -> errors.SqlError:
    """Return the SqlError of a query that failed in the engine."""
    match fault.cause:
        case "value":
            return _of_value(fault.code, fault.message)
        case "canceled":
            return errors.canceled()
        case "timed_out":
            return errors.timed_out(round(float(fault.message)))
        case "resources" | "planning" | "busy" | "crashed":
            return errors.resources_exhausted(fault.message)
        case "disk_full":
            return errors.disk_full()
        case "plan":
            return _of_plan(fault.message, query_id)
        case "panicked":
            return errors.resources_exhausted(
                "the query's computation broke off; it may have been too large"
            )
        case "internal":
            return errors.internal_error(query_id)


def _of_plan(message: str, query_id: str) -> errors.SqlError:
    """Return what the planner refused, in Snowflake's words; never in the planner's."""
    ungrouped = UNGROUPED.search(message)
    if ungrouped is not None:
        named = COLUMN.fullmatch(ungrouped[1])
        return errors.not_grouped(f"{named[1]}.{named[2]}".upper() if named else "An expression")
    if "to grouping function is not in grouping columns" in message:
        return errors.not_grouped("GROUPING's argument")
    if "RecursionLimitExceeded" in message:
        return errors.unsupported("expression nested too deeply")
    if SUBQUERY.search(message):
        return errors.subquery_unsupported()
    if "retract_batch" in message:
        return errors.unsupported("this aggregate function over a window frame that moves")
    return errors.unsupported(f"query of this form ({query_id})")


UNGROUPED = re.compile(r'column "(.+?)" must appear in the GROUP BY')
COLUMN = re.compile(r"([^.#]+)#\d+\.([^.#]+)")
SUBQUERY = re.compile(
    r"\b(?:ScalarSubquery|InSubquery|Exists|OuterReference|outer_ref|scalar_subquery_to_join"
    r"|decorrelate_predicate_subquery|__(?:correlated|scalar)_sq_\d+)\b"
)


def _pattern_fault(text: str) -> tuple[str, str]:
    """Return (pattern, reason) out of what the engine says of a regular expression."""
    if text in TOO_LARGE_PATTERNS:
        return "", "it is too large when it is compiled"
    if text.startswith("RE2|"):  # of a kernel
        _, reason, pattern = text.split("|", 2)
        ours = WRAPPED.fullmatch(pattern)
        return (ours[1] if ours else pattern), reason
    if "\n" not in text:
        ours = WRAPPED.fullmatch(text)
        return (ours[1] if ours else text), "it does not compile"
    lines = [line.strip() for line in text.split("\n")]
    reason = next((line[7:] for line in lines if line.startswith("error: ")), "it does not compile")
    after = lines.index("regex parse error:") + 1 if "regex parse error:" in lines else len(lines)
    pattern = lines[after] if after < len(lines) else ""
    ours = WRAPPED.fullmatch(pattern)
    return (ours[1] if ours else pattern), reason


TOO_LARGE_PATTERNS = ("Compiled regex exceeds size limit", "CompiledTooBig")
WRAPPED = re.compile(r"(?:\(\?[ims]+\))?(?:\^\(\?:)?(.*?)(?:\)\$)?")


def _of_value(code: str, value: str) -> errors.SqlError:
    match code:
        case "000002":
            return errors.unsupported(value)
        case "100035":
            type_name, separator, text = value.partition("|")
            return (
                errors.bad_timestamp(text, type_name) if separator else errors.bad_timestamp(value)
            )
        case "100037":
            return errors.SqlError("100037", "22018", f"Boolean value '{value}' is not recognized")
        case "100038":
            return errors.bad_number(value)
        case "100039":
            return errors.number_out_of_range(value)
        case "090150":
            return errors.subquery_of_many_rows()
        case "100048":
            return errors.bad_pattern(*_pattern_fault(value))
        case "100051":
            return errors.division_by_zero()
        case "100072":
            return errors.null_into_not_null(value)
        case "100078":
            return errors.too_long(value)
        case errors.FALSE_STATISTICS:
            return errors.false_statistics()
        case errors.TOO_SHORT:
            shown, column, length = value.rsplit("|", 2)
            return errors.SqlError(
                "001008",
                "22023",
                f"Binary value '{shown}' is too short: column {column} takes {length} bytes",
            )
        case "091364":
            return errors.SqlError("091364", "58030", value)
        case "100094":
            return errors.SqlError("100094", "22023", f"Unknown timezone: '{value}'")
        case "100115":
            return errors.SqlError(
                "100115",
                "22023",
                f"The following string is not a legal hex-encoded value: '{value}'",
            )
        case "100116":
            return errors.SqlError(
                "100116",
                "22023",
                f"The following string is not a legal base64-encoded value: '{value}'",
            )
        case "100140":
            text, _, model = value.rpartition(errors.BETWEEN)
            return errors.not_of_format(text, model)
        case "100144":
            return errors.SqlError("100144", "22023", f"Invalid UTF8 detected in string '{value}'")
    return of_data(code, value)


def of_data(code: str, message: str) -> errors.SqlError:
    """Return the error of a value or of a record of a file that cannot be read."""
    return errors.SqlError(code, "22P02" if code == "100069" else "22000", message)


def of_catalog(error: Exception) -> errors.SqlError | None:
    """Return the SqlError of a fact of the catalog or of storage; None for one that is unknown."""
    fault = errortables.find(error, OF_CATALOG)
    return None if fault is None else fault(str(error))


def _absent(object_type: str) -> Fault:
    return lambda text: errors.does_not_exist(object_type, text.rpartition(": ")[2])


def _exists(text: str) -> errors.SqlError:
    renamed = RENAMED.fullmatch(text)
    if renamed is not None:
        return errors.already_exists("Object", names.shown(renamed["name"]))
    return errors.already_exists("Object", text.rpartition(": ")[2])


RENAMED: Final = re.compile(
    r"Cannot rename .*[.](?P<name>.*)[.] (?:Table|View) already exists", re.DOTALL
)


def _invalid(text: str) -> errors.SqlError:
    return errors.SqlError(
        "001008", "22023", f"SQL compilation error:\n{text}", phase="COMPILATION"
    )


def _not_empty(text: str) -> errors.SqlError:
    return errors.not_empty(text)


def _unreadable(text: str) -> errors.SqlError:
    return errors.SqlError("091364", "58030", text)


def _changed_meanwhile(text: str) -> errors.SqlError:
    return errors.SqlError(
        "000625", "40001", f"The table was changed by another writer meanwhile: {text}"
    )


def _failed(text: str) -> errors.SqlError:
    return errors.SqlError("000625", "40000", text)


OF_CATALOG: Final[errortables.Table[Fault]] = {
    catalog_errors.CatalogError: _failed,
    catalog_errors.NoSuchWarehouse: _absent("Database"),
    catalog_errors.NoSuchNamespace: _absent("Schema"),
    catalog_errors.NoSuchTable: _absent("Object"),
    catalog_errors.TableAlreadyExists: _exists,
    catalog_errors.ViewAlreadyExists: _exists,
    catalog_errors.NamespaceAlreadyExists: _exists,
    sequence_errors.NoSuchSequence: _absent("Sequence"),
    sequence_errors.SequenceAlreadyExists: _exists,
    catalog_errors.NamespaceNotEmpty: _not_empty,
    catalog_errors.TableBucketNotEmpty: _not_empty,
    catalog_errors.InvalidCatalogRequest: _invalid,
    catalog_errors.ForeignFileRefused: errors.not_authorized,
    catalog_errors.Protected: errors.not_authorized,
    catalog_errors.MountReadOnly: errors.not_authorized,
    catalog_errors.MetadataFileMissing: _unreadable,
    catalog_errors.InvalidMetadataFile: _unreadable,
    metadata_errors.MetadataError: _failed,
    metadata_errors.BadUpdate: _invalid,
    metadata_errors.RequirementFailed: _changed_meanwhile,
    metadata_errors.StaleSequenceNumber: _changed_meanwhile,
    access_errors.AuditUnavailable: lambda text: errors.SqlError(
        "000625", "58030", f"{text[:1].upper()}{text[1:]}"
    ),
    storage_errors.DiskFull: lambda text: errors.disk_full(),
    storage_errors.DiskReadOnly: lambda text: errors.disk_read_only(),
    # The index took no write, for a reason that the server's log has.
    storage_errors.CommitRefused: lambda text: errors.disk_read_only(),
}
"""Error class -> a function from the error's sentence to Snowflake's error."""
