"""The process of the admission service: `python -m headrace.admission`."""

from __future__ import annotations

import logging
from collections.abc import Collection

from headrace.admission.decide import DECIDER
from headrace.admission.known_names import names_of
from headrace.admission.requests import Requests
from headrace.admission.shell import AdmissionShell
from headrace.admission.state import SETTINGS, State
from headrace.bus.revoking import Revoker
from headrace.runtime.environment import Environment
from headrace.runtime.pipelines.durable import Durable
from headrace.runtime.serve import serve, signing_in
from headrace.runtime.service import Service

REVOKER = "bus.revoker.creds"

_LOG = logging.getLogger("headrace.admission")


def service_of(environment: Environment, revoker: Revoker | None = None) -> Service:
    """Admission; with a `revoker` the bus refuses nodes that were deleted."""
    requests = Requests(
        master_key=environment.key("master.key"),
        account_seed=environment.key("account.seed").decode().strip(),
    )
    return Service(
        decider=DECIDER,
        requests=requests.receivers(),
        answer=requests.answer,
        differing=requests.differing,
        names_of=names_of,
        shell=AdmissionShell(requests, revoker),
        settings=SETTINGS,
        posting=posting,
    )


def posting(state: State) -> tuple[Collection[str], tuple[Durable, ...]]:
    """The projects that have publishers, and of these the durable ones."""
    return state.publishers.keys(), tuple(
        Durable(
            project=project,
            name=name,
            since_us=login.durable_since_us,
            expires_at_us=login.expires_at_us,
        )
        for project, logins in state.publishers.items()
        for name, login in logins.items()
        if login.durable_since_us
    )


def revoker_of(environment: Environment) -> Revoker | None:
    """Who has the bus refuse deleted nodes; None without the keys for it."""
    try:
        operator_seed = environment.key("operator.seed").decode().strip()
        creds = environment.key(REVOKER).decode()
    except FileNotFoundError as error:
        _LOG.warning("logins of deleted nodes stay good until they expire lacks=%s", error.filename)
        return None
    account_seed = environment.key("account.seed").decode().strip()
    connect = signing_in(environment, creds, "revoker")
    return Revoker(connect, operator_seed=operator_seed, account_seed=account_seed)


if __name__ == "__main__":
    serve("admission", lambda environment: service_of(environment, revoker_of(environment)))
