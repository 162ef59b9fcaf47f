"""A workspace on the whole platform: submitted, opened as a browser does, ended."""

from __future__ import annotations

import http.client
from pathlib import Path
from urllib.parse import urlsplit

NOTEBOOK = """
type: workspace
name: notebook
app:
  command: |
    echo "hello from the workspace" > index.html
    exec python3 -m http.server --bind 127.0.0.1 "$HEADRACE_APP_PORT"
"""


def asked(address: str, cookie: str = "") -> tuple[int, http.client.HTTPMessage, bytes]:
    url = urlsplit(address)
    connection = http.client.HTTPConnection("127.0.0.1", url.port, timeout=60)
    path = f"{url.path}?{url.query}" if url.query else url.path
    sent = {"Host": url.netloc, **({"Cookie": cookie} if cookie else {})}
    connection.request("GET", path, headers=sent)
    answer = connection.getresponse()
    found = answer.status, answer.headers, answer.read()
    connection.close()
    return found


def test_a_web_server_is_opened_by_a_ticket_and_read_with_a_cookie(platform, tmp_path):
    platform.wait_ready()
    path = tmp_path / "notebook.yaml"
    path.write_text(NOTEBOOK)
    submitted = platform.headrace("submit", str(path)).stdout
    job = submitted.split()[0]
    assert "let it listen at $HEADRACE_APP_SOCKET instead" in submitted
    platform.wait(
        lambda: platform.described(job)["job"]["state"] == "running", "the workspace to run"
    )
    said = platform.headrace("describe", job).stdout
    assert ("+loopback" in said) != ("are open to every job and person there" in said)
    address = platform.headrace("open", "notebook", "--print").stdout.strip()
    status, headers, _ = asked(address)
    assert status == 303
    cookie = headers["set-cookie"].partition(";")[0]
    place = urlsplit(address)._replace(path=headers["location"], query="").geturl()
    platform.wait(lambda: asked(place, cookie)[0] == 200, "the server to listen")
    assert asked(place, cookie)[2] == b"hello from the workspace\n"
    assert asked(place)[0] == 403
    platform.headrace("cancel", job, "--yes")
    platform.ended(job)
    refused = platform.headrace("open", job, "--print", check=False)
    assert "does not run: it is cancelled" in refused.stderr


def test_the_notebook_of_the_examples_starts_where_nobody_has_a_quota(platform):
    platform.wait_ready()
    example = Path(__file__).parents[2] / "examples" / "notebook.yaml"
    job = platform.headrace("submit", str(example)).stdout.split()[0]
    assert platform.ended(job)["attempt"] == 1  # no JupyterLab is installed there


def test_a_workspace_that_nobody_uses_is_warned_of_and_ends_with_the_reason(platform, tmp_path):
    platform.wait_ready()
    path = tmp_path / "left-alone.yaml"
    path.write_text(NOTEBOOK.replace("name: notebook", "name: left-alone\nidle: {for: 20s}"))
    job = platform.headrace("submit", str(path)).stdout.split()[0]

    def why() -> str:
        return platform.described(job)["job"].get("why", "")

    platform.wait(lambda: "unless it is used" in why(), "the warning")
    row = platform.ended(job)
    assert (row["kind"], row["state"]) == ("workspace", "cancelled")
    assert row["why"].startswith("idle: not used for ")


def test_a_job_runs_with_the_code_of_a_workspace_as_it_is_there_now(platform, tmp_path):
    platform.wait_ready()
    code = tmp_path / "code"
    code.mkdir()
    (code / "train.py").write_text("print('first')\n")
    (code / ".gitignore").write_text("*.bin\n")
    notebook = NOTEBOOK.replace("name: notebook", "name: desk\nworkdir: .\nsetup: touch set-up")
    (code / "desk.yaml").write_text(notebook)
    (tmp_path / "train.yaml").write_text("name: train\ncommand: ls; python train.py\n")
    desk = platform.headrace("submit", str(code / "desk.yaml")).stdout.split()[0]
    platform.wait(lambda: platform.described(desk)["job"]["state"] == "running", "the desk")
    edit = "touch huge.bin; echo \"print('second')\" > train.py"
    platform.headrace("exec", desk, "--", "sh", "-c", edit)
    submit = ("submit", "--follow", "--from", "desk", str(tmp_path / "train.yaml"))
    said = platform.headrace(*submit).stdout
    assert ("second" in said, "huge.bin" in said, "set-up" in said) == (True, False, True)
    platform.headrace("cancel", desk, "--yes")
    platform.ended(desk)
    said = platform.headrace(*submit).stdout
    assert ("second" in said, "huge.bin" in said) == (True, False)  # as it was at its end
    platform.headrace("outputs", desk, "-o", str(tmp_path / "kept"))
    assert (tmp_path / "kept" / "huge.bin").is_file()
    (tmp_path / "train.yaml").write_text("name: train\nfrom: nobody-1\ncommand: ls\n")
    refused = platform.headrace("submit", str(tmp_path / "train.yaml"), check=False)
    assert "refused: from = nobody-1 — is not a job of project default" in refused.stderr
