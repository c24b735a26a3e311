"""The S3 face: it parses each request into one operation, and runs it on storage."""
