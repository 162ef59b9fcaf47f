"""What a client asks about users, their roles, and API tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.client.asking import Asking, part
from headrace.client.connection import path_with
from headrace.client.model import Answer

if TYPE_CHECKING:  # what a call needs is loaded by that call: most programs make few of them
    from headrace.client.people_model import Entrance, Me, RoleRow, TokenRow, UserRow
    from headrace.trust import api_token

SERVICE = "service:"  # how names of services begin


class People(Asking):
    """Who there is, and what they may do."""

    def entrance(self) -> Entrance:
        """Where people sign in. Needs no token. Raises `NotFound` without an identity provider."""
        from headrace.client.people_model import Entrance

        return self._get("/v1/login", Entrance)

    def whoami(self) -> Me:
        """Who this client's token stands for, and with which roles."""
        from headrace.client.people_model import Me

        return self._get("/v1/me", Me)

    def users(self) -> list[UserRow]:
        """Users on record."""
        from headrace.client.people_model import UserRow

        return self._list("/v1/users", UserRow)

    def set_user(self, user: str, *, groups: Sequence[str] = ()) -> Answer:
        """Make or change a person; `groups` beside those that an identity provider names."""
        return self._once("PUT", f"/v1/users/{part(user)}", {"groups": list(groups)})

    def set_service(self, name: str, *, home: str = "", acts_for: bool = False) -> Answer:
        """Make or change a service account of the department or project `home` (empty: the fleet),
        which is called `service:home/name` everywhere. One that `acts_for` people names them in
        `Headrace-On-Behalf-Of`.
        """
        service = f"{SERVICE}{home}/{name}" if home else f"{SERVICE}{name}"
        return self._once("PUT", _path_of(service), {"acts_for": acts_for})

    def remove_user(self, user: str) -> Answer:
        """Let a person, `ada`, or a service, `service:home/name`, in no more."""
        return self._once("DELETE", _path_of(user), None)

    def roles(self, *, member: str = "", scope: str = "") -> list[RoleRow]:
        """Who has which role where."""
        from headrace.client.people_model import RoleRow

        path = path_with("/v1/roles", {"member": member, "scope": scope})
        return self._list(path, RoleRow)

    def grant_role(self, member: str, role: str, scope: str = "") -> Answer:
        """Give a role to `user:ada`, `group:vision-team` or `service:vision/airflow`, in a department or
        project (empty: the whole fleet).
        """
        return self._once("POST", "/v1/roles", {"member": member, "role": role, "scope": scope})

    def revoke_role(self, member: str, role: str, scope: str = "") -> Answer:
        """Take it."""
        query = {"member": member, "role": role, "scope": scope}
        return self._once("DELETE", path_with("/v1/roles", query), None)

    def tokens(self, user: str = "") -> list[TokenRow]:
        """One's own API tokens and those one may see, without their secrets."""
        from headrace.client.people_model import TokenRow

        return self._list(path_with("/v1/tokens", {"user": user}), TokenRow)

    def create_token(
        self,
        *,
        user: str = "",
        name: str = "",
        scopes: Sequence[str] = (),
        projects: Sequence[str] = (),
        lasts_s: int = 0,
    ) -> api_token.ApiToken:
        """A new API token, made here: nobody else ever knows it. `user` empty: one's own; `scopes`
        (`job.read`, `job.*`, `*.read`) and `projects` narrow it; `lasts_s` 0: until it is revoked.
        """
        from headrace.trust import api_token

        made = api_token.new()
        body = {
            "token": made.id,
            "digest": made.digest,
            "user": user,
            "name": name,
            "scopes": list(scopes),
            "projects": list(projects),
            "lasts_s": lasts_s,
        }
        self._once("POST", "/v1/tokens", body)
        return made

    def revoke_token(self, token: str) -> Answer:
        """Take an API token back, by its id."""
        return self._once("DELETE", f"/v1/tokens/{part(token)}", None)


def _path_of(user: str) -> str:
    """Where a user is changed: services are apart from people."""
    if not user.startswith(SERVICE):
        return f"/v1/users/{part(user)}"
    words = user.removeprefix(SERVICE).split("/", 1)
    return f"/v1/services/{'/'.join(part(word) for word in words)}"
