"""A request to every route of `/v1`; a route that has none fails the matrix."""

from __future__ import annotations

from headrace.access.allowed import Scope

HERE = Scope(("vision", "research"))
FLEET = Scope()
JOB, OTHERS_JOB = "hello-a", "omega-x1y2"
DIGEST = "a" * 64

# What is sent to each route, and where what it does is done: in `vision` or in the fleet.
REQUESTS = {
    ("POST", "/v1/projection/rebuild"): ("/v1/projection/rebuild", None, FLEET),
    ("POST", "/v1/jobs"): ("/v1/jobs", {"project": "vision"}, HERE),
    ("GET", "/v1/jobs"): ("/v1/jobs", None, None),
    ("GET", "/v1/jobs/{job:str}"): (f"/v1/jobs/{JOB}", None, HERE),
    ("GET", "/v1/jobs/{job:str}/{index:int}"): (f"/v1/jobs/{JOB}/0", None, HERE),
    ("GET", "/v1/jobs/{job:str}/outputs"): (f"/v1/jobs/{JOB}/outputs", None, HERE),
    ("GET", "/v1/jobs/{job:str}/outputs/{tree:str}"): (
        f"/v1/jobs/{JOB}/outputs/{DIGEST}",
        None,
        HERE,
    ),
    ("GET", "/v1/jobs/{job:str}/{index:int}/outputs"): (f"/v1/jobs/{JOB}/0/outputs", None, HERE),
    ("GET", "/v1/jobs/{job:str}/{index:int}/outputs/{tree:str}"): (
        f"/v1/jobs/{JOB}/0/outputs/{DIGEST}",
        None,
        HERE,
    ),
    ("DELETE", "/v1/jobs/{job:str}"): (f"/v1/jobs/{JOB}", None, HERE),
    ("DELETE", "/v1/jobs/{job:str}/{index:int}"): (f"/v1/jobs/{JOB}/0", None, HERE),
    ("POST", "/v1/jobs/{job:str}/pause"): (f"/v1/jobs/{JOB}/pause", None, HERE),
    ("POST", "/v1/jobs/{job:str}/{index:int}/pause"): (f"/v1/jobs/{JOB}/0/pause", None, HERE),
    ("POST", "/v1/jobs/{job:str}/resume"): (f"/v1/jobs/{JOB}/resume", None, HERE),
    ("POST", "/v1/jobs/{job:str}/{index:int}/resume"): (f"/v1/jobs/{JOB}/0/resume", None, HERE),
    ("GET", "/v1/jobs/{job:str}/why"): (f"/v1/jobs/{JOB}/why", None, HERE),
    ("GET", "/v1/jobs/{job:str}/{index:int}/why"): (f"/v1/jobs/{JOB}/0/why", None, HERE),
    ("GET", "/v1/jobs/{job:str}/logs"): (f"/v1/jobs/{JOB}/logs", None, HERE),
    ("GET", "/v1/jobs/{job:str}/{index:int}/logs"): (f"/v1/jobs/{JOB}/0/logs", None, HERE),
    ("GET", "/v1/jobs/{job:str}/trials"): (f"/v1/jobs/{JOB}/trials", None, HERE),
    ("POST", "/v1/jobs/{job:str}/opening"): (f"/v1/jobs/{JOB}/opening", None, HERE),
    ("GET", "/v1/events"): ("/v1/events?project=vision", None, HERE),
    ("GET", "/v1/nodes"): ("/v1/nodes", None, None),
    ("GET", "/v1/nodes/{node:str}"): ("/v1/nodes/n1", None, None),
    ("POST", "/v1/nodes/{node:str}"): ("/v1/nodes/n1", {"change": "cordon"}, FLEET),
    ("GET", "/v1/projects"): ("/v1/projects", None, None),
    ("PUT", "/v1/documents"): (
        "/v1/documents",
        {"type": "template", "name": "t", "project": "vision", "job": {}},
        HERE,
    ),
    ("DELETE", "/v1/documents/{kind:str}/{name:str}"): (
        "/v1/documents/template/t?project=vision",
        None,
        HERE,
    ),
    ("GET", "/v1/documents/{kind:str}/{name:str}"): (
        "/v1/documents/template/t?project=vision",
        None,
        HERE,
    ),
    ("GET", "/v1/documents/scheduling"): ("/v1/documents/scheduling", None, FLEET),
    ("DELETE", "/v1/documents/scheduling"): ("/v1/documents/scheduling", None, FLEET),
    ("GET", "/v1/templates"): ("/v1/templates", None, None),
    ("GET", "/v1/templates/{name:str}"): ("/v1/templates/ddp", None, None),
    ("GET", "/v1/pools"): ("/v1/pools", None, None),
    ("GET", "/v1/volumes"): ("/v1/volumes", None, None),
    ("GET", "/v1/secrets"): ("/v1/secrets", None, None),
    ("GET", "/v1/publishers"): ("/v1/publishers", None, None),
    ("PUT", "/v1/secrets/{project:str}/{name:str}"): ("/v1/secrets/vision/A", {"v": 1}, HERE),
    ("POST", "/v1/publishers"): (
        "/v1/publishers",
        {"name": "etl", "project": "vision", "public_key": "U", "at_s": 1, "signature": ""},
        HERE,
    ),
    ("DELETE", "/v1/publishers/{project:str}/{name:str}"): (
        "/v1/publishers/vision/etl",
        None,
        HERE,
    ),
    ("DELETE", "/v1/projects/{project:str}/data"): ("/v1/projects/vision/data", None, HERE),
    ("GET", "/v1/status"): ("/v1/status", None, None),
    ("POST", "/v1/join-tokens"): ("/v1/join-tokens", {"token": "t", "digest": DIGEST}, FLEET),
    ("GET", "/v1/join-tokens"): ("/v1/join-tokens", None, FLEET),
    ("DELETE", "/v1/join-tokens/{token:str}"): ("/v1/join-tokens/t", None, FLEET),
    ("POST", "/v1/nodes/{node:str}/approval"): ("/v1/nodes/n2/approval", {}, FLEET),
    ("GET", "/v1/projects/{project:str}/bundles/{name:str}"): (
        f"/v1/projects/vision/bundles/{DIGEST}",
        None,
        HERE,
    ),
    ("PUT", "/v1/projects/{project:str}/bundles"): ("/v1/projects/vision/bundles", {}, HERE),
    ("POST", "/v1/projects/{project:str}/objects"): ("/v1/projects/vision/objects", None, HERE),
    ("GET", "/v1/webhooks"): ("/v1/webhooks", None, None),
    ("GET", "/v1/usage"): ("/v1/usage", None, None),
    ("GET", "/v1/users"): ("/v1/users", None, None),
    ("PUT", "/v1/users/{user:str}"): (
        "/v1/users/bob",
        {"groups": ["team"]},
        FLEET,
    ),
    ("DELETE", "/v1/users/{user:str}"): ("/v1/users/bob", None, FLEET),
    ("PUT", "/v1/services/{name:str}"): ("/v1/services/etl", {}, FLEET),
    ("DELETE", "/v1/services/{name:str}"): ("/v1/services/etl", None, FLEET),
    ("PUT", "/v1/services/{home:str}/{name:str}"): ("/v1/services/vision/etl", {}, HERE),
    ("DELETE", "/v1/services/{home:str}/{name:str}"): ("/v1/services/vision/etl", None, HERE),
    ("GET", "/v1/roles"): ("/v1/roles", None, None),
    ("POST", "/v1/roles"): (
        "/v1/roles",
        {"member": "user:bob", "role": "viewer", "scope": "vision"},
        HERE,
    ),
    ("DELETE", "/v1/roles"): ("/v1/roles?member=user:bob&role=viewer&scope=vision", None, HERE),
    ("GET", "/v1/tokens"): ("/v1/tokens", None, None),
    ("POST", "/v1/tokens"): (
        "/v1/tokens",
        {"token": "t9", "digest": DIGEST, "user": "bob"},
        FLEET,
    ),
    ("DELETE", "/v1/tokens/{token:str}"): ("/v1/tokens/id-bob", None, FLEET),
}
SIGNED_IN = {("GET", "/v1/me")}
OPEN = {
    ("GET", "/v1/login"),
    ("GET", "/v1/login/browser"),
    ("GET", "/v1/login/return"),
    ("POST", "/v1/logout"),
    ("POST", "/v1/join"),
    ("POST", "/v1/credential"),
    ("POST", "/v1/publishers/{project:str}/{name:str}/credential"),
}
SESSIONS = {"/v1/jobs/{job:str}/session", "/v1/jobs/{job:str}/{index:int}/session"}
