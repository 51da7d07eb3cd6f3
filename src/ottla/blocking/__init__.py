"""The clients of `ottla` for programs without asyncio: the same names, no `await`.

>>> from ottla.blocking import Producer
>>> with Producer(bootstrap_servers="localhost:9092") as producer:
...     print(producer.send("payments", key=b"alice", value=b"200").result().offset)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.lazy import lazily

if TYPE_CHECKING:
    from ottla.blocking.admin import Admin as Admin
    from ottla.blocking.consumer import Consumer as Consumer
    from ottla.blocking.producer import Producer as Producer
    from ottla.blocking.sent import Sent as Sent
    from ottla.blocking.sent import SentRows as SentRows

if not TYPE_CHECKING:  # so that type checkers report names that do not exist
    __getattr__, __dir__ = lazily(__name__)
