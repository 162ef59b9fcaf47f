"""A registry of one image, as much of it as an engine asks for: nothing outside has to be reached."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
CONFIG = "application/vnd.docker.container.image.v1+json"
LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"


class Registry:
    """Serves `address/NAME:latest` for every name, with this file system (a tar), to whom it lets."""

    def __init__(self, tar: bytes) -> None:
        layer = gzip.compress(tar)
        about = {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Env": ["PATH=/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [digest_of(tar)]},
        }
        config = json.dumps(about).encode()
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": described(config, CONFIG),
            "layers": [described(layer, LAYER)],
        }
        self.manifest = json.dumps(manifest).encode()
        self.blobs = {digest_of(blob): blob for blob in (layer, config)}
        self.login = ""  # `Basic …`, once somebody has to say it
        self.address = ""


@contextlib.contextmanager
def serving(registry: Registry) -> Iterator[Registry]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if registry.login and self.headers.get("Authorization") != registry.login:
                return self._answer(401, b"", "text/plain")
            kind, _, name = self.path.rpartition("/")
            if kind.endswith("/manifests"):
                return self._answer(200, registry.manifest, MANIFEST)
            if name in registry.blobs:
                return self._answer(200, registry.blobs[name], "application/octet-stream")
            return self._answer(200 if self.path == "/v2/" else 404, b"{}", "application/json")

        do_HEAD = do_GET  # noqa: N815  the library's name

        def _answer(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Docker-Content-Digest", digest_of(body))
            self.send_header("WWW-Authenticate", 'Basic realm="the tests"')
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    registry.address = f"127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def described(content: bytes, kind: str) -> dict[str, object]:
    return {"mediaType": kind, "size": len(content), "digest": digest_of(content)}
