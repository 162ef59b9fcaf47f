"""Folders brought to the gateway over HTTP by the client, and what it does not take."""

import http.client
import json
from urllib.parse import urlsplit

import pytest
from tests.gateway.histories import project_made
from tests.gateway.test_api import raw

from headrace.bundles.frames import HEAD, framed
from headrace.bundles.manifest import File, manifest_of, name_of
from headrace.bundles.packing import Vanished
from headrace.client import Refused, folders
from headrace.client.connection import Connection
from headrace.client.errors import ClientError
from headrace.events.access import ProjectErased
from headrace.runtime.limits import Limit

PROJECTS = "/v1/projects/vision"


@pytest.fixture
async def vision(world, tmp_path, monkeypatch):
    """A world with two projects, and a folder of somebody's laptop."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("vision", "ads"):
        await world.append(project_made(name))
    await world.gateway.follower.reached(2)
    folder = tmp_path / "folder"
    (folder / "src").mkdir(parents=True)
    (folder / "train.py").write_text("print('hello')")
    (folder / "src" / "model.py").write_text("print('model')")
    return folder


def submitted(message):
    return {"accepted": True, "job": "train-1", "position": 1}


async def submit(world, folder, **more):
    job = {"command": "python train.py", "project": "vision", "workdir": str(folder), **more}
    return await world.call(world.client().submit, job)


async def sent(world, folder):
    """The requests that bringing the folder takes, by method and path."""
    asked = []
    http_ = Connection(world.url, "a-token-for-tests")
    once = http_._once

    def counted(method, path, body, headers):
        asked.append((method, path.removeprefix(PROJECTS).partition("/")[2].partition("/")[0]))
        return once(method, path, body, headers)

    http_._once = counted
    name = await world.call(folders.send_folder, http_, "vision", folder)
    http_.close()
    return name, asked


async def test_a_folder_travels_once_and_the_job_names_its_content(world, vision):
    await world.answer("job.submit", submitted)
    await submit(world, vision)
    workdir = json.loads(world.asked[0].data)["workdir"]
    assert workdir.startswith("sha256:")
    objects = world.gateway.keeper.of("vision")
    manifest = objects.tree(workdir.removeprefix("sha256:"))
    assert [file.path for file in manifest.files] == ["src/model.py", "train.py"]
    name, asked = await sent(world, vision)
    assert (f"sha256:{name}", asked) == (workdir, [("GET", "bundles")])


async def test_only_what_changed_is_sent_again(world, vision, monkeypatch):
    await sent(world, vision)
    (vision / "train.py").write_text("print('changed')")
    bodies = []
    made = folders._bodies

    def noted(*given):
        bodies.extend(made(*given))
        return bodies

    monkeypatch.setattr(folders, "_bodies", noted)
    _, asked = await sent(world, vision)
    assert asked == [
        ("GET", "bundles"),
        ("PUT", "bundles"),
        ("POST", "objects"),
        ("PUT", "bundles"),
    ]
    assert bodies == [framed(name_of(b"print('changed')"), b"print('changed')")]


async def test_nothing_of_a_project_is_known_in_another(world, vision):
    name, _ = await sent(world, vision)

    async def asked(method, path, **given):
        status, answer = await world.call(raw, world, method, path, **given)
        return status, json.loads(answer).get("message", "")

    assert await asked("GET", f"{PROJECTS}/bundles/{name}") == (200, "")
    assert (await asked("GET", f"/v1/projects/ads/bundles/{name}"))[0] == 404
    nobody = await asked("GET", f"/v1/projects/nobody/bundles/{name}")
    assert nobody == (400, "refused: project = nobody — does not exist; projects: ads, vision")
    assert (await asked("GET", f"{PROJECTS}/bundles/{name}", token="wrong"))[0] == 401
    assert (await asked("POST", f"{PROJECTS}/objects", token="wrong"))[0] == 401


async def test_a_folder_that_changes_while_it_is_sent_travels_as_it_was_at_one_moment(
    world, vision, monkeypatch
):
    pack = folders.pack
    changes = iter(("one", "two"))

    def changing(*given):
        packed = pack(*given)
        for word in changes:
            (vision / "train.py").write_text(word)
            break
        return packed

    monkeypatch.setattr(folders, "pack", changing)
    name, _ = await sent(world, vision)
    objects = world.gateway.keeper.of("vision")
    file = objects.tree(name).files[1]
    assert objects.read(file.digest, 0, 100) == b"two"


async def test_a_folder_that_loses_a_file_while_it_is_looked_at_is_looked_at_again(
    world, vision, monkeypatch
):
    pack, lost = folders.pack, vision / "train.py"

    def losing(*given):
        if lost.exists():
            lost.unlink()
            raise Vanished("train.py")
        return pack(*given)

    monkeypatch.setattr(folders, "pack", losing)
    name, _ = await sent(world, vision)
    files = world.gateway.keeper.of("vision").tree(name).files
    assert [file.path for file in files] == ["src/model.py"]


async def test_a_folder_that_never_stops_changing_is_refused_with_the_file(
    world, vision, monkeypatch
):
    pack = folders.pack

    def changing(*given):
        packed = pack(*given)
        (vision / "train.py").write_text((vision / "train.py").read_text() + "x")
        return packed

    monkeypatch.setattr(folders, "pack", changing)
    with pytest.raises(Refused, match=r"train\.py changes while it is being sent"):
        await sent(world, vision)


async def test_a_link_out_of_the_folder_is_refused_before_anything_is_sent(world, vision):
    (vision / "passwords").symlink_to("/etc/passwd")
    with pytest.raises(ClientError, match="passwords is a link out of the folder"):
        await submit(world, vision)
    assert world.gateway.keeper.of("vision").trees() == []


async def test_a_job_whose_folder_is_not_kept_is_refused_at_the_door(world, vision):
    await world.answer("job.submit", submitted)
    with pytest.raises(Refused, match=r"not kept here.*send the folder again"):
        await submit(world, f"sha256:{'0' * 64}")
    assert world.asked == []


BROKEN = [
    ("PUT", "/bundles", b"{", "is no manifest"),
    ("PUT", "/bundles", b'{"files":[["../x"]]}',
     "leads out of the folder"),
    ("POST", "/objects", framed(name_of(b"a"), b"b"), "what was received is not"),
    ("POST", "/objects", framed(name_of(b"ab"), b"ab")[:-1], "ends in the middle"),
    ("POST", "/objects", HEAD.pack(b"0" * 32, 2**40), "at most 100000000"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path", "body", "said"), BROKEN)
@pytest.mark.usefixtures("vision")
async def test_what_cannot_be_trusted_is_refused_with_a_line(world, method, path, body, said):
    status, answer = await world.call(raw, world, method, f"{PROJECTS}{path}", body)
    message = json.loads(answer)["message"]
    assert (status, said in message, "\n" in message) == (400, True, False)


async def test_a_body_larger_than_what_travels_is_not_taken(world, vision):
    def declared():
        connection = http.client.HTTPConnection(urlsplit(world.url).netloc, timeout=60)
        connection.putrequest("POST", f"{PROJECTS}/objects")
        connection.putheader("Authorization", "Bearer a-token-for-tests")
        connection.putheader("Content-Length", str(10**9))
        connection.endheaders()
        status = connection.getresponse().status
        connection.close()
        return status

    assert await world.call(declared) == 413


async def test_a_project_that_is_full_of_live_jobs_files_takes_no_more(world, vision):
    world.gateway.keeper._most = Limit("HEADRACE_FILES_PROJECT_BYTES_MAX", 10, is_set=True)
    with pytest.raises(ClientError, match="HEADRACE_FILES_PROJECT_BYTES_MAX, set for this service"):
        await sent(world, vision)


async def test_erasing_a_project_removes_its_files_also_when_no_gateway_saw_it(world, vision):
    await sent(world, vision)
    objects = world.gateway.keeper.of("vision")
    assert objects.root.exists()
    world.store._clock = lambda: 4 * 10**15  # the log's clock is far in the past here
    await world.append(ProjectErased(project="vision"))
    await world.gateway.follower.reached(3)
    await world.gateway.keeper.erase_logged(world.gateway.projection.erased_at_us)
    assert not objects.root.exists()


def test_a_manifest_names_every_content_once():
    files = [File("a", 1, name_of(b"x")), File("b", 1, name_of(b"x"))]
    assert manifest_of(files).digests() == {name_of(b"x"): 1}
