"""Error texts that contain others: each sentence has one mark at its end."""

from __future__ import annotations

import logging
import re

import pytest

from ottla.cli.failure import explain
from ottla.client.errors import (
    BadResponse,
    ClientError,
    ConnectionLost,
    NoBrokerReachable,
    TransactionFailed,
    TransactionFatal,
    Unreachable,
    continued,
)
from ottla.client.network.silence import SilentAddresses
from ottla.runtime.os_runtime import OsRuntime, run

ADDRESS = ("localhost", 9092)
QUESTION = "a listener that wants TLS does so: is security_protocol right?"
TWO_MARKS = re.compile(r"[?.!][.;,:]")


@pytest.mark.parametrize("text", ["is it right?", "It is.", "so it is"])
def test_a_text_gets_a_mark_only_if_it_has_none(text: str) -> None:
    joined = continued(text, "More", ";")
    assert joined == {"so it is": "so it is; More"}.get(text, f"{text} More")


@pytest.mark.parametrize("cause", [QUESTION, "The broker says so.", "refused"])
def test_no_error_ends_a_sentence_twice(cause: str) -> None:
    lost = ConnectionLost(ADDRESS, cause)
    errors: list[ClientError] = [
        NoBrokerReachable([lost]),
        NoBrokerReachable([lost, Unreachable(ADDRESS, cause)]),
        Unreachable(ADDRESS, cause),
        BadResponse(ADDRESS, cause),
        TransactionFailed("id", lost),
        TransactionFatal("id", cause),
    ]
    for error in errors:
        for text in (str(error), explain(error) or ""):
            assert not TWO_MARKS.search(text), text


def test_a_silent_address_is_logged_without_two_marks(caplog: pytest.LogCaptureFixture) -> None:
    async def main(runtime: OsRuntime) -> None:
        with SilentAddresses(runtime).watch(ADDRESS):
            raise Unreachable(ADDRESS, QUESTION)

    with caplog.at_level(logging.WARNING, "ottla.client"), pytest.raises(Unreachable):
        run(main)
    assert caplog.messages == [f"cannot connect to localhost:9092: {QUESTION} still trying"]
