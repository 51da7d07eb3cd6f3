"""Connection limits: in all, for one address, and for named addresses."""

from ottla.broker.server.connections.limits import ConnectionLimits, total_within


def test_an_address_may_have_only_so_many_connections_and_gets_room_back() -> None:
    limits = ConnectionLimits(total_max=10, per_address_max=2, overrides={})
    assert limits.admit("a") is None
    assert limits.admit("a") is None
    assert "max.connections.per.ip" in str(limits.admit("a"))
    assert limits.admit("b") is None
    limits.leave("a")
    assert limits.admit("a") is None


def test_an_override_holds_for_its_address_only() -> None:
    limits = ConnectionLimits(10, 1, {"127.0.0.1": 2, "::1": 0})
    assert limits.admit("127.0.0.1") is None
    assert limits.admit("127.0.0.1") is None
    assert limits.admit("127.0.0.1")
    assert limits.admit("::1"), "zero connections are allowed"


def test_the_total_is_full_when_it_is_reached() -> None:
    limits = ConnectionLimits(2, 100, {})
    limits.admit("a")
    assert not limits.is_full
    limits.admit("b")
    assert limits.is_full
    limits.leave("a")
    assert not limits.is_full


def test_connections_never_take_the_descriptors_that_the_logs_need() -> None:
    assert total_within(2**31 - 1, open_files_max=256) == 128
    assert total_within(2**31 - 1, open_files_max=1_048_576) == 1_048_576 - 65_536
    assert total_within(100, open_files_max=1_048_576) == 100
