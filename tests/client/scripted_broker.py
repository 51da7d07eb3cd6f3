"""A peer that answers as a test tells it to, where a real broker would never."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

from ottla.protocol.apis import APIS, ApiKey
from ottla.protocol.codec import decoder, encoder
from ottla.protocol.headers import RequestHeader, frame_response, read_request_header
from ottla.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse

Answer = Callable[["ScriptedBroker", RequestHeader, Any, asyncio.StreamWriter], Awaitable[None]]


class ScriptedBroker:
    """`async with ScriptedBroker(answer) as address`; the answer decides what goes back."""

    def __init__(
        self,
        answer: Answer,
        versions: dict[int, tuple[int, int]] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._answer = answer
        self._tls = tls
        self.versions = versions or {key: api.versions for key, api in APIS.items()}
        self.requests: list[RequestHeader] = []
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> tuple[str, int]:
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0, ssl=self._tls)
        host, port = self._server.sockets[0].getsockname()[:2]
        return host, port

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                frame = await reader.readexactly(size)
                header, position = read_request_header(frame)
                self.requests.append(header)
                request_class = APIS[header.api_key].request_class()
                request = None
                if header.api_version <= request_class.VERSIONS[1]:
                    request, _ = decoder(request_class, header.api_version)(frame, position)
                await self._answer(self, header, request, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def send(self, writer: asyncio.StreamWriter, header: RequestHeader, response: Any) -> None:
        chunks = encoder(type(response), header.api_version)(response)
        frame = frame_response(header.api_key, header.api_version, header.correlation_id, chunks)
        writer.write(b"".join(bytes(chunk) for chunk in frame))  # type: ignore[arg-type]

    def send_versions(self, writer: asyncio.StreamWriter, header: RequestHeader) -> None:
        self.send(writer, header, self.versions_response())

    def versions_response(self, error_code: int = 0) -> ApiVersionsResponse:
        keys = [
            ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in self.versions.items()
        ]
        return ApiVersionsResponse(error_code=error_code, api_keys=keys)


def negotiating(answer: Answer) -> Answer:
    """Answers ApiVersions as a broker does, and leaves everything else to `answer`."""

    async def both(
        broker: ScriptedBroker, header: RequestHeader, request: Any, writer: asyncio.StreamWriter
    ) -> None:
        if header.api_key == ApiKey.API_VERSIONS:
            broker.send_versions(writer, header)
        else:
            await answer(broker, header, request, writer)

    return both
