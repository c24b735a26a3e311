"""The AWS s3tables management API; its shapes come from AWS's own service model."""
