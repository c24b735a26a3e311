"""The AWS s3tables management API; shapes come from AWS's own service model."""
