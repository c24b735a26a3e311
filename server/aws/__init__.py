"""Faces driven by AWS's own service models, which botocore ships."""
