"""Which of our own tests show what each test of the kit shows, so that `make test` needs no kit.

The names are those of Iceberg 1.11.0: CatalogTests, and ViewCatalogTests. A row has tests that meet
the same situations as requests of a client; its own tests are paths below `tests/`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_REST: Final = "catalog/rest/"
_GROUPS: Final = f"{_REST}test_kit_groups.py::"
_NAMESPACES: Final = f"{_REST}test_namespaces.py::"
_TABLES: Final = f"{_REST}test_tables.py::"
_VIEWS: Final = f"{_REST}test_views.py::"
_ENGINE: Final = "catalog/test_tables.py::"
_PYICEBERG: Final = "contract/test_iceberg_pyiceberg.py::"
_CONFLICTS: Final = (
    f"{_GROUPS}test_of_two_clients_the_second_one_commits_or_learns_what_has_changed"
)
_SHARED_NAMES: Final = f"{_VIEWS}test_tables_and_views_share_one_space_of_names"

CATALOG: Final[Mapping[str, tuple[str, ...]]] = {
    "testCreateNamespace testCreateNamespaceWithProperties testLoadNamespaceMetadata"
    " testDropNamespace": (f"{_NAMESPACES}test_a_namespace_is_created_loaded_and_dropped",),
    "testCreateExistingNamespace": (f"{_NAMESPACES}test_a_name_that_is_taken_is_refused",),
    "testSetNamespaceProperties testUpdateNamespaceProperties testUpdateAndSetNamespaceProperties"
    " testRemoveNamespaceProperties": (f"{_NAMESPACES}test_properties_are_set_and_removed",),
    "testSetNamespacePropertiesNamespaceDoesNotExist testDropNonexistentNamespace"
    " testRemoveNamespacePropertiesNamespaceDoesNotExist testListNonExistingNamespace": (
        f"{_GROUPS}test_what_is_asked_of_a_missing_namespace_says_so",
    ),
    "testDropNonEmptyNamespace testDropNamespaceWithNestedNamespace": (
        f"{_NAMESPACES}test_a_namespace_that_holds_something_is_not_dropped",
    ),
    "testListNamespaces testListNestedNamespaces": (
        f"{_NAMESPACES}test_a_listing_holds_direct_children_only",
        f"{_PYICEBERG}test_pyiceberg_has_namespaces_of_several_levels_with_properties",
    ),
    "testNamespaceWithSlash testNamespaceWithDot": (
        f"{_NAMESPACES}test_levels_travel_by_0x1f_whatever_they_hold",
    ),
    "testTableNameWithSlash testTableNameWithDot": (
        f"{_TABLES}test_a_name_is_one_segment_whatever_it_holds",
    ),
    "testBasicCreateTable testLoadTable": (f"{_TABLES}test_a_table_is_created_and_loaded",),
    "testBasicCreateTableThatAlreadyExists": (f"{_TABLES}test_a_name_that_is_taken_is_refused",),
    "testCompleteCreateTable": (f"{_TABLES}test_spec_order_and_format_version_are_taken",),
    "testCreateTableWithDefaultColumnValue": (
        f"{_GROUPS}test_a_table_is_created_with_a_column_that_has_defaults",
    ),
    "testLoadTableWithNonExistingNamespace testLoadMissingTable testDropMissingTable"
    " tableCreationWithoutNamespace": (f"{_TABLES}test_a_missing_table_is_reported",),
    "testLoadTableWithMissingMetadataFile": (
        f"{_ENGINE}test_missing_metadata_is_reported_as_missing",
    ),
    "testRenameTable": (f"{_TABLES}test_a_rename_goes_across_namespaces",),
    "testRenameTableMissingSourceTable renameTableNamespaceMissing"
    " testRenameTableDestinationTableAlreadyExists": (
        f"{_TABLES}test_a_rename_that_cannot_be_says_why",
    ),
    "createTableInUniqueLocation dropAfterRenameDoesntCorruptTable": (
        f"{_ENGINE}test_a_renamed_table_keeps_its_place_and_its_old_name_gets_another",
    ),
    "testDropTable testDropTableWithPurge testDropTableWithoutPurge": (
        f"{_TABLES}test_a_drop_purges_only_on_request",
    ),
    "testListTables": (f"{_TABLES}test_tables_list_in_pages",),
    "testUpdateTableSchema testUpdateTableSpec testUpdateTableSortOrder testUpdateTransaction": (
        f"{_TABLES}test_a_commit_answers_with_the_table_after_it",
        f"{_PYICEBERG}test_pyiceberg_creates_appends_evolves_deletes_and_scans",
    ),
    "testUpdateTableSchemaThenRevert testUpdateTableSpecThenRevert"
    " testUpdateTableOrderThenRevert": (
        f"{_GROUPS}test_a_definition_that_comes_back_has_the_id_that_it_had",
    ),
    "testUUIDValidation": (
        f"{_GROUPS}test_a_replacement_of_a_table_that_was_made_anew_is_refused",
    ),
    "testUpdateTableSchemaServerSideRetry testUpdateTableSchemaConflict"
    " testUpdateTableSchemaAssignmentConflict testUpdateTableSpecServerSideRetry"
    " testUpdateTableSpecConflict testUpdateTableAssignmentSpecConflict"
    " testUpdateTableSortOrderServerSideRetry testConcurrentReplaceTransactions"
    " testConcurrentReplaceTransactionSchema testConcurrentReplaceTransactionSchema2"
    " testConcurrentReplaceTransactionSchemaConflict testConcurrentReplaceTransactionPartitionSpec"
    " testConcurrentReplaceTransactionPartitionSpec2"
    " testConcurrentReplaceTransactionPartitionSpecConflict"
    " testConcurrentReplaceTransactionSortOrder"
    " testConcurrentReplaceTransactionSortOrderConflict": (_CONFLICTS,),
    "testRemoveUnusedSpec": (f"{_GROUPS}test_unused_specs_are_removed_and_used_ones_stay",),
    "testRemoveUnusedSchemas": (f"{_GROUPS}test_unused_schemas_are_removed_and_used_ones_stay",),
    "testAppend": (f"{_PYICEBERG}test_pyiceberg_creates_appends_evolves_deletes_and_scans",),
    "testConcurrentAppendEmptyTable testConcurrentAppendNonEmptyTable": (
        f"{_ENGINE}test_of_two_writers_that_saw_no_snapshot_one_gets_an_honest_refusal",
        f"{_PYICEBERG}test_of_two_pyiceberg_writers_the_later_one_gets_409_and_retries",
    ),
    "testCreateTransaction createTableTransaction": (
        f"{_TABLES}test_a_staged_create_is_finished_by_a_commit",
    ),
    "testCompleteCreateTransaction testCompleteCreateTransactionMultipleSchemas"
    " testCompleteCreateTransactionV2": (
        f"{_ENGINE}test_a_staged_create_is_finished_at_its_place_with_its_uuids",
        f"{_PYICEBERG}test_pyiceberg_creates_a_table_with_its_first_rows_in_one_transaction",
    ),
    "testConcurrentCreateTransaction testCreateOrReplaceTransactionConcurrentCreate": (
        f"{_GROUPS}test_create_or_replace_loses_to_a_table_created_meanwhile",
    ),
    "testCreateOrReplaceTransactionCreate testCompleteCreateOrReplaceTransactionCreate": (
        f"{_GROUPS}test_create_or_replace_creates_a_table_only_when_it_is_committed",
    ),
    "testCreateOrReplaceReplaceTransactionReplace testCompleteCreateOrReplaceTransactionReplace": (
        f"{_GROUPS}test_create_or_replace_of_a_present_table_is_a_replacement",
    ),
    "testReplaceTransaction testCompleteReplaceTransaction replaceTableTransaction"
    " testReplaceTableKeepsSnapshotLog": (
        f"{_GROUPS}test_a_replacement_keeps_uuid_location_and_history",
    ),
    "testReplaceTransactionRequiresTableExists": (
        f"{_GROUPS}test_a_replacement_of_a_missing_table_is_refused",
    ),
    "testMetadataFileLocationsRemovalAfterCommit": (
        f"{_ENGINE}test_old_metadata_is_tombstoned_only_on_request_after_the_commit",
    ),
    "testRegisterTable": (f"{_TABLES}test_a_table_is_unregistered_and_registered_elsewhere",),
    "testRegisterExistingTable": (
        f"{_GROUPS}test_a_register_of_a_taken_name_is_refused_and_changes_nothing",
    ),
    "testCatalogWithCustomMetricsReporter": (
        f"{_TABLES}test_reports_of_clients_are_kept_and_shown",
    ),
}
"""Tests of CatalogTests, separated by spaces, and ours."""

VIEWS: Final[Mapping[str, tuple[str, ...]]] = {
    "basicCreateView completeCreateView": (f"{_VIEWS}test_a_view_is_created_and_loaded",),
    "createViewErrorCases": (f"{_VIEWS}test_a_malformed_create_is_refused_and_makes_nothing",),
    "createViewWithCustomMetadataLocation createAndReplaceViewWithLocation": (
        f"{_VIEWS}test_a_view_asked_for_elsewhere_gets_its_place_where_the_bucket_says_so",
    ),
    "loadViewWithNonExistingNamespace renameViewSourceMissing replaceViewErrorCases": (
        f"{_VIEWS}test_a_missing_view_is_reported",
    ),
    "loadViewThatAlreadyExistsAsTable loadTableThatAlreadyExistsAsView"
    " replaceViewThatAlreadyExistsAsTable createOrReplaceViewThatAlreadyExistsAsTable": (
        f"{_VIEWS}test_a_missing_view_is_reported",
        f"{_VIEWS}test_a_view_is_no_table",
    ),
    "createViewThatAlreadyExists createViewThatAlreadyExistsAsTable createViewConflict"
    " createTableThatAlreadyExistsAsView createTableViaTransactionThatAlreadyExistsAsView"
    " createOrReplaceTableViaTransactionThatAlreadyExistsAsView"
    " replaceTableViaTransactionThatAlreadyExistsAsView renameViewTargetAlreadyExistsAsTable"
    " renameTableTargetAlreadyExistsAsView registerTableThatAlreadyExistsAsView"
    " registerExistingView registerViewThatAlreadyExistsAsTable": (_SHARED_NAMES,),
    "renameView renameViewUsingDifferentNamespace renameViewNamespaceMissing"
    " renameViewTargetAlreadyExistsAsView": (
        f"{_VIEWS}test_a_view_is_renamed_across_namespaces_and_keeps_its_files",
    ),
    "listViews": (f"{_VIEWS}test_list_views_comes_in_pages",),
    "listViewsAndTables": (
        f"{_VIEWS}test_list_views_of_a_namespace_with_tables_answers_an_empty_list",
    ),
    "createOrReplaceView replaceViewVersion replaceViewVersionByUpdatingSQLForDialect": (
        f"{_VIEWS}test_a_replacement_adds_a_version_and_a_file",
        f"{_VIEWS}test_a_version_that_says_the_same_gets_the_id_of_the_first",
    ),
    "updateViewProperties updateViewLocation": (
        f"{_VIEWS}test_every_update_of_a_view_takes_effect",
    ),
    "updateViewPropertiesErrorCases replaceViewVersionErrorCases": (
        f"{_VIEWS}test_a_refused_replacement_changes_nothing",
    ),
    "updateViewPropertiesConflict replaceViewVersionConflict replaceViewConflict"
    " updateViewLocationConflict": (
        f"{_GROUPS}test_a_change_of_a_view_that_was_dropped_meanwhile_is_refused",
    ),
    "concurrentReplaceViewVersion": (f"{_VIEWS}test_replacements_at_once_all_take_place",),
    "testSqlForMultipleDialects testSqlForCaseInsensitive testSqlForInvalidArguments": (
        f"{_VIEWS}test_two_texts_of_one_dialect_are_refused_in_the_words_of_the_specifications_kit",
        f"{_VIEWS}test_a_dialect_is_dropped_where_the_view_allows_it",
    ),
    "dropNonEmptyNamespace": (f"{_VIEWS}test_a_namespace_with_a_view_is_not_empty",),
    "registerView": (f"{_VIEWS}test_a_dropped_view_is_registered_again_from_its_file",),
}
"""Tests of ViewCatalogTests, separated by spaces, and ours."""

OF_THE_CLIENT: Final[Mapping[str, str]] = {
    "testDefaultTableProperties testDefaultTablePropertiesCreateTransaction"
    " testDefaultTablePropertiesReplaceTransaction testOverrideTableProperties"
    " testOverrideTablePropertiesCreateTransaction testOverrideTablePropertiesReplaceTransaction"
    " defaultViewProperties overrideViewProperties": "the client adds its own settings' properties",
    "testLoadMetadataTable": "the client makes metadata tables from the table's metadata",
    "listNamespacesWithEmptyNamespace createAndDropEmptyNamespace listTablesInEmptyNamespace"
    " namespacePropertiesOnEmptyNamespace listViewsInEmptyNamespace": (
        "never runs: there is no namespace of no levels"
    ),
}
"""Tests of what the client does without the server, or that never run, and why."""
