"""Every operation of the OpenAPI document: a request to it, and what one must be allowed to do.

Rule: written by hand beside the routes, so that a route that asks for too little does not agree with
itself. Requests name what does not exist or cannot be wherever who may ask would change something.
"""

from __future__ import annotations

from typing import NamedTuple

PLACES = ("vision", "zeta")
PATHS = {"": (), "research": ("research",), "vision": ("vision", "research"),
         "labs": ("labs",), "zeta": ("zeta", "labs")}  # fmt: skip
DIGEST = "a" * 64

FLEET, SOMEWHERE = "fleet", "somewhere"


class Asked(NamedTuple):
    """A request, and what all of it takes: `noun.verb`, and where (a project, or as above)."""

    path: str
    needs: tuple[tuple[str, str], ...]
    body: object = None
    is_narrowed_refused: bool = False  # whoever has a token that is good for less than its owner


def both(path, right, body=None, **more):
    """The same in either project; `{}` is the project."""

    def filled(value, place):
        if isinstance(value, str):
            return value.replace("{}", place).replace("{above}", PATHS[place][1])
        if isinstance(value, dict):
            return {key: filled(item, place) for key, item in value.items()}
        return value

    return tuple(
        Asked(filled(path, place), ((right, place),), filled(body, place), **more)
        for place in PLACES
    )


def fleet(path, right, body=None, **more):
    return (Asked(path, ((right, FLEET),), body, **more),)


def listed(path, right):
    return (Asked(path, ((right, SOMEWHERE),)),)


def document(right, body):
    """A document that is applied, and is none: its owner refuses it."""
    return tuple(
        Asked("/v1/documents", (("document.apply", SOMEWHERE), *each.needs), each.body)
        for each in both("", right, body)
    )


def deleted(kind, right, name="none"):
    return tuple(
        Asked(each.path, (("document.apply", SOMEWHERE), *each.needs))
        for each in both(f"/v1/documents/{kind}/{name}?project={{}}", right)
    )


def of_job(path, right):
    return both(f"/v1/jobs/job-of-{{}}{path}", right)


def of_task(path, right):
    return both(f"/v1/jobs/tasks-of-{{}}/0{path}", right)


TOKEN = {"token": "t9", "digest": "short"}
OPERATIONS = {
    ("post", "/v1/projection/rebuild"): fleet("/v1/projection/rebuild", "platform.rebuild"),
    ("get", "/v1/status"): listed("/v1/status", "platform.read"),
    ("get", "/v1/events"): both("/v1/events?project={}", "event.read"),
    ("get", "/v1/usage"): listed("/v1/usage", "usage.read"),
    # jobs
    ("get", "/v1/jobs"): listed("/v1/jobs", "job.read"),
    ("post", "/v1/jobs"): both("/v1/jobs", "job.submit", {"project": "{}", "nodes": -1}),
    ("get", "/v1/jobs/{job}"): of_job("", "job.read"),
    ("get", "/v1/jobs/{job}/{index}"): of_task("", "job.read"),
    ("delete", "/v1/jobs/{job}"): of_job("", "job.cancel"),
    ("delete", "/v1/jobs/{job}/{index}"): of_task("", "job.cancel"),
    ("post", "/v1/jobs/{job}/pause"): of_job("/pause", "job.pause"),
    ("post", "/v1/jobs/{job}/{index}/pause"): of_task("/pause", "job.pause"),
    ("post", "/v1/jobs/{job}/resume"): of_job("/resume", "job.resume"),
    ("post", "/v1/jobs/{job}/{index}/resume"): of_task("/resume", "job.resume"),
    ("get", "/v1/jobs/{job}/trials"): of_job("/trials", "job.read"),
    ("get", "/v1/jobs/{job}/why"): of_job("/why", "job.read"),
    ("get", "/v1/jobs/{job}/{index}/why"): of_task("/why", "job.read"),
    ("get", "/v1/jobs/{job}/logs"): of_job("/logs", "logs.read"),
    ("get", "/v1/jobs/{job}/{index}/logs"): of_task("/logs", "logs.read"),
    ("get", "/v1/jobs/{job}/outputs"): of_job("/outputs", "logs.read"),
    ("get", "/v1/jobs/{job}/{index}/outputs"): of_task("/outputs", "logs.read"),
    ("get", "/v1/jobs/{job}/outputs/{tree}"): of_job(f"/outputs/{DIGEST}", "logs.read"),
    ("get", "/v1/jobs/{job}/{index}/outputs/{tree}"): of_task(f"/outputs/{DIGEST}", "logs.read"),
    ("post", "/v1/jobs/{job}/opening"): of_job("/opening", "job.enter"),
    ("get", "/v1/projects/{project}/bundles/{name}"): both(
        f"/v1/projects/{{}}/bundles/{DIGEST}", "job.submit"
    ),
    ("put", "/v1/projects/{project}/bundles"): both(
        "/v1/projects/{}/bundles", "job.submit", {"no": "manifest"}
    ),
    ("post", "/v1/projects/{project}/objects"): both(
        "/v1/projects/{}/objects", "job.submit", {"no": "frames"}
    ),
    # machines
    ("get", "/v1/nodes"): listed("/v1/nodes", "node.read"),
    ("get", "/v1/nodes/{node}"): listed("/v1/nodes/n1", "node.read"),
    ("post", "/v1/nodes/{node}"): fleet("/v1/nodes/n9", "node.change", {"change": "cordon"}),
    ("post", "/v1/nodes/{node}/approval"): fleet(
        "/v1/nodes/n9/approval", "node.join", {"approved": False}
    ),
    ("get", "/v1/join-tokens"): fleet("/v1/join-tokens", "node.join"),
    ("post", "/v1/join-tokens"): fleet("/v1/join-tokens", "node.join", TOKEN),
    ("delete", "/v1/join-tokens/{token}"): fleet("/v1/join-tokens/none", "node.join"),
    ("get", "/v1/pools"): listed("/v1/pools", "pool.read"),
    ("get", "/v1/volumes"): listed("/v1/volumes", "volume.read"),
    # documents
    ("get", "/v1/projects"): listed("/v1/projects", "project.read"),
    ("get", "/v1/templates"): listed("/v1/templates", "template.read"),
    ("get", "/v1/templates/{name}"): listed("/v1/templates/none", "template.read"),
    ("put", "/v1/documents"): (
        *document("template.apply", {"type": "template", "name": "-", "project": "{}"}),
        *document("webhook.apply", {"type": "webhook", "name": "-", "project": "{}"}),
        *document(
            "project.apply", {"type": "project", "name": "{}", "department": "{above}", "gpus": "-"}
        ),
        Asked(
            "/v1/documents",
            (("document.apply", SOMEWHERE), ("department.apply", FLEET)),
            {"type": "department", "name": "-"},
        ),
        Asked(
            "/v1/documents",
            (("document.apply", SOMEWHERE), ("pool.apply", FLEET)),
            {"type": "pool", "name": "-"},
        ),
        Asked(
            "/v1/documents",
            (("document.apply", SOMEWHERE), ("pool.apply", FLEET)),
            {"type": "volume", "name": "-"},
        ),
        Asked(
            "/v1/documents",
            (
                ("document.apply", SOMEWHERE),
                ("webhook.apply", "vision"),
                ("webhook.private", FLEET),
            ),
            {"type": "webhook", "name": "-", "project": "vision", "private": True},
        ),
        Asked(
            "/v1/documents",
            (
                ("document.apply", SOMEWHERE),
                ("project.apply", "vision"),
                ("role.grant", "vision"),
            ),
            {
                "type": "project",
                "name": "vision",
                "department": "research",
                "members": [{"user": "-", "role": "viewer"}],
            },
        ),
    ),
    ("get", "/v1/documents/{kind}/{name}"): (
        *deleted("template", "template.apply"),
        *deleted("webhook", "webhook.apply"),
        Asked(
            "/v1/documents/department/none",
            (("document.apply", SOMEWHERE), ("department.apply", FLEET)),
        ),
        Asked("/v1/documents/pool/none", (("document.apply", SOMEWHERE), ("pool.apply", FLEET))),
    ),
    ("get", "/v1/documents/scheduling"): fleet("/v1/documents/scheduling", "pool.apply"),
    ("delete", "/v1/documents/{kind}/{name}"): (
        *deleted("template", "template.apply"),
        *deleted("webhook", "webhook.apply"),
        Asked(
            "/v1/documents/department/none",
            (("document.apply", SOMEWHERE), ("department.apply", FLEET)),
        ),
        Asked("/v1/documents/pool/none", (("document.apply", SOMEWHERE), ("pool.apply", FLEET))),
    ),
    ("delete", "/v1/documents/scheduling"): fleet("/v1/documents/scheduling", "pool.apply"),
    ("delete", "/v1/projects/{project}/data"): both("/v1/projects/{}/data", "project.erase"),
    ("get", "/v1/webhooks"): listed("/v1/webhooks", "webhook.read"),
    # secrets and publishers
    ("get", "/v1/secrets"): listed("/v1/secrets", "secret.list"),
    ("put", "/v1/secrets/{project}/{name}"): both("/v1/secrets/{}/-", "secret.set", {"v": 1}),
    ("get", "/v1/publishers"): listed("/v1/publishers", "publisher.read"),
    ("post", "/v1/publishers"): both(
        "/v1/publishers",
        "publisher.create",
        {"name": "x", "project": "{}", "public_key": "none", "at_s": 0, "signature": ""},
    ),
    ("delete", "/v1/publishers/{project}/{name}"): both(
        "/v1/publishers/{}/none", "publisher.create"
    ),
    # people
    ("get", "/v1/users"): listed("/v1/users", "user.read"),
    ("put", "/v1/users/{user}"): fleet("/v1/users/-", "user.set", {}),
    ("delete", "/v1/users/{user}"): fleet("/v1/users/-", "user.set"),
    ("put", "/v1/services/{name}"): fleet("/v1/services/-", "service.set", {}),
    ("delete", "/v1/services/{name}"): fleet("/v1/services/none", "service.set"),
    ("put", "/v1/services/{home}/{name}"): both("/v1/services/{}/-", "service.set", {}),
    ("delete", "/v1/services/{home}/{name}"): both("/v1/services/{}/none", "service.set"),
    ("get", "/v1/roles"): listed("/v1/roles", "role.read"),
    ("post", "/v1/roles"): (
        *both("/v1/roles", "role.grant", {"member": "-", "role": "viewer", "scope": "{}"}),
        *fleet("/v1/roles", "role.grant", {"member": "-", "role": "viewer", "scope": ""}),
    ),
    ("delete", "/v1/roles"): both("/v1/roles?member=user:none&role=viewer&scope={}", "role.grant"),
    ("get", "/v1/tokens"): listed("/v1/tokens", "token.read"),
    ("post", "/v1/tokens"): (
        *fleet("/v1/tokens", "token.create", {**TOKEN, "user": "ada"}, is_narrowed_refused=True),
        *both(
            "/v1/tokens",
            "service.set",
            {**TOKEN, "user": "service:{}/-"},
            is_narrowed_refused=True,
        ),
    ),
    ("delete", "/v1/tokens/{token}"): fleet("/v1/tokens/token-of-ada", "token.revoke"),
}

SIGNED_IN = {("get", "/v1/me")}
OPEN = {
    ("post", "/v1/publishers/{project}/{name}/credential"),  # the key's signature says who asks
    ("get", "/v1/login"), ("get", "/v1/login/browser"), ("get", "/v1/login/return"),
    ("post", "/v1/logout"), ("post", "/v1/join"), ("post", "/v1/credential"),
}  # fmt: skip
