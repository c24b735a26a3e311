"""The Snowflake v1 protocol's HTTP face."""
