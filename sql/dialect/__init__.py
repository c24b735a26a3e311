"""Snowflake text to DataFusion text; the only place that knows sqlglot."""
