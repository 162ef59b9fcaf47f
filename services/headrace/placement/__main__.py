"""The process of the placement service: `python -m headrace.placement`."""

from __future__ import annotations

from headrace.placement.decide import DECIDER
from headrace.placement.lineage_rules import apart
from headrace.placement.requests import RECEIVERS, names_of
from headrace.placement.shell import PlacementShell
from headrace.placement.state import SETTINGS
from headrace.runtime.environment import Environment
from headrace.runtime.serve import serve
from headrace.runtime.service import Service


def service_of(environment: Environment) -> Service:
    """Placement, as this process runs it."""
    shell = PlacementShell(
        master_key=environment.key("master.key"),
        vault_key=environment.key("vault.key"),
        grant_key=environment.key("grant.key"),
    )
    return Service(
        decider=DECIDER,
        requests=RECEIVERS,
        names_of=names_of,
        shell=shell,
        settings=SETTINGS,
        condition=lambda state: {"lineage": state.lineage.name, "apart": apart(state)},
        niceness=5,  # who submits a job waits for admission
        turns_apart_s_max=0.04,
    )


if __name__ == "__main__":
    serve("placement", service_of)
