"""Troubles that users of other catalogs reported, and the tests that show their absence here.

The numbers are those of the forty troubles that issue trackers of other catalogs report most. A
trouble without a test here is about something that is not built: branches (38) and the console
(40).
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).parent
NOT_BUILT: Final = frozenset({38, 40})

TROUBLES: Final[Mapping[int, tuple[str, tuple[str, ...]]]] = {
    1: (
        "a commit was no compare-and-swap, and the loser's clean-up removed the winner's file",
        (
            "contract/test_iceberg_commits.py::"
            "test_eight_writers_of_one_table_leave_one_unbroken_history",
        ),
    ),
    2: (
        "an assert-ref-snapshot-id of null was ignored, so first writes were lost",
        (
            "catalog/metadata/test_requirements.py::"
            "test_requirement_that_does_not_hold_fails_with_its_sentence",
        ),
    ),
    3: (
        "the server removed metadata after a commit of unknown outcome",
        ("catalog/test_tables.py::test_an_unknown_outcome_is_reported_and_removes_nothing",),
    ),
    4: (
        "races were answered 500 instead of 409",
        (
            "contract/test_iceberg_pyiceberg.py::"
            "test_of_two_pyiceberg_writers_the_later_one_gets_409_and_retries",
        ),
    ),
    5: (
        "a stale sequence number was a fatal 400",
        ("catalog/rest/test_tables.py::test_a_stale_snapshot_is_a_conflict_the_client_may_retry",),
    ),
    6: (
        "after a timeout clients removed files of a commit that had happened",
        (
            "catalog/rest/test_idempotency.py::test_a_commit_sent_twice_is_done_once",
            "catalog/rest/test_wire_errors.py::"
            "test_only_an_unknown_outcome_of_a_commit_has_a_status_that_says_so",
        ),
    ),
    7: (
        "three and more writers of one table mostly failed",
        (
            "contract/test_iceberg_commits.py::"
            "test_eight_writers_of_one_table_leave_one_unbroken_history",
            "catalog/test_tables.py::test_a_pointer_moved_by_another_process_is_retried_not_refused",
        ),
    ),
    8: (
        "conflicts left metadata files behind",
        ("catalog/test_tables.py::test_a_failed_requirement_leaves_no_file_behind",),
    ),
    9: (
        "a commit of several tables was not atomic",
        (
            "contract/test_iceberg_duckdb.py::"
            "test_duckdb_commits_several_tables_in_one_transaction_or_none",
        ),
    ),
    10: (
        "a creation read the locations of all its siblings",
        ("catalog/test_tables.py::test_a_table_is_created_in_constant_time_beside_many_siblings",),
    ),
    11: (
        "requests took longer the more tables there were",
        (
            "catalog/rest/test_costs.py::"
            "test_creating_loading_and_committing_cost_the_same_among_few_and_many_tables",
        ),
    ),
    12: (
        "a table with many snapshots loaded slowly",
        (
            "catalog/rest/test_large_metadata.py::"
            "test_others_are_answered_while_large_metadata_is_read",
            "catalog/rest/test_large_metadata.py::"
            "test_readers_of_the_same_large_metadata_wait_for_one_decoding",
        ),
    ),
    13: (
        "engines loaded tables again for each statement",
        ("catalog/rest/test_tables.py::test_an_entity_tag_answers_whether_anything_changed",),
    ),
    14: (
        "large metadata took memory and time",
        (
            "catalog/rest/test_tables.py::test_refs_leaves_out_what_no_branch_or_tag_points_at",
            "catalog/test_tables.py::"
            "test_a_commit_on_a_thousand_snapshots_takes_less_than_100_kb_of_disk",
        ),
    ),
    15: (
        "pools of connections ran out, and transactions failed to serialise",
        (
            "contract/test_no_false_conflicts.py::"
            "test_sixteen_writers_of_different_things_are_never_refused",
        ),
    ),
    16: (
        "spellings of a warehouse were not understood",
        (
            "catalog/rest/test_config.py::test_a_warehouse_is_found_in_every_spelling",
            "catalog/rest/test_config.py::test_an_unknown_warehouse_is_not_found_with_a_hint",
            "contract/test_iceberg_pyiceberg.py::"
            "test_the_error_of_a_wrong_uri_names_the_catalogs_address",
        ),
    ),
    17: (
        "the separator of a namespace's levels was refused",
        ("catalog/rest/test_namespaces.py::test_levels_travel_by_0x1f_whatever_they_hold",),
    ),
    18: (
        "buckets named like a route were not reachable",
        (
            "server/aws/test_match.py::test_a_bucket_named_like_a_route_is_found_by_its_decoded_arn",
            "server/test_dispatch.py::test_first_matching_row_decides",
        ),
    ),
    19: (
        "the layout refused files of real writers",
        (
            "catalog/test_layout_content.py::"
            "test_what_real_writers_write_fits_its_name_and_no_other",
            "contract/test_s3_layout.py::"
            "test_files_that_fit_the_layout_are_written_listed_and_removed",
        ),
    ),
    20: (
        "CTAS and staged creations failed",
        (
            "contract/test_spark.py::test_spark_ctas_replaces_renames_and_drops_with_purge",
            "contract/test_iceberg_duckdb.py::test_duckdb_creates_inserts_deletes_and_reads",
            "contract/test_iceberg_pyiceberg.py::"
            "test_pyiceberg_creates_a_table_with_its_first_rows_in_one_transaction",
            "contract/test_trino.py::"
            "test_trino_makes_tables_of_queries_views_and_reads_earlier_states",
            "catalog/rest/test_tables.py::test_a_staged_create_is_finished_by_a_commit",
        ),
    ),
    21: (
        "tables of the management API were unusable for engines",
        (
            "contract/test_s3tables_iceberg.py::"
            "test_a_table_of_s3tables_takes_rows_through_iceberg_rest",
        ),
    ),
    22: (
        "upper case and hyphens in names were changed or refused",
        ("catalog/test_idents.py::test_a_name_keeps_its_case_and_its_signs",),
    ),
    23: (
        "errors had types that clients misread",
        (
            "contract/test_iceberg_pyiceberg.py::"
            "test_pyiceberg_sees_the_catalogs_errors_by_their_types",
        ),
    ),
    24: (
        "answers of S3 had bodies that clients could not read",
        (
            "server/s3/test_uploads.py::"
            "test_a_completion_that_is_sent_again_is_answered_as_the_first_one_whatever_its_condition",
        ),
    ),
    25: (
        "the framing of chunks was stored in the object",
        (
            "server/s3/test_operations.py::"
            "test_put_object_stores_no_content_encoding_if_it_was_only_aws_chunked",
        ),
    ),
    26: (
        "clients that do not sign requests were locked out",
        (
            "catalog/rest/test_oauth.py::"
            "test_an_access_key_pair_becomes_a_token_that_opens_the_catalog",
        ),
    ),
    27: (
        "clients did not learn the address and path style of the object store",
        (
            "catalog/rest/test_config.py::test_config_has_all_settings_that_a_client_needs",
            "catalog/rest/test_config.py::test_addresses_are_those_by_which_the_client_came",
        ),
    ),
    28: (
        "no credentials were vended without an external STS",
        ("catalog/rest/test_credentials.py::test_vended_keys_read_and_write_their_table",),
    ),
    29: (
        "credentials ended within a long job",
        (
            "catalog/rest/test_tables.py::"
            "test_load_table_is_no_304_once_the_vended_keys_are_about_to_expire",
            "contract/test_spark.py::"
            "test_a_loaded_table_is_read_with_newer_keys_once_those_of_its_load_have_ended",
        ),
    ),
    30: (
        "vended credentials opened a sibling with a longer name",
        ("catalog/rest/test_credentials.py::test_vended_keys_open_nothing_beside_their_table",),
    ),
    31: (
        "a signer could not list, so orphans could not be found",
        ("contract/test_remote_signing.py::test_pyicebergs_signer_reads_writes_lists_and_deletes",),
    ),
    32: (
        "a user without a policy could do everything",
        (
            "server/access/test_decide.py::test_principal_without_policies_can_do_nothing",
            "s3tables/test_access.py::test_a_user_without_policies_may_do_nothing",
        ),
    ),
    33: (
        "two systems of permissions stood beside each other",
        ("contract/test_access_table.py::test_the_same_policies_decide_alike_at_every_door",),
    ),
    34: (
        "maintenance changed rows, or never ran",
        (
            "pipeline/test_maintenance.py::"
            "test_compact_and_expire_keep_every_row_and_a_further_ingest_loads_nothing",
            "contract/test_spark.py::test_spark_maintains_registers_branches_and_tags_a_table",
        ),
    ),
    35: (
        "PURGE meant something else for each engine",
        (
            "catalog/rest/test_tables.py::test_a_drop_purges_only_on_request",
            "catalog/test_drops.py::test_the_setting_of_a_bucket_says_which_drops_purge",
        ),
    ),
    36: (
        "the removal of orphans removed files that were still referenced",
        (
            "model/test_sweep.py::"
            "test_sweeps_between_commits_drops_and_registrations_free_all_but_what_is_retained",
        ),
    ),
    37: (
        "a rename lost or overwrote data",
        (
            "catalog/test_tables.py::test_a_rename_moves_the_pointer_and_nothing_else",
            "catalog/test_tables.py::"
            "test_a_renamed_table_keeps_its_place_and_its_old_name_gets_another",
        ),
    ),
    39: (
        "changes of different tables conflicted",
        (
            "contract/test_no_false_conflicts.py::"
            "test_sixteen_writers_of_different_things_are_never_refused",
        ),
    ),
}


@functools.cache
def functions_of(path: str) -> frozenset[str]:
    tree = ast.parse((TESTS / path).read_text())
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def test_every_trouble_has_a_test_or_is_about_what_is_not_built() -> None:
    assert TROUBLES.keys() | NOT_BUILT == set(range(1, 41))
    assert TROUBLES.keys().isdisjoint(NOT_BUILT)


@pytest.mark.parametrize("name", sorted({name for _, names in TROUBLES.values() for name in names}))
def test_the_test_of_a_trouble_exists(name: str) -> None:
    path, _, function = name.partition("::")
    assert function in functions_of(path)
