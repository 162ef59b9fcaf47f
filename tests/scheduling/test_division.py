"""How a total is divided among queues that want more than there is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.events.queues import Queue
from headrace.scheduling.division import divide_tree
from headrace.scheduling.shares import Claim, divide


def claim(queue, quota, request, *, weight=1, limit=-1, priority=100, age=0):
    return Claim(
        queue=queue, quota_milli=quota, limit_milli=limit, weight=weight, priority=priority,
        request_milli=request, age=age,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("total", "claims", "shares"),
    [
        (3000, [claim("a", 3000, 2000)], [2000]),
        (8000, [claim("a", 2000, 8000), claim("b", 2000, 1000)], [7000, 1000]),
        (8000, [claim("a", 2000, 8000, weight=3), claim("b", 2000, 8000)], [5000, 3000]),
        (8000, [claim("a", 0, 8000, weight=0), claim("b", 0, 2000)], [0, 2000]),
        (8000, [claim("a", 0, 8000, limit=3000), claim("b", 0, 8000)], [3000, 5000]),
        (8000, [claim("a", 0, 8000, priority=200), claim("b", 0, 8000, weight=9)], [8000, 0]),
        (8000, [claim("a", -1, 5000), claim("b", 0, 8000)], [5000, 3000]),
        (4000, [claim("a", 4000, 4000), claim("b", 4000, 4000)], [4000, 4000]),
        (1000, [claim("a", 0, 900), claim("b", 0, 900, age=1), claim("c", 0, 900, age=2)],
         [334, 333, 333]),
    ],
)  # fmt: skip
def test_shares_are_quota_first_then_weights_then_the_largest_remainder(total, claims, shares):
    assert list(divide(claims, total).values()) == shares


def test_what_is_left_is_handed_out_in_grains_to_the_largest_remainder():
    claims = [claim("a", 0, 9000, weight=1, age=0), claim("b", 0, 9000, weight=2, age=1)]
    assert divide(claims, 5000, 1000) == {"a": 2000, "b": 3000}
    assert divide(claims, 4000, 1000) == {"a": 1000, "b": 3000}


def test_a_departments_share_is_divided_among_its_projects():
    queues = {
        "red": Queue(queue="red", kind="department", quota_milli=6000),
        "blue": Queue(queue="blue", kind="department", quota_milli=2000),
        "r1": Queue(queue="r1", kind="project", parent="red", quota_milli=4000),
        "r2": Queue(queue="r2", kind="project", parent="red", quota_milli=2000),
        "b1": Queue(queue="b1", kind="project", parent="blue", quota_milli=2000),
    }
    requests = {"r1": 1000, "r2": 8000, "b1": 8000}
    shares = divide_tree(queues, requests, 8000)
    assert shares == {"red": 6000, "blue": 2000, "r1": 1000, "r2": 5000, "b1": 2000}


numbers = st.integers(0, 20_000)
claims_of_many = st.lists(
    st.tuples(numbers, st.one_of(st.just(-1), numbers), st.integers(0, 5), st.integers(0, 2),
              numbers),
    max_size=8,
)  # fmt: skip


@given(claims_of_many, numbers)
def test_nobody_gets_more_than_it_wants_and_nothing_wanted_is_left_over(drawn, total):
    claims = [
        claim(str(i), quota, request, limit=limit, weight=weight, priority=priority, age=i)
        for i, (quota, limit, weight, priority, request) in enumerate(drawn)
    ]
    shares = divide(claims, total)
    for one in claims:
        most = one.request_milli if one.limit_milli < 0 else min(one.limit_milli, one.request_milli)
        assert min(one.quota_milli, most) <= shares[one.queue] <= most
    left = total - sum(shares.values())
    if left > 0:
        for one in claims:
            most = (
                one.request_milli
                if one.limit_milli < 0
                else min(one.limit_milli, one.request_milli)
            )
            assert not one.weight or shares[one.queue] == most
    over = sum(min(c.quota_milli, c.request_milli) for c in claims if c.limit_milli < 0)
    assert sum(shares.values()) <= max(total, over + sum(c.quota_milli for c in claims))
