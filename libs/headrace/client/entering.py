"""Ways into running jobs: a session, or a browser's way into a workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from headrace.client.asking import Asking, job_path

if TYPE_CHECKING:  # what a call needs is loaded by that call: most programs make few of them
    from headrace.client.session import Session
    from headrace.client.session_model import Visit


class Entering(Asking):
    """Asks to be let in."""

    def enter(self, job: str, visit: Visit) -> Session:
        """A way into a running job; the caller closes it."""
        from headrace.client.session import Session

        return Session.open(self._context, f"/v1/jobs/{job_path(job)}/session", visit)

    def open(self, job: str) -> str:
        """An address at which a browser enters a workspace: good once, and for a minute."""
        from headrace.client.session_model import Opening

        answer = self._http.post(f"/v1/jobs/{job_path(job)}/opening")
        opening = msgspec.json.decode(answer, type=Opening)
        url = urlsplit(self._context.url)
        port = f":{url.port}" if url.port else ""
        return f"{url.scheme}://{opening.host}{port}{opening.path}"
