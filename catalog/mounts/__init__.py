"""The mounts: other catalogs and tables that the server shows, read-only."""
