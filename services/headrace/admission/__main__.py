"""The process of the admission service: `python -m headrace.admission`."""

from __future__ import annotations

from headrace.admission.decide import DECIDER
from headrace.admission.requests import Requests
from headrace.admission.shell import AdmissionShell
from headrace.admission.state import SETTINGS
from headrace.runtime.environment import Environment
from headrace.runtime.serve import serve
from headrace.runtime.service import Service


def service_of(environment: Environment) -> Service:
    """Admission, as this process runs it."""
    requests = Requests(
        master_key=environment.key("master.key"),
        account_seed=environment.key("account.seed").decode().strip(),
    )
    return Service(
        decider=DECIDER,
        requests=requests.receivers(),
        answer=requests.answer,
        shell=AdmissionShell(requests),
        settings=SETTINGS,
        relay=True,
    )


if __name__ == "__main__":
    serve("admission", service_of)
