"""Large gangs start no later than their reservations say, whatever small work keeps coming."""

from collections import Counter

from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from headrace.scheduling import gangs
from headrace.scheduling.actions import allocate, take_turn
from headrace.scheduling.claims import Reservation, Seat
from headrace.scheduling.division import QueueSpec, Ration
from headrace.scheduling.gangs import Constraint, Gang, Group, Place, Role, Shape, Task
from headrace.scheduling.machines import MachineSpec
from headrace.scheduling.reservations import renewed
from headrace.scheduling.settings import Settings
from headrace.scheduling.withdrawal import keep
from headrace.scheduling.world import World

FREE = Ration(quota=-1)
SETTINGS = Settings(
    reserve_after_us=5, reservations_max=3, release_us=1, levels={"network": ("rack",)}
)
small = st.tuples(
    st.integers(0, 25),  # arrives
    st.sampled_from(("ads", "vision")),
    st.integers(1, 2),  # tasks
    st.sampled_from((250, 500, 1000, 2000)),
    st.sampled_from((20, 80)),
    st.integers(1, 12),  # may run
    st.integers(0, 6),  # ends so much earlier
    st.just(""),
)
large = st.tuples(
    st.integers(0, 20),
    st.sampled_from(("ads", "vision")),
    st.integers(1, 4),
    st.sampled_from((500, 1000, 2000, 4000)),
    st.sampled_from((20, 80)),
    st.integers(1, 12),
    st.integers(0, 6),
    st.sampled_from(("", "rack")),
)


class Cluster:
    """A cluster in virtual time: a turn whenever a job arrives or ends."""

    def __init__(self, devices, jobs, *, settings=SETTINGS, turn=take_turn, limit=-1):
        self.specs = [
            MachineSpec(
                name=f"n{number}", devices=count, device_memory_bytes=80_000, cpu_milli=64_000,
                labels={"rack": f"r{number // 2}"},
            )
            for number, count in enumerate(devices)
        ]  # fmt: skip
        self.queues = {
            name: QueueSpec(queue=name, age=age, rations=(Ration(limit=limit), FREE, FREE))
            for age, name in enumerate(("ads", "vision"))
        }
        self.settings, self.turn = settings, turn
        self.jobs = {f"g{number}": job for number, job in enumerate(jobs)}
        self.running = {}  # by gang, since when and with which places
        self.reservations, self.promised, self.began = {}, {}, {}
        self.busy = Counter()
        self.late = []

    def run(self, until):
        for now in range(until):
            for name in [n for n, (since, _) in self.running.items() if now >= self.end(n, since)]:
                del self.running[name], self.jobs[name]
            self.step(now)
            self.busy[now] = sum(
                place.amounts[0] for _, places in self.running.values() for place in places
            )
        return self

    def end(self, name, since):
        may, early = self.jobs[name][5:7]
        return since + max(1, may - early)

    def step(self, now):
        there = [self.gang(name, now) for name, job in self.jobs.items() if job[0] <= now]
        world = World(self.specs, self.queues, there, now_us=now, settings=self.settings)
        keep(world, self.reservations)
        self.reservations = renewed(world)
        for name, one in self.reservations.items():
            assert one.at_us <= self.promised.get(name, one.at_us), "a reservation moved later"
            self.promised[name] = one.at_us
        self.turn(world)
        for gang in world.gangs.values():
            tasks = list(gang.all_tasks())
            if any(task.state == gangs.EVICTED for task in tasks):
                self.running.pop(gang.name, None)
            elif all(task.state == gangs.BOUND for task in tasks):
                self.running[gang.name] = (now, [task.place for task in tasks])
                self.began.setdefault(gang.name, now)
                due = self.promised.pop(gang.name, now)
                self.late += [(gang.name, due, now)] if now > due else []

    def gang(self, name, now):
        arrived, queue, tasks, milli, priority, may, _, level = self.jobs[name]
        constraint = Constraint(topology="network", required=level) if level else None
        role = Role(name="default", minimum=tasks, constraint=constraint)
        since, places = self.running.get(name, (None, [None] * tasks))
        gang = Gang(
            name=name, queue=queue, root=Group(roles=(role,)), priority=priority, age=arrived,
            submitted_at_us=arrived, started_at_us=since, max_duration_us=may,
        )  # fmt: skip
        whole, share = divmod(milli, 1000)
        shape = Shape(devices=whole or 1, device_milli=share or 1000)
        state = gangs.PENDING if since is None else gangs.RUNNING
        for rank, place in enumerate(places):
            gang.add(
                Task(
                    name=f"{name}-{rank}", gang=name, shape=shape, rank=rank, state=state,
                    place=place,
                )
            )  # fmt: skip
        return gang


def stream(until, *, milli=1000, may=4, early=0, priority=80, every=1, many=1):
    return [
        (now, "ads", 1, milli, priority, may, early, "")
        for now in range(0, until, every)
        for _ in range(many)
    ]


@given(
    devices=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    few=st.lists(large, min_size=1, max_size=3),
    many=st.lists(small, max_size=20),
    limit=st.sampled_from((-1, 4000)),
    turn=st.sampled_from((allocate, take_turn)),
)
@examples(max_examples=100, deadline=None)
def test_a_gang_starts_no_later_than_was_reserved_for_it(devices, few, many, limit, turn):
    cluster = Cluster(devices, [*few, *many], turn=turn, limit=limit).run(60)
    assert not cluster.late
    assert all(at >= 60 for at in cluster.promised.values())


WHOLE = (0, "ads", 2, 4000, 20, 10, 0, "")


def test_an_endless_stream_of_more_important_small_jobs_starves_nobody():
    endless = stream(40, many=3)
    name = f"g{len(endless)}"
    none = Settings(reserve_after_us=5, reservations_max=0, release_us=0)
    without = Cluster([4, 4], [*endless, WHOLE], settings=none, turn=allocate).run(40)
    assert name not in without.began
    within = Cluster([4, 4], [*endless, WHOLE], turn=allocate).run(40)
    assert within.began[name] <= 10
    assert not within.late


def test_small_work_that_ends_in_time_fills_what_waits_for_a_reservation():
    long = (0, "ads", 1, 4000, 90, 30, 0, "")
    few = stream(30, milli=4000, may=3, every=3)
    within = Cluster([4, 4], [long, *few, WHOLE], turn=allocate).run(30)
    assert within.promised["g11"] == 30
    assert all(within.busy[now] == 8000 for now in range(30))


def test_two_who_hold_each_others_first_choice_take_their_own_seats_early():
    jobs = [(0, queue, 1, 4000, 50, 10, 0, "") for queue in ("ads", "vision")]
    cluster = Cluster([4, 4], jobs)
    there = [cluster.gang(name, 9) for name in cluster.jobs]
    world = World(cluster.specs, cluster.queues, there, now_us=9, settings=SETTINGS)
    world.reserve_for({
        name: Reservation(
            gang=name, at_us=12, made_at_us=5,
            seats=(Seat(task=f"{name}-0", place=Place(node=node, amounts=(4000, 0, 0), count=4)),),
        )
        for name, node in (("g0", "n1"), ("g1", "n0"))
    })  # fmt: skip
    allocate(world)
    assert [next(gang.all_tasks()).place.node for gang in there] == ["n1", "n0"]


def test_who_waits_for_its_own_seats_is_in_the_way_of_others_only_once():
    sizes = ((1, 2000), (2, 1000), (1, 1000))  # tasks, and milli of each
    jobs = [(0, "ads", tasks, milli, 50, 10, 0, "") for tasks, milli in sizes]
    cluster = Cluster([2, 2], jobs)
    leaves = Place(node="n0", amounts=(2000, 0, 0), devices=(0, 1), milli=1000)
    cluster.running["g0"] = (0, [leaves])
    there = [cluster.gang(name, 5) for name in cluster.jobs]
    goes, first, second = there
    goes.move(next(goes.all_tasks()), gangs.RELEASING)
    world = World(cluster.specs, cluster.queues, there, now_us=5, settings=SETTINGS)

    def seats(name, *nodes):
        places = [Place(node=node, amounts=(1000, 0, 0), count=1) for node in nodes]
        return tuple(Seat(task=f"{name}-{rank}", place=place) for rank, place in enumerate(places))

    world.reserve_for({
        "g1": Reservation(gang="g1", at_us=4, made_at_us=2, seats=seats("g1", "n1", "n0")),
        "g2": Reservation(gang="g2", at_us=5, made_at_us=3, seats=seats("g2", "n1")),
    })  # fmt: skip
    allocate(world)

    assert [task.state for task in first.all_tasks()] == [gangs.PIPELINED] * 2
    assert next(second.all_tasks()).state == gangs.BOUND


def test_a_gang_takes_its_free_seats_rather_than_wait_for_room_that_it_likes_better():
    cluster = Cluster(
        [4] * 4, [(0, "ads", 1, 4000, 50, 10, 0, ""), (0, "ads", 2, 4000, 50, 10, 0, "rack")]
    )
    leaves = Place(node="n0", amounts=(4000, 0, 0), devices=(0, 1, 2, 3), milli=1000)
    cluster.running["g0"] = (0, [leaves])
    there = [cluster.gang(name, 5) for name in cluster.jobs]
    goes, waits = there
    goes.move(next(goes.all_tasks()), gangs.RELEASING)

    def placed(**reservations):
        world = World(cluster.specs, cluster.queues, there, now_us=5, settings=SETTINGS)
        world.reserve_for(reservations)
        allocate(world)
        found = {(task.coming or task.place).node: task.state for task in waits.all_tasks()}
        world.back_to(0)
        return found

    seats = tuple(
        Seat(task=f"g1-{rank}", place=Place(node=node, amounts=(4000, 0, 0), count=4))
        for rank, node in enumerate(("n2", "n3"))
    )
    reservation = Reservation(gang="g1", at_us=5, made_at_us=2, seats=seats)
    assert placed() == {"n0": gangs.PIPELINED, "n1": gangs.PIPELINED}
    assert placed(g1=reservation) == {"n2": gangs.BOUND, "n3": gangs.BOUND}
