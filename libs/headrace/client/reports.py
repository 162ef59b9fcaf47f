"""What a client reads and ends beside jobs: use and its cost, webhooks, what there is by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from headrace.client.asking import Asking, job_path, part
from headrace.client.connection import path_with
from headrace.client.model import Answer

if TYPE_CHECKING:  # what a call needs is loaded by that call: most programs make few of them
    from headrace.client.inventory_model import (
        PoolRow,
        PublisherRow,
        SecretRow,
        TemplateRow,
        VolumeRow,
    )
    from headrace.client.rebuilt_model import Rebuilt
    from headrace.client.sweep_model import SweepRow
    from headrace.client.usage_model import UsageRow
    from headrace.client.webhook_model import WebhookRow


class Reports(Asking):
    """Use, webhooks, pools, volumes, templates, secrets, publishers."""

    def usage(
        self,
        *,
        by: str = "project",
        project: str = "",
        user: str = "",
        since_us: int = 0,
        until_us: int = 0,
    ) -> list[UsageRow]:
        """GPU time and its cost on whole days (UTC), added up `by` any of day, project, user, model
        and pool, separated by commas.
        """
        from headrace.client.usage_model import UsageRow

        query = {"by": by, "project": project, "user": user}
        times = {"since_us": since_us or None, "until_us": until_us or None}
        return self._list(path_with("/v1/usage", {**query, **times}), UsageRow)

    def trials(self, job: str) -> SweepRow:
        """A sweep's trials: what they were given, what they reported, and how they went."""
        from headrace.client.sweep_model import SweepRow

        return self._get(f"/v1/jobs/{job_path(job)}/trials", SweepRow)

    def rebuild(self) -> Rebuilt:
        """Have the gateway fold what it answers with from the log again."""
        from headrace.client.rebuilt_model import Rebuilt

        return msgspec.json.decode(self._http.post("/v1/projection/rebuild"), type=Rebuilt)

    def webhooks(self, project: str = "") -> list[WebhookRow]:
        """Webhooks, of one project or all."""
        from headrace.client.webhook_model import WebhookRow

        return self._list(path_with("/v1/webhooks", {"project": project}), WebhookRow)

    def pools(self) -> list[PoolRow]:
        """Pools, with their prices."""
        from headrace.client.inventory_model import PoolRow

        return self._list("/v1/pools", PoolRow)

    def volumes(self) -> list[VolumeRow]:
        """Volumes, and how many nodes reach each."""
        from headrace.client.inventory_model import VolumeRow

        return self._list("/v1/volumes", VolumeRow)

    def templates(self, project: str = "") -> list[TemplateRow]:
        """Templates: everybody's, and those of one project or all."""
        from headrace.client.inventory_model import TemplateRow

        return self._list(path_with("/v1/templates", {"project": project}), TemplateRow)

    def template(self, name: str, *, project: str = "") -> TemplateRow:
        """What job files of a project mean by this name."""
        from headrace.client.inventory_model import TemplateRow

        path = path_with(f"/v1/templates/{part(name)}", {"project": project})
        return self._get(path, TemplateRow)

    def secrets(self, project: str = "") -> list[SecretRow]:
        """Names of secrets, of one project or all. Nobody is ever shown a value."""
        from headrace.client.inventory_model import SecretRow

        return self._list(path_with("/v1/secrets", {"project": project}), SecretRow)

    def delete_publisher(self, name: str, *, project: str = "") -> Answer:
        """Let this pipeline publish no more: the bus refuses its credential from now on."""
        path = f"/v1/publishers/{part(project or self.project)}/{part(name)}"
        return self._once("DELETE", path, None)

    def publishers(self, project: str = "") -> list[PublisherRow]:
        """Who publishes jobs on the bus, of one project or all."""
        from headrace.client.inventory_model import PublisherRow

        return self._list(path_with("/v1/publishers", {"project": project}), PublisherRow)
