"""An OpenID Connect provider as far as tokens are concerned: real keys, signed by the test."""

from __future__ import annotations

import base64
import hmac
import json
import threading
import time
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, RSAKey

AUDIENCE = "headrace"


def encoded(part):
    """A part of a JWT."""
    return base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")


class Issuer:
    """Serves its discovery and keys; `token` signs claims. Rotating makes another key."""

    def __init__(self):
        self.key = RSAKey.generate_key(2048, {"kid": "k1", "use": "sig"})
        self.listed = [self.key]
        self.asked = 0
        self.codes = {}  # of who agreed: what was asked, and what the token will say
        self.answers = []  # what the device flow's next questions are answered with
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                found = issuer.page(self.path)
                self.send_response(200 if found else 404)
                self.end_headers()
                self.wfile.write(json.dumps(found).encode())

            def do_POST(self):
                form = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
                status, found = issuer.asked_for(self.path, dict(parse_qsl(form)))
                self.send_response(status)
                self.end_headers()
                self.wfile.write(json.dumps(found).encode())

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def page(self, path):
        if path == "/.well-known/openid-configuration":
            return {
                "issuer": self.url,
                "jwks_uri": f"{self.url}/keys",
                "device_authorization_endpoint": f"{self.url}/device",
                "token_endpoint": f"{self.url}/token",
                "authorization_endpoint": f"{self.url}/authorize",
            }
        if path == "/keys":
            self.asked += 1
            return KeySet(self.listed).as_dict(private=False)
        return None

    def device(self, path):
        """RFC 8628: a code, and then what the test says."""
        if path == "/device":
            return 200, {
                "device_code": "secret",
                "user_code": "WDJB-MJHT",
                "verification_uri": f"{self.url}/activate",
                "interval": 1,
                "expires_in": 60,
            }
        return self.answers.pop(0)

    def asked_for(self, path, form):
        if form.get("grant_type") == "authorization_code":
            return self.exchanged(form)
        return self.device(path)

    def authorize(self, address, **claims):
        """Somebody agrees on the page at this address: the address that they are sent back to."""
        asked = dict(parse_qsl(urlsplit(address).query))
        code = f"code-{len(self.codes)}"
        self.codes[code] = asked, {"nonce": asked["nonce"], **claims}
        return f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}"

    def exchanged(self, form):
        """RFC 7636 §4.6: a token for who has what the code was asked for with."""
        asked, claims = self.codes.pop(form["code"], ({}, {}))
        proof = base64.urlsafe_b64encode(sha256(form["code_verifier"].encode()).digest())
        is_theirs = (
            asked.get("code_challenge") == proof.decode().rstrip("=")
            and asked["code_challenge_method"] == "S256"
            and (asked["redirect_uri"], asked["client_id"])
            == (form["redirect_uri"], form["client_id"])
        )
        if not is_theirs:
            return 400, {"error": "invalid_grant"}
        return 200, {"id_token": self.token(**claims)}

    def rotate(self, *, keep=False):
        self.key = ECKey.generate_key("P-256", {"kid": "k2", "use": "sig"})
        self.listed = [*(self.listed if keep else []), self.key]

    def claims(self, **claims):
        now_s = int(time.time())
        usual = {
            "iss": self.url, "aud": AUDIENCE, "sub": "1", "email": "ada@example.com",
            "groups": ["vision-team"], "iat": now_s, "exp": now_s + 300,
        }  # fmt: skip
        return {name: value for name, value in {**usual, **claims}.items() if value is not None}

    def token(self, *, key=None, kid=None, alg=None, **claims):
        key = key or self.key
        alg = alg or ("ES256" if isinstance(key, ECKey) else "RS256")
        header = {"alg": alg, "kid": kid or key.kid}
        return jwt.encode(header, self.claims(**claims), key, algorithms=[alg])

    def confused(self):
        """Signed with our public key as if it were a shared secret."""
        body = f"{encoded({'alg': 'HS256', 'kid': 'k1'})}.{encoded(self.claims())}"
        signature = hmac.digest(self.key.as_pem(private=False), body.encode(), "sha256")
        return f"{body}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"

    def close(self):
        if not self._thread.is_alive():
            return
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
