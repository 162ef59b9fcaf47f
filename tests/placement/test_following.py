"""However documents and measurements come in between, the world is what the state alone makes it."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.events.asked import Accelerator, Gang
from headrace.events.gangs import GangPlaced
from headrace.events.jobs import JobAdmitted, JobEligible
from headrace.events.nodes import NodeChanged
from headrace.events.performance import PerformanceMeasured
from headrace.events.pools import Pool, PoolConfigured
from headrace.events.queues import Allowance, Queue, QueueConfigured
from headrace.events.scheduling import Scheduling, SchedulingConfigured
from headrace.placement.bench import History, fleet, report
from headrace.placement.decide import DECIDER
from headrace.placement.derived import index_of
from headrace.placement.following import world_at

PROJECTS = ("ads", "vision")
KINDS = (
    Gang(accelerators=(Accelerator(milli=1000),)),
    Gang(accelerators=(Accelerator(milli=500, model="H100"),)),
    Gang(accelerators=(Accelerator(milli=2000, model="A100"), Accelerator(milli=2000)), nodes=2),
    Gang(accelerators=(Accelerator(milli=1000),), pools=("gold",)),
    Gang(accelerators=(Accelerator(milli=1000, model="H100"),), by_price=True, topology_preferred="rack"),
)  # fmt: skip
project = st.sampled_from(PROJECTS)
part = st.sampled_from(({}, {"H100": Allowance(quota_milli=2000, limit_milli=4000)}))
step = st.one_of(
    st.tuples(
        st.just("submits"), project, st.sampled_from(KINDS), st.sampled_from("ab"), st.booleans()
    ),
    st.tuples(st.just("submits"), project, st.sampled_from(KINDS), st.just("a"), st.booleans()),
    st.tuples(st.just("queue"), project, st.integers(0, 200), st.booleans(), part),
    st.tuples(st.just("pool"), st.booleans(), st.integers(0, 3), st.booleans()),
    st.tuples(st.just("measured"), project, st.sampled_from("ab"), st.integers(1, 9)),
    st.tuples(st.just("ends"), st.integers(0, 5)),
    st.tuples(st.just("joins"), st.booleans()),
    st.tuples(st.just("leaves"), st.integers(0, 2)),
    st.tuples(st.just("scheduling"), st.integers(-1, 2000)),
    st.tuples(st.just("turn")),
)


class Story:
    """A small fleet, and what happens there."""

    def __init__(self):
        self.history, self.number, self.placed = History(), 0, []
        fleet(self.history, 2, 4)
        said = self.history.state.machines["n0"].said
        labels = {"kept": "gold", "rack": "r0"}
        self.history.add(msgspec.structs.replace(said, labels=labels))
        for name in PROJECTS:
            self.queue(name, 100, False, {})
            for kind in KINDS:
                self.submits(name, kind, "a", True)
        self.turn()

    def submits(self, queue, gang, name, preemptible):
        self.number += 1
        job = f"{name}-{self.number:04}"
        self.history.add(
            JobAdmitted(
                job=job, project=queue, name=name, user=f"u{self.number % 2}", gang=gang,
                requested_at=self.history.position, priority=40, preemptible=preemptible,
            )
        )  # fmt: skip
        self.history.add(JobEligible(job=job, project=queue))

    def queue(self, name, weight, users_equal, per_type):
        queue = Queue(
            queue=name, kind="project", weight=weight, users_equal=users_equal, per_type=per_type,
            reclaim_after_us=weight,
        )  # fmt: skip
        self.history.add(QueueConfigured(name=name, queue=queue, change="updated"))

    def pool(self, has_nodes, price, near):
        pool = Pool(
            pool="gold", label="kept" if has_nodes else "none", value="gold", currency="EUR",
            prices={"H100": price} if price else {}, topology=("rack",) if near else (),
        )  # fmt: skip
        self.history.add(PoolConfigured(name="gold", pool=pool, change="updated"))

    def measured(self, queue, name, step_time_us):
        self.history.add(
            PerformanceMeasured(
                job=f"{name}-0001", project=queue, attempt=1, model="H100-80GB", gpus=1, nodes=1,
                step_time_us=step_time_us, samples=9,
            )
        )  # fmt: skip

    def ends(self, number):
        if number < len(self.placed):
            report(self.history, self.placed.pop(number))

    def joins(self, is_gold):
        said = (
            self.history.state.machines["n1"].said if "n1" in self.history.state.machines else None
        )
        if said is not None:
            labels = {"kept": "gold"} if is_gold else {}
            self.history.add(msgspec.structs.replace(said, node="n2", labels=labels))

    def leaves(self, number):
        node = f"n{number}"
        if not index_of(self.history.state).on_node.get(node):
            self.history.add(NodeChanged(node=node, change="delete"))

    def scheduling(self, strength):
        chosen = Scheduling(usage_strength_milli=strength)
        self.history.add(SchedulingConfigured(scheduling=chosen, change="updated"))

    def turn(self):
        drafts = self.history.decide()
        self.placed += [d.event for d in drafts if isinstance(d.event, GangPlaced)]


@given(steps=st.lists(step, max_size=12))
@settings(max_examples=60, deadline=None)
def test_the_world_is_the_same_as_one_made_anew(steps):
    story = Story()
    for name, *given_ in steps:
        getattr(story, name)(*given_)
        world_at(story.history.state, story.history.now_us)
    state, now_us = story.history.state, story.history.now_us
    again = msgspec.json.decode(msgspec.json.encode(state), type=DECIDER.state)
    assert seen(world_at(state, now_us)) == seen(world_at(again, now_us))


def seen(world):
    """All that decisions look at."""
    accounts = world.accounts.by_name
    return {
        "gangs": {
            name: (
                gang.queue, gang.root, gang.options,
                [(t.name, t.state, t.shape, t.place) for t in gang.all_tasks()],
            )
            for name, gang in world.gangs.items()
        },
        "machines": {name: (m.spec, m.milli, m.free_later) for name, m in world.machines.items()},
        "queues": world.queues,
        "held": {
            name: (a.held, a.firm, a.share, [s.standing for s in a.stakes])
            for name, a in accounts.items()
        },
        "wanted": [{q: milli for q, milli in of.items() if milli} for of in world.parted.wanted],
        "settings": world.settings,
        "lines": {kind: list(world.lines.of(kind)) for kind in world.lines.kinds()},
        "stand": {n: world.lines.kind_of(n) for kind in world.lines.kinds() for n in world.lines.of(kind)},
    }  # fmt: skip
