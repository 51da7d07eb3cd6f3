"""Every API that is served has a handler that says how."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import pytest

from ottla.broker.server import handlers
from ottla.broker.server.api_rights import API_RIGHTS
from ottla.broker.server.contract import BROKERS, CONTROLLERS, SERVED, Forward, Handler, handler_of
from ottla.broker.server.dispatch import Dispatcher, serve_on_broker, serve_on_controller
from ottla.protocol.apis import ApiKey, api
from ottla.protocol.codec import decoder
from ottla.protocol.errors import ErrorCode, KafkaError

FORWARDED = {
    *("alter_client_quotas", "create_acls", "delete_acls"),
    *("add_raft_voter", "remove_raft_voter", "describe_quorum", "update_features"),
    *("create_topics", "delete_topics", "create_partitions", "elect_leaders"),
    *("alter_partition_reassignments", "list_partition_reassignments", "unregister_broker"),
    "alter_user_scram_credentials",
}
"""What only the active controller can do, and clients ask brokers for. (A broker checks config
changes first, so their handlers forward them.)"""


@pytest.mark.parametrize("key", SERVED, ids=lambda key: key.name)
def test_the_handler_of_an_api_serves_it_on_its_listeners(key: ApiKey) -> None:
    handler = handler_of(key)
    assert isinstance(handler, Handler)
    assert (handler.on_broker is not None) == (BROKERS in api(key).listeners)
    assert (handler.on_controller is not None) == (CONTROLLERS in api(key).listeners)
    serve_on = {BROKERS: serve_on_broker, CONTROLLERS: serve_on_controller}
    for kind in api(key).listeners:
        parameters = inspect.signature(serve_on[kind](key)).parameters
        assert len(parameters) == 2, "a handler takes the context and the request"


def test_brokers_forward_what_only_the_active_controller_can_do() -> None:
    forwarded = {
        name for key, name in SERVED.items() if isinstance(handler_of(key).on_broker, Forward)
    }
    assert forwarded == FORWARDED
    for key, name in SERVED.items():
        if name in FORWARDED:
            assert {BROKERS, CONTROLLERS} <= set(api(key).listeners)


def test_no_handler_module_is_left_out_of_the_table() -> None:
    folder = Path(handlers.__path__[0])
    public = {path.stem for path in folder.glob("*.py") if not path.stem.startswith("_")}
    with_handler = {
        name
        for name in public
        if hasattr(importlib.import_module(f"ottla.broker.server.handlers.{name}"), "HANDLER")
    }
    assert with_handler == set(SERVED.values())


@pytest.mark.parametrize("key", SERVED, ids=lambda key: key.name)
def test_an_error_of_a_whole_request_is_in_the_answer_of_each_version_or_there_is_none(
    key: ApiKey,
) -> None:
    """A version without the field would encode the error as an empty success."""
    declared = api(key)
    for kind in declared.listeners:
        for version in range(declared.versions[0], declared.versions[1] + 1):
            route = Dispatcher(kind).find(key, version)
            answer = route.error_response(KafkaError(ErrorCode.NOT_CONTROLLER))
            if answer is not None:
                encoded = b"".join(route.encode(answer))
                read, _ = decoder(route.response_class, version)(memoryview(encoded), 0)
                assert read.error_code == ErrorCode.NOT_CONTROLLER, version


def test_every_served_api_says_which_rights_it_asks_for() -> None:
    assert set(SERVED) <= set(API_RIGHTS)
