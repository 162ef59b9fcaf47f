"""Every route of the gateway's API, in the order in which it is read.

Rule: a route is written where its noun is, named here, and says in its options who may call it.
"""

from __future__ import annotations

from headrace.gateway import (
    browsers_api,
    bundles_api,
    events_api,
    fleet_api,
    inventory_api,
    jobs_api,
    joining_api,
    outputs_api,
    people_api,
    rebuilding,
    sessions_api,
    usage_api,
    webhooks_api,
    workspaces_api,
)

PREFIX = "/v1"

ROUTES = (
    jobs_api.submit,
    jobs_api.list_jobs,
    jobs_api.describe_job,
    jobs_api.cancel_job,
    jobs_api.pause_job,
    jobs_api.resume_job,
    jobs_api.job_why,
    jobs_api.job_logs,
    sessions_api.job_session,
    workspaces_api.open_workspace,
    bundles_api.has_bundle,
    outputs_api.job_outputs,
    outputs_api.outputs_content,
    bundles_api.put_bundle,
    bundles_api.put_objects,
    events_api.events,
    fleet_api.list_nodes,
    fleet_api.describe_node,
    fleet_api.change_node,
    fleet_api.list_projects,
    fleet_api.apply_document,
    inventory_api.list_pools,
    inventory_api.list_volumes,
    inventory_api.list_secrets,
    fleet_api.set_secret,
    inventory_api.list_publishers,
    fleet_api.create_publisher,
    fleet_api.delete_publisher,
    fleet_api.erase_project,
    fleet_api.platform_status,
    rebuilding.rebuild_projection,
    usage_api.list_usage,
    webhooks_api.list_webhooks,
    webhooks_api.delete_webhook,
    joining_api.create_join_token,
    joining_api.list_join_tokens,
    joining_api.revoke_join_token,
    joining_api.approve_node,
    joining_api.join,
    joining_api.credential,
    *people_api.ROUTES,
    *browsers_api.ROUTES,
)
