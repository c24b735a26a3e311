"""rule: the errors that the S3 face itself raises; `server.s3.wire_errors` has the code of each.

An error has the fields that its response shows. The table also has rows for the errors of storage,
authentication and access.
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


class InvalidTargetBucket(S3Error):
    """Access records cannot be delivered to the bucket that TargetBucket names."""


class InvalidUri(S3Error):
    """The path is not percent-encoded UTF-8."""


class ResourceMethodNotAllowed(S3Error):
    """The resource has no such method."""


class S3FeatureNotImplemented(S3Error):
    """The request uses an operation or a header that Boathouse does not implement."""


class UnexpectedXml(S3Error):
    """A body is not the XML document that the operation requires."""


class MissingRequestBody(S3Error):
    """The operation needs a body and the request has none."""


class MissingContentLength(S3Error):
    """The request has no length for its body."""


class EntityTooLarge(S3Error):
    """A body exceeds the largest size allowed."""


class IncompleteBody(S3Error):
    """Fewer or more bytes arrived than the request announced."""


class MetadataTooLarge(S3Error):
    """User metadata exceeds 2 KiB."""


class InvalidDigest(S3Error):
    """Content-MD5 is not the base64 form of sixteen bytes."""


class BadDigest(S3Error):
    """The body does not match the digest that the client sent."""


class InvalidTag(S3Error):
    """A tag breaks a rule of tagging."""


class TooManyTags(S3Error):
    """The request has more tags than an object may have."""


class InvalidStorageClass(S3Error):
    """S3 has no such storage class."""


class InvalidLocationConstraint(S3Error):
    """The LocationConstraint is not this server's region."""


class IllegalLocationConstraint(S3Error):
    """The LocationConstraint names the default region, which S3 does not allow."""


class BucketAlreadyOwnedByYou(S3Error):
    """The caller already owns a bucket of this name."""


class BucketHasVersions(S3Error):
    """A bucket that was to be deleted has versions or delete markers."""


class TableBucketVerb(S3Error):
    """The S3 API does not offer the operation on a table bucket."""


class IllegalVersioning(S3Error):
    """PutBucketVersioning has no valid Status."""


class InvalidRetentionPeriod(S3Error):
    """The default retention of a bucket is too short or too long."""


class InvalidPartNumber(S3Error):
    """The object has fewer parts than the part number of the request."""


class AclNotSupported(S3Error):
    """The bucket's ownership controls let no access control list count."""


class BucketAclPresent(S3Error):
    """A bucket cannot have an access control list and controls that let none count."""


class MalformedAcl(S3Error):
    """A document is no access control list."""


class UnresolvableGrant(S3Error):
    """No user has the email address to which a grant is made."""


class AmbiguousGrant(S3Error):
    """Users of different canonical ids have the email address to which a grant is made."""


class UnexpectedContent(S3Error):
    """A request has a document beside the headers that stand for it."""


class MissingSecurityHeader(S3Error):
    """A request has neither a document nor the headers that stand for it."""


class Forbidden(S3Error):
    """The caller may not do this, or may not learn whether it is possible."""


class NotArchived(S3Error):
    """The object is in no archive, from which it could be restored."""


class NotConfigured(S3Error):
    """The bucket has no such configuration. code: AWS's error code for this configuration."""

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
    """No CORS rule of the bucket allows the request that a preflight request announces."""


class PreflightIncomplete(S3Error):
    """A preflight request lacks its Origin or its Access-Control-Request-Method."""
