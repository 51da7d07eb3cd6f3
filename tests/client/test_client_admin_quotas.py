"""Administration of client quotas, against a real broker."""

from __future__ import annotations

import pytest
from admin_tools import administer, until

from ottla.client.admin.admin import Admin
from ottla.client.admin.quotas import QuotaEntity, QuotaName
from ottla.protocol.errors import ErrorCode

RATES = {"producer_byte_rate": 1_000_000.0, "consumer_byte_rate": 2_000_000.0}


def test_quotas_are_set_found_and_taken_away(bootstrap: str, topic: str) -> None:
    each = QuotaEntity(user=topic, client_id=QuotaName.DEFAULT)
    address = QuotaEntity(ip="10.0.0.1")

    async def work(admin: Admin) -> None:
        wanted = {each: RATES, address: {"connection_creation_rate": 10}}
        assert await admin.alter_client_quotas(wanted) == {each: None, address: None}

        async def are_there() -> bool:
            return (await admin.describe_client_quotas(user=topic)) == {each: RATES}

        await until(are_there)
        assert {each, address} <= set(await admin.describe_client_quotas())
        found = await admin.describe_client_quotas(user=QuotaName.ANY, client_id=QuotaName.DEFAULT)
        assert found[each] == RATES
        assert await admin.describe_client_quotas(user=topic, strict=True) == {}
        gone = {each: dict.fromkeys(RATES), address: {"connection_creation_rate": None}}
        assert await admin.alter_client_quotas(gone) == {each: None, address: None}

        async def are_gone() -> bool:
            return not {each, address} & set(await admin.describe_client_quotas())

        await until(are_gone)

    administer(bootstrap, work)


def test_a_refused_quota_is_told_and_trying_changes_nothing(bootstrap: str, topic: str) -> None:
    user = QuotaEntity(user=topic)

    async def work(admin: Admin) -> None:
        refused = (await admin.alter_client_quotas({user: {"producer_byte_rate": 0}}))[user]
        assert refused is not None
        assert refused.code is ErrorCode.INVALID_REQUEST
        assert "must be greater than 0" in refused.message
        assert await admin.alter_client_quotas({user: RATES}, validate_only=True) == {user: None}
        assert await admin.describe_client_quotas(user=topic) == {}
        with pytest.raises(ValueError, match="ANY is for questions"):
            await admin.alter_client_quotas({QuotaEntity(user=QuotaName.ANY): {}})

    administer(bootstrap, work)
