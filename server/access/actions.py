"""rule: the actions that a policy may name, by service.

Those of s3 are AWS's (service authorization reference, "Actions defined by Amazon S3"); they differ
from the names of its operations. Those of s3tables, sts and iam are the operations of AWS's service
models and the actions that have no operation. `lake` and s3tables:UpdateNamespace are this
server's own: AWS has no operation that changes a namespace, but the REST catalog has one.
"""

from __future__ import annotations

import bisect
import difflib
from collections.abc import Mapping, Sequence
from typing import Final

from server.access import globs

_S3: Final = """
    AbortMultipartUpload AssociateAccessGrantsIdentityCenter BypassGovernanceRetention
    CreateAccessGrant CreateAccessGrantsInstance CreateAccessGrantsLocation CreateAccessPoint
    CreateAccessPointForObjectLambda CreateBucket CreateBucketMetadataTableConfiguration
    CreateJob CreateMultiRegionAccessPoint CreateStorageLensGroup DeleteAccessGrant
    DeleteAccessGrantsInstance DeleteAccessGrantsInstanceResourcePolicy
    DeleteAccessGrantsLocation DeleteAccessPoint DeleteAccessPointForObjectLambda
    DeleteAccessPointPolicy DeleteAccessPointPolicyForObjectLambda DeleteBucket
    DeleteBucketMetadataTableConfiguration DeleteBucketPolicy DeleteBucketWebsite
    DeleteJobTagging DeleteMultiRegionAccessPoint DeleteObject DeleteObjectTagging
    DeleteObjectVersion DeleteObjectVersionTagging DeleteStorageLensConfiguration
    DeleteStorageLensConfigurationTagging DeleteStorageLensGroup DescribeJob
    DescribeMultiRegionAccessPointOperation DissociateAccessGrantsIdentityCenter
    GetAccelerateConfiguration GetAccessGrant GetAccessGrantsInstance
    GetAccessGrantsInstanceForPrefix GetAccessGrantsInstanceResourcePolicy
    GetAccessGrantsLocation GetAccessPoint GetAccessPointConfigurationForObjectLambda
    GetAccessPointForObjectLambda GetAccessPointPolicy GetAccessPointPolicyForObjectLambda
    GetAccessPointPolicyStatus GetAccessPointPolicyStatusForObjectLambda
    GetAccountPublicAccessBlock GetAnalyticsConfiguration GetBucketAbac GetBucketAcl
    GetBucketCORS GetBucketLocation GetBucketLogging GetBucketMetadataTableConfiguration
    GetBucketNotification GetBucketObjectLockConfiguration GetBucketOwnershipControls
    GetBucketPolicy GetBucketPolicyStatus GetBucketPublicAccessBlock GetBucketRequestPayment
    GetBucketTagging GetBucketVersioning GetBucketWebsite GetDataAccess
    GetEncryptionConfiguration GetIntelligentTieringConfiguration GetInventoryConfiguration
    GetJobTagging GetLifecycleConfiguration GetMetricsConfiguration GetMultiRegionAccessPoint
    GetMultiRegionAccessPointPolicy GetMultiRegionAccessPointPolicyStatus
    GetMultiRegionAccessPointRoutes GetObject GetObjectAcl GetObjectAttributes
    GetObjectLegalHold GetObjectRetention GetObjectTagging GetObjectTorrent GetObjectVersion
    GetObjectVersionAcl GetObjectVersionAttributes GetObjectVersionForReplication
    GetObjectVersionTagging GetObjectVersionTorrent GetReplicationConfiguration
    GetStorageLensConfiguration GetStorageLensConfigurationTagging GetStorageLensDashboard
    GetStorageLensGroup InitiateReplication ListAccessGrants ListAccessGrantsInstances
    ListAccessGrantsLocations ListAccessPoints ListAccessPointsForObjectLambda ListAllMyBuckets
    ListBucket ListBucketMultipartUploads ListBucketVersions ListCallerAccessGrants ListJobs
    ListMultiRegionAccessPoints ListMultipartUploadParts ListStorageLensConfigurations
    ListStorageLensGroups ListTagsForResource ObjectOwnerOverrideToBucketOwner PauseReplication
    PutAccelerateConfiguration PutAccessGrantsInstanceResourcePolicy
    PutAccessPointConfigurationForObjectLambda PutAccessPointPolicy
    PutAccessPointPolicyForObjectLambda PutAccessPointPublicAccessBlock
    PutAccountPublicAccessBlock PutAnalyticsConfiguration PutBucketAbac PutBucketAcl
    PutBucketCORS PutBucketLogging PutBucketNotification PutBucketObjectLockConfiguration
    PutBucketOwnershipControls PutBucketPolicy PutBucketPublicAccessBlock
    PutBucketRequestPayment PutBucketTagging PutBucketVersioning PutBucketWebsite
    PutEncryptionConfiguration PutIntelligentTieringConfiguration PutInventoryConfiguration
    PutJobTagging PutLifecycleConfiguration PutMetricsConfiguration
    PutMultiRegionAccessPointPolicy PutObject PutObjectAcl PutObjectLegalHold PutObjectRetention
    PutObjectTagging PutObjectVersionAcl PutObjectVersionTagging PutReplicationConfiguration
    PutStorageLensConfiguration PutStorageLensConfigurationTagging ReplicateDelete
    ReplicateObject ReplicateTags RestoreObject SubmitMultiRegionAccessPointRoutes TagResource
    UntagResource UpdateAccessGrantsLocation UpdateBucketMetadataInventoryTableConfiguration
    UpdateBucketMetadataJournalTableConfiguration UpdateJobPriority UpdateJobStatus
    UpdateObjectEncryption UpdateStorageLensGroup
"""
_S3_OF_OBJECTS: Final = """
    AbortMultipartUpload BypassGovernanceRetention DeleteObject DeleteObjectTagging
    DeleteObjectVersion DeleteObjectVersionTagging GetObject GetObjectAcl GetObjectAttributes
    GetObjectLegalHold GetObjectRetention GetObjectTagging GetObjectTorrent GetObjectVersion
    GetObjectVersionAcl GetObjectVersionAttributes GetObjectVersionForReplication
    GetObjectVersionTagging GetObjectVersionTorrent InitiateReplication ListMultipartUploadParts
    ObjectOwnerOverrideToBucketOwner PutObject PutObjectAcl PutObjectLegalHold PutObjectRetention
    PutObjectTagging PutObjectVersionAcl PutObjectVersionTagging ReplicateDelete ReplicateObject
    ReplicateTags RestoreObject UpdateObjectEncryption
"""
"""Those whose resource is an object; that of the others is a bucket, or none."""
_S3TABLES: Final = """
    CompleteTableMigration CreateNamespace CreateTable CreateTableBucket DeleteNamespace
    DeleteTable DeleteTableBucket DeleteTableBucketEncryption
    DeleteTableBucketMetricsConfiguration DeleteTableBucketPolicy DeleteTableBucketReplication
    DeleteTablePolicy DeleteTableReplication GetNamespace GetTable GetTableBucket
    GetTableBucketEncryption GetTableBucketLogging GetTableBucketMaintenanceConfiguration
    GetTableBucketMetricsConfiguration GetTableBucketPolicy GetTableBucketReplication
    GetTableBucketStorageClass GetTableData GetTableEncryption GetTableMaintenanceConfiguration
    GetTableMaintenanceJobStatus GetTableMetadataLocation GetTableMigration GetTablePolicy
    GetTableRecordExpirationConfiguration GetTableRecordExpirationJobStatus GetTableReplication
    GetTableReplicationStatus GetTableStorageClass ListNamespaces ListTableBuckets
    ListTableMigrations ListTables ListTagsForResource PutTableBucketEncryption
    PutTableBucketLogging PutTableBucketMaintenanceConfiguration
    PutTableBucketMetricsConfiguration PutTableBucketPolicy PutTableBucketReplication
    PutTableBucketStorageClass PutTableData PutTableMaintenanceConfiguration PutTablePolicy
    PutTableRecordExpirationConfiguration PutTableReplication RenameTable StartTableMigration
    SyncTableMigration TagResource UntagResource UpdateNamespace UpdateTableMetadataLocation
    UpdateTableMigration
"""
_STS: Final = """
    AssumeRole AssumeRoleWithSAML AssumeRoleWithWebIdentity AssumeRoot
    DecodeAuthorizationMessage GetAccessKeyInfo GetCallerIdentity GetDelegatedAccessToken
    GetFederationToken GetServiceBearerToken GetSessionToken GetWebIdentityToken SetContext
    SetSourceIdentity TagGetFederationToken TagSession
"""
_IAM: Final = """
    AcceptDelegationRequest AcquireRole AddClientIDToOpenIDConnectProvider
    AddRoleToInstanceProfile AddUserToGroup AssociateDelegationRequest AttachGroupPolicy
    AttachRolePolicy AttachUserPolicy ChangePassword CreateAccessKey CreateAccountAlias
    CreateDelegationRequest CreateGroup CreateInstanceProfile CreateLoginProfile
    CreateOpenIDConnectProvider CreatePolicy CreatePolicyVersion CreateRole CreateSAMLProvider
    CreateServiceLinkedRole CreateServiceSpecificCredential CreateUser CreateVirtualMFADevice
    DeactivateMFADevice DeleteAccessKey DeleteAccountAlias DeleteAccountPasswordPolicy
    DeleteGroup DeleteGroupPolicy DeleteInstanceProfile DeleteLoginProfile
    DeleteOpenIDConnectProvider DeletePolicy DeletePolicyVersion DeleteRole
    DeleteRolePermissionsBoundary DeleteRolePolicy DeleteSAMLProvider DeleteSSHPublicKey
    DeleteServerCertificate DeleteServiceLinkedRole DeleteServiceSpecificCredential
    DeleteSigningCertificate DeleteUser DeleteUserPermissionsBoundary DeleteUserPolicy
    DeleteVirtualMFADevice DetachGroupPolicy DetachRolePolicy DetachUserPolicy
    DisableOrganizationsRootCredentialsManagement DisableOrganizationsRootSessions
    DisableOutboundWebIdentityFederation EnableMFADevice
    EnableOrganizationsRootCredentialsManagement EnableOrganizationsRootSessions
    EnableOutboundWebIdentityFederation GenerateCredentialReport
    GenerateOrganizationsAccessReport GenerateServiceLastAccessedDetails GetAccessKeyLastUsed
    GetAccountAuthorizationDetails GetAccountPasswordPolicy GetAccountProperties
    GetAccountSummary GetContextKeysForCustomPolicy GetContextKeysForPrincipalPolicy
    GetCredentialReport GetDelegationRequest GetGroup GetGroupPolicy GetHumanReadableSummary
    GetInstanceProfile GetLoginProfile GetMFADevice GetOpenIDConnectProvider
    GetOrganizationsAccessReport GetOutboundWebIdentityFederationInfo GetPolicy GetPolicyVersion
    GetRole GetRolePolicy GetRoleTemplateVersion GetSAMLProvider GetSSHPublicKey
    GetServerCertificate GetServiceLastAccessedDetails GetServiceLastAccessedDetailsWithEntities
    GetServiceLinkedRoleDeletionStatus GetUser GetUserPolicy ListAccessKeys ListAccountAliases
    ListAttachedGroupPolicies ListAttachedRolePolicies ListAttachedUserPolicies
    ListDelegationRequests ListEntitiesForPolicy ListGroupPolicies ListGroups ListGroupsForUser
    ListInstanceProfileTags ListInstanceProfiles ListInstanceProfilesForRole ListMFADeviceTags
    ListMFADevices ListOpenIDConnectProviderTags ListOpenIDConnectProviders
    ListOrganizationsFeatures ListPolicies ListPoliciesGrantingServiceAccess ListPolicyTags
    ListPolicyVersions ListRolePolicies ListRoleTags ListRoles ListSAMLProviderTags
    ListSAMLProviders ListSSHPublicKeys ListServerCertificateTags ListServerCertificates
    ListServiceSpecificCredentials ListSigningCertificates ListUserPolicies ListUserTags
    ListUsers ListVirtualMFADevices PassRole PutAccountProperties PutGroupPolicy
    PutRolePermissionsBoundary PutRolePolicy PutUserPermissionsBoundary PutUserPolicy
    RejectDelegationRequest RemoveClientIDFromOpenIDConnectProvider
    RemoveRoleFromInstanceProfile RemoveUserFromGroup ResetServiceSpecificCredential
    ResyncMFADevice SendDelegationToken SetDefaultPolicyVersion
    SetSecurityTokenServicePreferences SimulateCustomPolicy SimulatePrincipalPolicy
    TagInstanceProfile TagMFADevice TagOpenIDConnectProvider TagPolicy TagRole TagSAMLProvider
    TagServerCertificate TagUser UntagInstanceProfile UntagMFADevice UntagOpenIDConnectProvider
    UntagPolicy UntagRole UntagSAMLProvider UntagServerCertificate UntagUser UpdateAccessKey
    UpdateAccountPasswordPolicy UpdateAssumeRolePolicy UpdateDelegationRequest UpdateGroup
    UpdateLoginProfile UpdateOpenIDConnectProviderThumbprint UpdateRole UpdateRoleDescription
    UpdateSAMLProvider UpdateSSHPublicKey UpdateServerCertificate
    UpdateServiceSpecificCredential UpdateSigningCertificate UpdateUser UploadSSHPublicKey
    UploadServerCertificate UploadSigningCertificate
"""

ACTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "s3": tuple(_S3.split()),
    "s3tables": tuple(_S3TABLES.split()),
    "sts": tuple(_STS.split()),
    "iam": tuple(_IAM.split()),
    "lake": ("Admin", "Query", "RunMaintenance", "Undrop"),
}

_BY_LOWER: Final[Mapping[str, Mapping[str, str]]] = {
    service: {name.lower(): name for name in names} for service, names in ACTIONS.items()
}

_SORTED: Final[Mapping[str, tuple[str, ...]]] = {
    service: tuple(sorted(names)) for service, names in _BY_LOWER.items()
}
_OF_OBJECTS: Final = frozenset(_S3_OF_OBJECTS.lower().split())
_BY_RESOURCE: Final[Mapping[bool, tuple[str, ...]]] = {
    objects: tuple(name for name in _SORTED["s3"] if (name in _OF_OBJECTS) is objects)
    for objects in (False, True)
}


def spelled(action: str) -> str:
    """Return an action as its service spells it; unchanged if there is none of its name.

    Policies and requests may spell actions in any case.
    """
    service, _, name = action.partition(":")
    spelling = _BY_LOWER.get(service.lower(), {}).get(name.lower())
    return action if spelling is None else f"{service.lower()}:{spelling}"


def is_costly(name: str) -> bool:
    """Return whether a pattern is compared with each action: one without a wildcard, or with a star
    at its end alone, is not."""
    return _has_wildcard(name.removesuffix("*"))


def is_about(name: str, *, objects: bool) -> bool:
    """Return whether a pattern names an action of s3 that is about objects, or one that is not.

    name: as for `suggest`."""
    return _fits(name.lower(), _BY_RESOURCE[objects])


def suggest(service: str, name: str) -> str | None:
    """Return why a service has no action of this name, or None if it has one.

    name: letters, digits, `*` and `?`, in any case; a pattern must match at least one action.
    """
    by_lower = _BY_LOWER[service]
    if _has_wildcard(name):
        if _fits(name.lower(), _SORTED[service]):
            return None
        return f"no action of {service} fits {name!r}"
    if name.lower() in by_lower:
        return None
    close = difflib.get_close_matches(name.lower(), by_lower, n=1)
    hint = f"; did you mean {service}:{by_lower[close[0]]}?" if close else ""
    return f"{service} has no action {name!r}{hint}"


def _has_wildcard(name: str) -> bool:
    return "*" in name or "?" in name


def _fits(pattern: str, names: Sequence[str]) -> bool:
    """Return whether a pattern fits one of the sorted names."""
    if is_costly(pattern):
        return any(map(globs.parse(pattern).matches, names))
    beginning = pattern.removesuffix("*")
    index = bisect.bisect_left(names, beginning)
    if index == len(names):
        return False
    return names[index].startswith(beginning) if pattern != beginning else names[index] == pattern
