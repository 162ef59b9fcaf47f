"""The vocabulary of Headrace: every event type, one noun per file.

`CATALOGUE` maps each tag to its type. Adding an event is its class and its entry in `EVENTS`.
"""

from __future__ import annotations

import msgspec

from headrace.events import (
    access,
    attempts,
    gangs,
    jobs,
    members,
    nodes,
    pauses,
    people,
    performance,
    platform,
    pools,
    queues,
    scheduling,
    sweeps,
    templates,
    volumes,
    webhooks,
    workspaces,
)
from headrace.events.base import (
    Decision,
    Entry,
    Event,
    Fact,
    Header,
    Refusal,
    stream_of,
    tag_of,
)

EVENTS: tuple[type[Event], ...] = (
    jobs.JobRequested,
    jobs.JobAdmitted,
    jobs.JobRefused,
    jobs.JobCancelRequested,
    jobs.JobEnterRequested,
    jobs.JobEntered,
    jobs.JobEnterRefused,
    jobs.JobCancelling,
    jobs.JobCancelRefused,
    jobs.JobEligible,
    jobs.JobHeld,
    jobs.JobRetries,
    jobs.JobStarted,
    jobs.JobFinished,
    gangs.GangPlaced,
    gangs.GangGrown,
    gangs.GangReserved,
    gangs.GangShrunk,
    gangs.GangEvicted,
    gangs.WorkersReleased,
    gangs.GangReleased,
    gangs.GuardTripped,
    gangs.SearchSuspended,
    attempts.AttemptStarted,
    attempts.AttemptExited,
    attempts.AttemptExpired,
    attempts.AttemptOverran,
    pauses.JobPauseRequested,
    pauses.JobPausing,
    pauses.JobPauseRefused,
    pauses.JobPaused,
    pauses.JobResumeRequested,
    pauses.JobResuming,
    pauses.JobResumeRefused,
    pauses.GangPausing,
    pauses.GangPaused,
    pauses.GangResumed,
    pauses.AttemptLocked,
    pauses.AttemptPaused,
    pauses.AttemptResumed,
    pauses.AttemptPauseFailed,
    nodes.NodeJoined,
    nodes.NodeSilent,
    nodes.NodeHeard,
    nodes.NodeFilled,
    nodes.NodeChangeRequested,
    nodes.NodeChanged,
    nodes.NodeChangeRefused,
    nodes.DeviceFaulted,
    nodes.NodeContested,
    queues.QueueApplyRequested,
    queues.QueueConfigured,
    queues.QueueRefused,
    queues.QueueDeleteRequested,
    queues.QueueDeleted,
    queues.SharesDivided,
    pools.PoolApplyRequested,
    pools.PoolConfigured,
    pools.PoolRefused,
    pools.PoolPriced,
    pools.PoolDeleteRequested,
    pools.PoolDeleted,
    scheduling.SchedulingApplyRequested,
    scheduling.SchedulingConfigured,
    scheduling.SchedulingRefused,
    scheduling.SchedulingDeleteRequested,
    scheduling.SchedulingDeleted,
    access.SecretSetRequested,
    access.SecretSet,
    access.SecretRefused,
    access.PublisherRequested,
    access.PublisherCreated,
    access.PublisherRefused,
    access.PublisherDeleteRequested,
    access.PublisherDeleted,
    access.ProjectEraseRequested,
    access.ProjectErased,
    access.ProjectEraseRefused,
    access.ProjectKeysDropped,
    members.TokenRequested,
    members.TokenCreated,
    members.TokenRefused,
    members.TokenRevokeRequested,
    members.TokenRevoked,
    members.JoinRequested,
    members.JoinWaiting,
    members.JoinRefused,
    members.ApprovalRequested,
    members.MemberAdmitted,
    members.MemberRejected,
    members.ApprovalRefused,
    members.CredentialRequested,
    members.CredentialIssued,
    members.CredentialRefused,
    people.UserSetRequested,
    people.UserSet,
    people.UserRemoveRequested,
    people.UserRemoved,
    people.UserRefused,
    people.RoleGrantRequested,
    people.RoleGranted,
    people.RoleRevokeRequested,
    people.RoleRevoked,
    people.RoleRefused,
    people.ApiTokenRequested,
    people.ApiTokenCreated,
    people.ApiTokenRevokeRequested,
    people.ApiTokenRevoked,
    people.ApiTokenRefused,
    people.AccessDenied,
    people.AccessSignedIn,
    people.AccessRead,
    volumes.VolumeApplyRequested,
    volumes.VolumeConfigured,
    volumes.VolumeRefused,
    volumes.VolumeDeleteRequested,
    volumes.VolumeDeleted,
    templates.TemplateApplyRequested,
    templates.TemplateConfigured,
    templates.TemplateRefused,
    templates.TemplateDeleteRequested,
    templates.TemplateDeleted,
    webhooks.WebhookApplyRequested,
    webhooks.WebhookConfigured,
    webhooks.WebhookRefused,
    webhooks.WebhookDeleteRequested,
    webhooks.WebhookDeleted,
    webhooks.WebhookReached,
    webhooks.WebhookFailing,
    webhooks.WebhookStopped,
    platform.ServiceLed,
    platform.UsageAccounted,
    performance.PerformanceMeasured,
    performance.PerformanceBandwidth,
    sweeps.SweepBest,
    workspaces.WorkspaceSeen,
    workspaces.WorkspaceWarned,
)

CATALOGUE: dict[str, type[Event]] = {tag_of(event): event for event in EVENTS}

_ENCODER = msgspec.json.Encoder()
_DECODERS = {tag: msgspec.json.Decoder(event) for tag, event in CATALOGUE.items()}
_HEADERS = msgspec.json.Decoder(Header)


def encode(event: Event | Header) -> bytes:
    """The canonical bytes of an event or a header: what the log stores and the chain hashes."""
    return _ENCODER.encode(event)


def decode(type_tag: str, data: bytes) -> Event:
    """The event in `data`. Raises `KeyError` for an unknown type, and `msgspec.ValidationError` for
    data its type does not accept.
    """
    return _DECODERS[type_tag].decode(data)


def decode_header(header: bytes) -> Header:
    """The header in `header`. Raises `msgspec.ValidationError`."""
    return _HEADERS.decode(header)


__all__ = [
    "CATALOGUE",
    "EVENTS",
    "Decision",
    "Entry",
    "Event",
    "Fact",
    "Header",
    "Refusal",
    "decode",
    "decode_header",
    "encode",
    "stream_of",
    "tag_of",
]
