"""The Snowflake protocol over DataFusion."""
