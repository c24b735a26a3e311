"""The HTTP kit, access control, and the S3 face.

One path serves every face: identify, authenticate, authorise, handle, encode. This floor contains
no Iceberg; what it must know about tables is passed in (`server.s3.guard`).
"""
