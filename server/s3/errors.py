"""rule: the facts that the S3 face itself raises; `server.s3.wire_errors` gives each its code.

A fact carries the fields its answer shows. Facts of storage, authentication and access are raised
by those floors and meet the same table.
"""

from __future__ import annotations


class S3Error(Exception):
    """A condition of an S3 request and its fields. `str()` is the message the client reads."""

    def __init__(self, message: str, /, **fields: str) -> None:
        super().__init__(message)
        self.fields = fields


class InvalidArgument(S3Error):
    """An argument has a value that is not allowed; ArgumentName and ArgumentValue say which."""


class InvalidRequest(S3Error):
    """The request contradicts itself or misses a part it needs."""


class InvalidUri(S3Error):
    """The path is not percent-encoded UTF-8."""


class ResourceMethodNotAllowed(S3Error):
    """The resource has no such method."""


class S3FeatureNotImplemented(S3Error):
    """An operation or a header asks for something that Boathouse does not do."""


class UnexpectedXml(S3Error):
    """A body is not the XML document that the operation takes."""


class MissingRequestBody(S3Error):
    """The operation needs a body and the request has none."""


class MissingContentLength(S3Error):
    """The request tells no length for its body."""


class EntityTooLarge(S3Error):
    """A body exceeds the largest size allowed."""


class IncompleteBody(S3Error):
    """Fewer or more bytes arrived than the request announced."""


class MetadataTooLarge(S3Error):
    """User metadata exceeds 2 KiB."""


class InvalidDigest(S3Error):
    """Content-MD5 is not the base64 form of sixteen bytes."""


class BadDigest(S3Error):
    """The body does not have the digest that the client sent along."""


class InvalidTag(S3Error):
    """A tag breaks a rule of tagging."""


class TooManyTags(S3Error):
    """An object is given more tags than it may have."""


class InvalidStorageClass(S3Error):
    """S3 has no such storage class."""


class InvalidLocationConstraint(S3Error):
    """The region asked for is not this server's."""


class IllegalLocationConstraint(S3Error):
    """The default region must not be spelt as a constraint."""


class BucketAlreadyOwnedByYou(S3Error):
    """The caller already owns the bucket that he wants to create."""


class TableBucketVerb(S3Error):
    """A table bucket is made and removed through the s3tables API."""


class IllegalVersioning(S3Error):
    """PutBucketVersioning does not say which versioning the bucket is to have."""


class InvalidRetentionPeriod(S3Error):
    """The retention that a bucket gives to new versions is too short or too long."""


class InvalidPartNumber(S3Error):
    """The object has fewer parts than the one asked for."""


class Forbidden(S3Error):
    """The caller may not do that, or may not know whether it could be done."""


class NotConfigured(S3Error):
    """The bucket has no such configuration; code is AWS's own word for its absence."""

    def __init__(self, code: str, message: str, /, **fields: str) -> None:
        super().__init__(message, **fields)
        self.code = code


class NotAForm(S3Error):
    """A POST to a bucket is not multipart/form-data."""


class MalformedForm(S3Error):
    """The body of a POST form cannot be read as multipart/form-data."""


class FormTooLarge(S3Error):
    """A POST form has too many fields, or too long ones, before its file."""


class FileMissing(S3Error):
    """A POST form has no file."""


class CorsNotEnabled(S3Error):
    """A bucket has no CORS rule that allows what a preflight request asks."""


class PreflightIncomplete(S3Error):
    """A preflight request does not say from where, or what, the browser wants to send."""
