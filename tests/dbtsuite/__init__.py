"""dbt's adapter suite against a server."""
