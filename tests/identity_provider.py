"""A small identity provider: tokens by client credentials, and the keys that signed them."""

from __future__ import annotations

import json
import ssl
import threading
import time
from base64 import b64decode
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from joserfc import jwt
from joserfc.jwk import RSAKey

ISSUER, AUDIENCE = "https://login.example", "kafka"
SECRET = "provider-secret"


class Answer:
    """What the provider sends: `body` in pieces of `piece` bytes, each after `pause_s`."""

    def __init__(
        self,
        body: bytes | str,
        status: int = 200,
        *,
        piece: int = 1 << 20,
        pause_s: float = 0.0,
        location: str = "",
    ) -> None:
        self.body = body.encode() if isinstance(body, str) else body
        self.status = status
        self.piece = piece
        self.pause_s = pause_s
        self.location = location


class IdentityProvider:
    """`with IdentityProvider(...) as provider`; clients have their id as user, and `SECRET`.

    `answer_token` and `answer_keys`, if set, answer instead."""

    def __init__(self, context: ssl.SSLContext | None = None, lifetime_s: float = 60) -> None:
        self.lifetime_s = lifetime_s
        self.keys = {"first": RSAKey.generate_key(2048, parameters={"kid": "first"})}
        self.current = "first"
        self.asked: list[tuple[str, dict[str, list[str]]]] = []
        """The client id and the fields of each request for a token."""
        self.keys_asked = 0
        self.answer_token: Callable[[], Answer] | None = None
        self.answer_keys: Callable[[], Answer] | None = None
        self._server = _Server(("127.0.0.1", 0), self, context)
        self.port = int(self._server.server_address[1])
        scheme = "http" if context is None else "https"
        self.token_url = f"{scheme}://localhost:{self.port}/token"
        self.keys_url = f"{scheme}://localhost:{self.port}/keys"

    def __enter__(self) -> IdentityProvider:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def publish(self, kid: str) -> None:
        """Add a key; `current` names the one that signs."""
        self.keys[kid] = RSAKey.generate_key(2048, parameters={"kid": kid})

    def token(self, user: str, kid: str = "", **changes: Any) -> str:
        """`kid` is that of the key that signs, whatever it may say."""
        now = time.time()
        claims = {"sub": user, "iss": ISSUER, "aud": AUDIENCE, "iat": now}
        claims |= {"exp": now + self.lifetime_s} | changes
        header = {"alg": "RS256", "kid": kid or self.current}
        return jwt.encode(header, claims, self.keys[self.current])

    def granted(self, client: str, password: str, fields: dict[str, list[str]]) -> Answer:
        if self.answer_token is not None:
            return self.answer_token()
        if password != SECRET or fields.get("grant_type") != ["client_credentials"]:
            refusal = {"error": "invalid_client", "error_description": f"not {password}"}
            return Answer(json.dumps(refusal), 401)
        scope = fields.get("scope", ["kafka"])[0]
        granted = {"access_token": self.token(client, scope=scope), "token_type": "Bearer"}
        return Answer(json.dumps(granted))

    def key_set(self) -> Answer:
        if self.answer_keys is not None:
            return self.answer_keys()
        keys = [key.as_dict(private=False) for key in self.keys.values()]
        return Answer(json.dumps({"keys": keys}))


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(
        self, address: tuple[str, int], provider: IdentityProvider, context: ssl.SSLContext | None
    ) -> None:
        super().__init__(address, _Handler)
        self.provider = provider
        self._context = context

    def get_request(self) -> tuple[Any, Any]:
        connection, address = super().get_request()
        if self._context is not None:
            # The handshake is made by the thread that serves the connection.
            connection = self._context.wrap_socket(
                connection, server_side=True, do_handshake_on_connect=False
            )
        return connection, address

    def handle_error(self, *_: object) -> None:
        """Clients that end a connection are part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        provider = self.server.provider
        fields = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        kind, _, credentials = self.headers["Authorization"].partition(" ")
        assert kind == "Basic"
        client, _, password = b64decode(credentials).decode().partition(":")
        provider.asked.append((client, fields))
        self._send(provider.granted(client, password, fields))

    def do_GET(self) -> None:
        self.server.provider.keys_asked += 1
        self._send(self.server.provider.key_set())

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        if answer.location:
            self.send_header("Location", answer.location)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        for start in range(0, len(answer.body), answer.piece):
            time.sleep(answer.pause_s)
            self.wfile.write(answer.body[start : start + answer.piece])
            self.wfile.flush()

    def log_message(self, *_: object) -> None:
        """Say nothing."""
