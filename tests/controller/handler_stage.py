"""Handlers on a real metadata log, without sockets, their answers encoded in every version."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.controller.controller import Controller
from ottla.broker.coordinator.producer_ids import ProducerIds
from ottla.broker.coordinator.transactions.settings import transaction_settings
from ottla.broker.membership.controller_requests import ControllerRequests
from ottla.broker.membership.registration import Identity, registration_request
from ottla.broker.metadata.image import Endpoint
from ottla.broker.metadata.log import MetadataLog
from ottla.broker.quotas.mutations import MutationQuotas
from ottla.broker.quotas.settings import QuotaWindows
from ottla.broker.server.caller import Caller
from ottla.broker.server.context import RequestContext
from ottla.broker.server.contract import CONTROLLERS
from ottla.broker.server.dispatch import Dispatcher
from ottla.broker.server.envelopes.serving import EnvelopedRequests
from ottla.broker.server.large_requests import LargeRequests
from ottla.broker.server.local import LocalController
from ottla.broker.storage.log_manager import LogManager
from ottla.config.broker import BrokerConfig
from ottla.protocol.apis import ApiKey, api
from ottla.protocol.codec import decoder, encoder
from ottla.protocol.messages.broker_registration import BrokerRegistrationRequest
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.metadata import MetadataRequestTopic
from ottla.protocol.schema import Message
from ottla.runtime.os_runtime import OsRuntime, run
from ottla.security.principal import ANONYMOUS

NODE_ID = 1


class Admin:
    """A node without sockets: `await admin(key, request)` is the answer a client would decode."""

    def __init__(self, node: Any) -> None:
        self.node = node

    async def __call__(self, key: ApiKey, request: Message | None, version: int = -1) -> Any:
        version = api(key).versions[1] if version < 0 else version
        declared = api(key)
        module = import_module(f"ottla.broker.server.handlers.{declared.module_name}")
        caller = Caller(ANONYMOUS, ("127.0.0.1", 1), "PLAINTEXT")
        context: RequestContext[Any] = RequestContext(key, version, None, caller, self.node)
        answer = module.handle(context, request)
        if inspect.isawaitable(answer):
            answer = await answer
        encoded = b"".join(encoder(declared.response_class(), version)(answer))  # type: ignore[arg-type]
        return decoder(declared.response_class(), version)(encoded, 0)[0]


def with_admin(folder: Path, use: Callable[[Admin], Awaitable[None]], **settings: str) -> None:
    given = {key.replace("_", "."): value for key, value in settings.items()}
    config = BrokerConfig.parse({"log.dirs": f"{folder}/a,{folder}/b", **given})

    async def main(runtime: OsRuntime) -> None:
        manager = LogManager(runtime, config)
        await manager.open()
        metadata = await MetadataLog.open(
            runtime,
            config.metadata_log_dir,
            node_id=NODE_ID,
            cluster_id="cluster",
            config=config,
            clean=True,
            on_failure=lambda error: pytest.fail(f"the metadata log failed: {error!r}"),
        )
        controller = Controller(metadata, config, runtime)
        node = SimpleNamespace(
            metadata=metadata,
            controller=controller,
            config=config,
            node_id=NODE_ID,
            cluster_id="cluster",
            authorizer=None,
            runtime=runtime,
            log_manager=manager,
            replicas=SimpleNamespace(topics={}),
            endpoints=(),
            enveloped=EnvelopedRequests(Dispatcher(CONTROLLERS), LargeRequests(runtime)),
            mutations=MutationQuotas(QuotaWindows.of_controller(config), runtime.clock.now),
        )
        local = node.local_controller = LocalController(node, "CONTROLLER")  # type: ignore[arg-type]
        registered = await controller.register_broker(registration(manager.dirs.directory_ids()))

        async def ask(
            request: Message, read: Callable[[Any], Any] = lambda answer: answer, **_: Any
        ) -> Any:
            return read(await local.ask_for_node(request, None))

        node.controller_link = SimpleNamespace(ask=ask, controller_versions=lambda: None)

        def epoch() -> int:
            return registered.broker_epoch

        node.requests = ControllerRequests(runtime, ask, metadata, config, epoch)
        node.coordinators = SimpleNamespace(
            transactions=SimpleNamespace(settings=transaction_settings(config)),
            producer_ids=ProducerIds(
                ask,
                lambda task: runtime.spawn(task, name="ids"),
                broker_id=NODE_ID,
                broker_epoch=epoch,
            ),
        )
        await use(Admin(node))
        await metadata.close()
        await manager.close()

    run(main)


def registration(directories: list[bytes]) -> BrokerRegistrationRequest:
    endpoints = [Endpoint("PLAINTEXT", "localhost", 9092), Endpoint("OTHER", "elsewhere", 9093)]
    identity = Identity(NODE_ID, "cluster", b"i" * 16, endpoints, "here", directories)
    return registration_request(identity, directories)


async def create(admin: Admin, *names: str, partitions: int = 1) -> None:
    wanted = [
        CreatableTopic(name=n, num_partitions=partitions, replication_factor=1) for n in names
    ]
    answer = await admin(ApiKey.CREATE_TOPICS, CreateTopicsRequest(topics=wanted))
    assert [topic.error_code for topic in answer.topics] == [0] * len(names)


def named(*names: str) -> list[MetadataRequestTopic]:
    return [MetadataRequestTopic(name=name) for name in names]


def versions(key: ApiKey) -> range:
    first, last = api(key).versions
    return range(first, last + 1)
