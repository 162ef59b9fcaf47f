"""What a workspace's page can do to the rest in a real browser: nothing.

Two workspaces of the same person are open in one browser, one of them with pages that try whatever a
page can try.
"""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from tests.workspaces import browser

pytestmark = [
    pytest.mark.workspaces,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not browser.program(), reason="make system-deps installs a browser"),
]

SERVES = """app:
  command: |
    echo '<title>page</title><p>secret of {name}' > index.html
    echo 'var stolen = "script of {name}"' > secret.js
    exec python3 -m http.server --bind 127.0.0.1 "$HEADRACE_APP_PORT"
"""
READS = "fetch({0!r}, {{credentials: 'include'}}).then(r => r.text(), e => 'refused')"
SCRIPT = """new Promise(said => {{
  const s = document.createElement('script');
  s.src = {0!r} + 'secret.js';
  s.onload = () => said(window.stolen || 'nothing');
  s.onerror = () => said('refused');
  document.head.append(s);
}})"""
FRAME = """new Promise(said => {{
  const f = document.createElement('iframe');
  f.src = {0!r};
  f.onload = () => {{
    try {{ said(f.contentDocument ? f.contentDocument.body.innerText : 'another origin') }}
    catch (e) {{ said('another origin') }}
  }};
  document.body.append(f);
}})"""
SOCKET = """new Promise(said => {{
  const s = new WebSocket({0!r}.replace('http', 'ws'));
  s.onopen = () => said('open');
  s.onerror = () => said('refused');
}})"""
BLIND = """Promise.allSettled(['GET', 'POST'].map(method =>
  fetch({0!r} + 'forged', {{method, mode: 'no-cors', credentials: 'include'}})))"""
COOKIES = "document.cookie"
TOSSES = "(document.cookie = 'headrace_workspace=x; domain=localhost; path=/', document.cookie)"


def at(address: str) -> str:
    return f"{urlsplit(address).scheme}://{urlsplit(address).netloc}/"


async def test_pages_of_a_workspace_reach_neither_another_nor_the_gateway(
    submitted, platform, tmp_path
):
    mine, evil = (submitted(name, SERVES.format(name=name)) for name in ("mine", "evil"))
    gateway = f"http://127.0.0.1:{urlsplit(mine).port}/"
    async with browser.browser(tmp_path / "profile") as opened:
        own, attacker = await opened.page(), await opened.page()
        for page, address in ((own, mine), (attacker, evil)):
            await page.go(address)
            while "secret" not in str(await page.find("document.body.innerText")):
                await page.go(at(address))  # until it listens
        assert await own.find("document.body.innerText") == "secret of mine"
        assert "GET / " in platform.headrace("logs", "mine").stdout

        assert await attacker.find(READS.format(at(mine))) == "refused"
        assert await attacker.find(SCRIPT.format(at(mine))) == "refused"
        assert await attacker.find(FRAME.format(at(mine))) == "another origin"
        assert await attacker.find(SOCKET.format(at(mine))) == "refused"
        await attacker.find(BLIND.format(at(mine)))
        asked = platform.headrace("logs", "mine").stdout
        assert ("/secret.js" in asked, "forged" in asked) == (False, False)
        assert await attacker.find(READS.format(f"{gateway}v1/jobs")) == "refused"
        assert "headrace" not in await attacker.find(COOKIES)
        assert "headrace" not in await attacker.find(TOSSES)

        assert await own.find("window.opener === null") is True
        assert await own.go(at(mine)) == at(mine)  # and is still open
        assert await own.find("document.body.innerText") == "secret of mine"
