"""Iceberg's REST Compatibility Kit against this server: `make rck`."""
