"""The HTTP kit, who may do what, and the S3 face.

One request pipeline serves every face: identify, authenticate, authorise, handle, encode. This
floor knows nothing of Iceberg; what it must ask about tables is passed in (`server.s3.guard`).
"""
