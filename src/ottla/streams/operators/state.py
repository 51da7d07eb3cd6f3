"""The state of many keys, read and written in few exchanges with Spark.

Each read or write of one key is a message to the JVM and an answer. One by one, most of the time
would be waiting; here up to `TOGETHER` messages are sent at once. That uses parts of PySpark that
are not public: if they are missing, keys are read and written one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ottla.streams.operators.operator import State

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import MapState

KEY = "key string"
VALUE = "value string, time bigint, more string"

TOGETHER = 64
# All requests must fit into the socket's buffer while their answers are not read yet.
TOGETHER_BYTES = 16 * 1024


class KeyedState:
    """A map of Spark's from packed keys to `State`, within one bucket."""

    def __init__(self, entries: MapState) -> None:
        self._entries = entries
        self._pipe = Pipe.to(entries)

    def read(self, keys: Sequence[str]) -> dict[str, State | None]:
        if self._pipe is None:
            found = [self._entries.getValue((key,)) for key in keys]
        else:
            found = self._pipe.values([(key,) for key in keys])
        return {
            key: None if row is None else State(*row) for key, row in zip(keys, found, strict=True)
        }

    def items(self) -> Iterator[tuple[str, State]]:
        """Yield all keys of the bucket."""
        for key, row in self._entries.iterator():
            yield key[0], State(*row)

    def write(self, changes: Iterable[tuple[str, State | None]]) -> None:
        if self._pipe is not None:
            self._pipe.change([((key,), state) for key, state in changes])
            return
        for key, state in changes:
            if state is None:
                self._entries.removeKey((key,))
            else:
                self._entries.updateValue((key,), tuple(state))


class Pipe:
    """Sends several requests for one map before the first answer is read."""

    def __init__(self, name: str, entries: Any, client: Any, messages: Any) -> None:
        self._name = name
        self._entries = entries
        self._client = client
        self._messages = messages

    @classmethod
    def to(cls, entries: MapState) -> Pipe | None:
        try:
            import pyspark.sql.streaming.proto.StateMessage_pb2 as messages

            inner = entries._mapStateClient
            client = inner._stateful_processor_api_client
            _ = client.sockfile, client._serialize_to_bytes, client._receive_proto_message
            _ = inner.user_key_schema, inner.value_schema, messages.MapStateCall
        except (ImportError, AttributeError):
            return None
        return cls(entries._stateName, inner, client, messages)

    def values(self, keys: Sequence[tuple[Any, ...]]) -> list[Any]:
        requests = [
            self._request(getValue=self._messages.GetValue(userKey=self._key(key))) for key in keys
        ]
        found: list[Any] = []
        self._exchange(requests, lambda answer: found.append(self._row(answer)))
        return found

    def change(self, changes: Sequence[tuple[tuple[Any, ...], tuple[Any, ...] | None]]) -> None:
        self._exchange([self._change(*change) for change in changes], lambda _: None)

    def _change(self, key: tuple[Any, ...], value: tuple[Any, ...] | None) -> bytes:
        if value is None:
            return self._request(removeKey=self._messages.RemoveKey(userKey=self._key(key)))
        text = self._client._serialize_to_bytes(self._entries.value_schema, tuple(value))
        return self._request(
            updateValue=self._messages.UpdateValue(userKey=self._key(key), value=text)
        )

    def _key(self, key: tuple[Any, ...]) -> bytes:
        text: bytes = self._client._serialize_to_bytes(self._entries.user_key_schema, key)
        return text

    def _row(self, answer: bytes) -> Any:
        return self._client._deserialize_from_bytes(answer) if answer else None

    def _request(self, **call: Any) -> bytes:
        messages = self._messages
        request = messages.StateVariableRequest(
            mapStateCall=messages.MapStateCall(stateName=self._name, **call)
        )
        text: bytes = messages.StateRequest(stateVariableRequest=request).SerializeToString()
        return text

    def _exchange(self, requests: Sequence[bytes], use: Callable[[bytes], Any]) -> None:
        for together in _chunks(requests):
            for request in together:
                # As PySpark's own _send_proto_message does, without its flush.
                self._client.sockfile.write(bytes(4) + len(request).to_bytes(4, "big") + request)
            self._client.sockfile.flush()
            for _ in together:
                status, problem, answer = self._client._receive_proto_message()
                if status != 0:
                    raise RuntimeError(f"Spark's state {self._name!r} does not answer: {problem}")
                use(answer)


def _chunks(requests: Sequence[bytes]) -> Iterable[list[bytes]]:
    chunk: list[bytes] = []
    size = 0
    for request in requests:
        if chunk and (len(chunk) == TOGETHER or size + len(request) > TOGETHER_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(request)
        size += len(request)
    if chunk:
        yield chunk
