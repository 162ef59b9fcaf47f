"""What is admitted of jobs whose workers differ."""

import pytest

from headrace.admission.decide import DECIDER
from headrace.decider.testing import given
from headrace.events.asked import Accelerator, Gang, Role

from .facts import decided, history, node, project, refusal, requested


def gang(*roles, **fields):
    most = sum(max(role.nodes, role.nodes_max) for role in roles)
    return Gang(
        **{"nodes": sum(role.nodes for role in roles), "nodes_max": most} | fields, roles=roles
    )


def role(name, gpus=0, **fields):
    kinds = (Accelerator(milli=1000 * gpus),) if gpus else ()
    return Role(name=name, accelerators=kinds, **fields)


def test_roles_are_admitted_with_what_each_asks_for():
    wants = gang(role("ps", cpu_milli=1000), role("worker", 2), succeeds_when="worker")
    admitted = decided(history(requested(wants=wants)))
    assert (admitted.gang, admitted.warning) == (wants, "")


@pytest.mark.parametrize(
    ("wants", "said"),
    [
        (gang(role("a"), role("a")), "roles = a, a — each has a name of its own"),
        (gang(role("")), "roles — each has a name of its own"),
        (gang(role("a"), nodes=2), "nodes = 2 — is not the sum of its roles'"),
        (gang(role("a"), succeeds_when="b"), "succeeds_when = b — is not one of its roles"),
        (gang(role("a", nodes=0)), "nodes = 0 — a job has at least one node"),
        (gang(role("a"), role("b", cpu_milli=-1)), "resources.cpu = -1 — must not be negative"),
    ],
)
def test_a_request_that_came_another_way_is_refused_in_the_same_words(wants, said):
    assert refusal(history(requested(wants=wants))) == f"refused: {said}"


def test_the_roles_of_a_job_are_held_to_the_limits_one_by_one_and_together():
    start = given(DECIDER, node(), project(limit_milli=4000))
    alone = gang(role("ps"), role("worker", 1, nodes=5))
    assert "5 × 1 is 5; nodes: 4 fits" in refusal(start.given(requested(wants=alone)))
    start = given(DECIDER, node(), project(limit_milli=4000))
    both = gang(role("head", 2), role("worker", 3))
    assert "gpus: 4 fits" in refusal(start.given(requested(wants=both)))


def test_a_role_that_no_node_could_hold_today_is_warned_about():
    wants = gang(role("ps", cpu_milli=1000), role("worker", 16))
    warning = decided(history(requested(wants=wants))).warning
    assert warning.startswith("accepted, but cannot run today: no node has 16 × GPU")
