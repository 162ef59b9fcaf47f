"""A job whose workers differ, on the whole platform: a server for two workers, which reach it by what
they are told of their peers."""

from __future__ import annotations

SERVER = """
import json, os, socketserver
peers = json.loads(os.environ["HEADRACE_ROLES"])
class Sum(socketserver.StreamRequestHandler):
    def handle(self):
        self.wfile.write(b"%d" % sum(map(int, self.rfile.readline().split())))
print("serves", len(peers["worker"]), flush=True)
socketserver.TCPServer(("", int(peers["ps"][0].split(":")[1])), Sum).serve_forever()
"""
WORKER = """
import json, os, socket, time
host, port = json.loads(os.environ["HEADRACE_ROLES"])["ps"][0].split(":")
while True:
    try:
        server = socket.create_connection((host, int(port)))
        break
    except OSError:
        time.sleep(0.05)
server.sendall(b"40 %d\\n" % int(os.environ["HEADRACE_ROLE_RANK"]))
print("got", server.recv(64).decode(), flush=True)
"""
JOB = """
name: sums
workdir: {folder}
roles:
  ps: {{resources: {{cpu: 1}}, command: [python3, server.py]}}
  worker: {{nodes: 2, resources: {{gpus: 4}}}}
succeeds_when: worker
command: [python3, worker.py]
"""


def test_workers_find_their_server_which_is_stopped_when_they_are_done(platform, tmp_path):
    platform.wait_ready()
    (tmp_path / "server.py").write_text(SERVER)
    (tmp_path / "worker.py").write_text(WORKER)
    path = tmp_path / "sums.yaml"
    path.write_text(JOB.format(folder=tmp_path))
    job = platform.headrace("submit", str(path)).stdout.split()[0]
    assert platform.ended(job)["state"] == "succeeded"

    assert platform.headrace("logs", job, "--role", "ps").stdout == "ps 0 | serves 2\n"
    said = platform.headrace("logs", job, "--role", "worker").stdout.splitlines()
    assert sorted(said) == ["worker 1 | got 40", "worker 2 | got 41"]
    assert "wants   ps 1cpu + worker 2×4" in platform.headrace("describe", job).stdout
    (attempt,) = platform.json("describe", job)["attempts"]
    assert [worker["role"] for worker in attempt["workers"]] == ["ps", "worker", "worker"]
    assert (attempt["evicted"], attempt["workers"][0]["exit_code"]) == ("finished", 143)
    refused = platform.headrace("logs", job, "--role", "wroker", check=False)
    assert "is not a role of this job" in refused.stderr
