"""The Iceberg catalog: pure metadata rules, the commit engine, the REST face."""
