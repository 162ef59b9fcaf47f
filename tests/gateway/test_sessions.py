"""The gateway's door into running jobs: who is let in, and what is on record of it."""

from __future__ import annotations

import msgspec
import pytest
from tests.gateway.histories import RUN, SUCCEEDED

from headrace.bus import subjects
from headrace.bus.memory import MemoryBus
from headrace.bus.sessions import Enter, Entered, Frame, Wire
from headrace.client import ClientError, Refused
from headrace.client.session_model import SessionPiece, Visit

VISIT = Visit(way="exec", command=("cat", "--secret=x"))


async def echoing(world, node="n1"):
    """A node's agent that says back what it hears, in capitals, and then ends with 5."""
    bus = MemoryBus(world.broker, f"agent-{node}")
    entered = []

    async def asked(message):
        enter = msgspec.json.decode(message.data, type=Enter)
        entered.append(enter)
        wire = Wire(
            bus,
            send_to=subjects.session_up(node, enter.session),
            hear_from=subjects.session_down(node, enter.session),
        )
        await wire.open()
        await bus.publish(message.reply, msgspec.json.encode(Entered()))
        frame = await wire.receive()
        await wire.send(Frame("data", frame.data.upper()))
        await wire.send(Frame("exit", b"bye", 5))

    await bus.subscribe(subjects.agent_down(node, "session"), asked)
    return entered


def talked(client, job, visit):
    session = client.enter(job, visit)
    session.send(SessionPiece("data", b"hello"))
    said = [session.receive(), session.receive()]
    session.close()
    return said


async def test_what_is_said_goes_both_ways_and_the_visit_is_on_record_first(world):
    await world.append(*RUN)
    await world.gateway.follower.reached(len(RUN))
    await world.answer("job.enter", lambda _: {"accepted": True, "position": 9})
    entered = await echoing(world)
    said = await world.call(talked, world.client(), "hello", VISIT)
    assert said == [SessionPiece("data", b"HELLO"), SessionPiece("exit", b"bye", 5)]
    assert (entered[0].job, entered[0].attempt, entered[0].command) == (
        *("hello-a", 1),
        VISIT.command,
    )
    recorded = msgspec.json.decode(world.asked[0].data)
    assert recorded == {"job": "hello-a", "way": "exec", "rank": 0, "what": "cat"}


async def test_each_entry_is_on_record_and_none_under_a_key_of_who_enters(world):
    await world.append(*RUN)
    await world.gateway.follower.reached(len(RUN))
    await world.answer("job.enter", lambda _: {"accepted": True, "position": 9})
    await echoing(world)
    again = msgspec.structs.replace(VISIT, command=("cat", "/etc/passwd"))
    port = Visit(way="port-forward", port=8888)
    other_port = Visit(way="port-forward", port=9999)
    for visit in (VISIT, again, VISIT, port, port, other_port):
        await world.call(talked, world.client(), "hello", visit)
    told = [msgspec.json.decode(message.data)["what"] for message in world.asked]
    assert told == ["cat", "cat", "cat", "8888", "9999"]
    assert len({message.headers["ce-id"] for message in world.asked}) == len(told)


async def test_whoever_is_not_let_in_is_told_why_and_the_node_is_not_asked(world):
    await world.append(*RUN)
    await world.gateway.follower.reached(len(RUN))
    no = {"accepted": False, "position": 9, "message": "refused: not yours", "refusal": {"a": "b"}}
    await world.answer("job.enter", lambda _: no)
    entered = await echoing(world)
    with pytest.raises(Refused, match="refused: not yours"):
        await world.call(talked, world.client(), "hello", VISIT)
    assert entered == []


async def test_there_is_no_way_into_what_has_ended_nor_to_a_rank_that_is_not_there(world):
    await world.append(*RUN)
    await world.gateway.follower.reached(len(RUN))
    wrong = msgspec.structs.replace(VISIT, rank=7)
    with pytest.raises(Refused, match=r"rank = 7 .* is not a worker of this job"):
        await world.call(talked, world.client(), "hello", wrong)
    await world.append(*SUCCEEDED[len(RUN) :])
    await world.gateway.follower.reached(len(SUCCEEDED))
    with pytest.raises(Refused, match="does not run: it is succeeded"):
        await world.call(talked, world.client(), "hello", VISIT)


async def test_without_the_token_there_is_no_session(world):
    await world.append(*RUN)
    await world.gateway.follower.reached(len(RUN))
    with pytest.raises(ClientError, match="no session here"):
        await world.call(talked, world.client("wrong"), "hello", VISIT)
