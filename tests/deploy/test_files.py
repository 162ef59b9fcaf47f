"""The files of deploy/ against what they talk about: units, services, metrics, ports."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.architecture.sources import service_names
from tests.deploy.platform import DEPLOY, SERVICES

from headrace.cli import service_unit
from headrace.embedded import binaries
from headrace.metrics import exposition
from headrace.metrics.decide import DECIDER
from headrace.runtime.health import counters_text

COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
DASHBOARD = json.loads((DEPLOY / "grafana" / "headrace.json").read_text())
COUNTED = ("appends", "events_appended", "requests", "requests_refused_at_door")


def metrics_served() -> set[str]:
    text = counters_text("x", dict.fromkeys(COUNTED, 1), 1)
    text += exposition.text(DECIDER.initial(), {})
    names = set(re.findall(r"^# TYPE (\S+) (?!histogram)", text, re.MULTILINE))
    return names | {
        f"{name}{suffix}"
        for name in re.findall(r"^# TYPE (\S+) histogram", text, re.MULTILINE)
        for suffix in ("_bucket", "_sum", "_count")
    }


def expressions() -> list[str]:
    return [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]


def test_the_dashboard_asks_only_for_metrics_that_are_served():
    asked = {name for text in expressions() for name in re.findall(r"headrace_\w+", text)}

    assert len(asked) > 8
    assert asked - metrics_served() == set()


def test_no_two_panels_of_the_dashboard_lie_on_each_other():
    panels = DASHBOARD["panels"]

    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len({(p["gridPos"]["x"], p["gridPos"]["y"]) for p in panels}) == len(panels)


def test_compose_runs_every_service():
    modules = {
        service["command"][1]
        for service in COMPOSE["services"].values()
        if service.get("command", [""])[0].startswith("/etc/headrace/")
    }

    assert modules == set(service_names())


def test_every_process_in_compose_sees_its_own_folder_only():
    for name in (*SERVICES, "n1", "nats"):
        from_state = [v for v in COMPOSE["services"][name]["volumes"] if v.startswith("./state")]

        assert [volume.split(":")[0] for volume in from_state] == [f"./state/{name}"]
        assert from_state[0].endswith(":ro")


def test_what_has_to_outlive_a_container_is_in_a_volume():
    kept = {
        "postgres": "/var/lib/postgresql",
        "nats": "/data",
        "gateway": "/var/lib/headrace/files",
        "n1": "/var/lib/headrace/node",
    }
    for name, folder in kept.items():
        volumes = dict(reversed(v.split(":")[:2]) for v in COMPOSE["services"][name]["volumes"])
        assert volumes[folder] in COMPOSE["volumes"]
    assert COMPOSE["services"]["n1"]["environment"]["HEADRACE_NODE_DIR"] == kept["n1"]


def test_everything_in_compose_comes_back_and_says_whether_it_is_ready():
    running = {name: s for name, s in COMPOSE["services"].items() if name != "prepare"}

    assert {name for name, s in running.items() if s.get("restart") != "always"} == set()
    assert {name for name, s in running.items() if not s.get("healthcheck")} == set()


@pytest.mark.skipif(not shutil.which("docker-compose"), reason="no docker-compose here")
def test_compose_of_version_1_understands_it_too():
    done = subprocess.run(
        ["docker-compose", "--file", DEPLOY / "compose.yaml", "config", "--quiet"],
        env={"PATH": os.environ["PATH"], "HEADRACE_PG_PASSWORD": "x"},
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stderr


def test_prometheus_asks_every_service_in_compose_where_it_listens():
    scrape = yaml.safe_load((DEPLOY / "prometheus" / "headrace.yaml").read_text())
    targets = scrape["scrape_configs"][0]["static_configs"][0]["targets"]
    ports = re.findall(r'"(\w+)": (74\d\d)', (DEPLOY / "prepare.py").read_text())

    assert set(targets) == {f"{name}:{port}" for name, port in ports if name != "node"}


def test_every_part_that_the_collector_uses_is_described():
    collector = yaml.safe_load((DEPLOY / "otel" / "collector.yaml").read_text())

    for kind in ("receivers", "processors", "exporters"):
        used = {n for p in collector["service"]["pipelines"].values() for n in p[kind]}
        assert used == set(collector[kind])


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd-analyze here")
@pytest.mark.parametrize("unit", ["headrace-node.service", "headrace@.service"])
def test_systemd_understands_the_units(unit, tmp_path):
    text = (DEPLOY / "systemd" / unit).read_text()
    (tmp_path / unit).write_text(text.replace("/opt/headrace/bin/python", sys.executable))

    done = subprocess.run(
        ["systemd-analyze", "verify", tmp_path / unit], capture_output=True, text=True
    )

    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_unit_that_joining_installs_is_the_one_shown_here():
    shown = (DEPLOY / "systemd" / "headrace-node.service").read_text()
    assert shown == service_unit.text(Path("/var/lib/headrace-node"), "/opt/headrace/bin/python")


def test_nats_understands_its_configuration(tmp_path):
    (tmp_path / "trust").mkdir()
    (tmp_path / "trust" / "trust.conf").touch()
    for name in ("headrace.conf", "compose.conf"):
        shutil.copy(DEPLOY / "nats" / name, tmp_path)

    command = [binaries.nats_server(), "--config", tmp_path / "compose.conf", "-t"]
    done = subprocess.run(command, capture_output=True, text=True)

    assert done.returncode == 0, done.stdout + done.stderr


def test_the_image_is_made_of_files_that_are_there():
    kept = re.findall(r"^!(.+)$", (DEPLOY / "Dockerfile.dockerignore").read_text(), re.MULTILINE)
    copied = re.findall(r"^COPY (?!--)(.+) \S+$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)

    names = [name for line in copied for name in line.split() if name != "."]
    assert set(names) <= set(kept)
    assert [name for name in kept if not (DEPLOY.parent / name).exists()] == []


def test_the_image_installs_nothing_that_its_hash_does_not_name():
    lines = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    pips = [part for line in lines for part in line.split("&&") if re.search(r"\bpip\b", part)]
    locked = (DEPLOY / "constraints.txt").read_text()

    assert len(pips) == 4
    assert all("--require-hashes" in pip or "--no-index" in pip for pip in pips)
    assert all("--no-build-isolation" in pip for pip in pips if "pip wheel" in pip)
    assert all(
        "--hash=sha256:" in entry
        for entry in re.split(r"^(?=[a-z])", locked, flags=re.MULTILINE)[1:]
    )


def test_the_images_packages_are_those_that_were_tested():
    named = re.compile(r"^([a-zA-Z0-9_.-]+==\S+)", re.MULTILINE)
    tested = set(named.findall((DEPLOY.parent / "constraints.txt").read_text()))

    assert set(named.findall((DEPLOY / "constraints.txt").read_text())) <= tested


def test_prometheus_shows_every_service_the_token_of_the_metrics():
    (job,) = yaml.safe_load((DEPLOY / "prometheus" / "headrace.yaml").read_text())["scrape_configs"]

    assert job["authorization"]["credentials_file"].endswith("/metrics.token")
    assert {
        target.split(":")[0] for config in job["static_configs"] for target in config["targets"]
    } == {*SERVICES}
