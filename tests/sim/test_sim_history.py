"""The checker itself: it accepts what is allowed and names what is not."""

import pytest

from ottla.sim.history import End, PartitionHistory, Violation

LOG = [(0, "w/1"), (1, "w/2"), (2, "w/3"), (3, "w/4")]


def history(flush_messages: int | None, told: int = 4) -> PartitionHistory:
    """Four records sent by one producer, the first `told` acknowledged."""
    made = PartitionHistory("t-0", flush_messages)
    for _, record in LOG:
        made.sending(record)
    made.acknowledged(0, [record for _, record in LOG[:told]])
    return made


@pytest.mark.parametrize("end", list(End))
def test_a_whole_log_is_always_right(end: End) -> None:
    history(1).check(LOG, end)


@pytest.mark.parametrize("end", [End.CLEAN_STOP, End.KILL])
@pytest.mark.parametrize("flush_messages", [None, 1, 3])
def test_without_power_loss_nothing_acknowledged_may_be_missing(
    end: End, flush_messages: int | None
) -> None:
    with pytest.raises(Violation, match="ends at 3 after a"):
        history(flush_messages).check(LOG[:3], end)
    history(flush_messages, told=3).check(LOG[:3], end)


@pytest.mark.parametrize(("flush_messages", "kept"), [(1, 4), (2, 3), (3, 2), (20, 0), (None, 0)])
def test_power_loss_may_take_what_the_flush_setting_leaves_unflushed(
    flush_messages: int | None, kept: int
) -> None:
    history(flush_messages).check(LOG[:kept], End.POWER_LOSS)
    if kept:
        with pytest.raises(Violation, match="promised"):
            history(flush_messages).check(LOG[: kept - 1], End.POWER_LOSS)


def test_what_a_clean_stop_wrote_survives_every_later_crash() -> None:
    made = history(None)
    made.stopped_cleanly()
    with pytest.raises(Violation, match="everything before 4"):
        made.check(LOG[:3], End.POWER_LOSS)


def test_a_lost_tail_is_forgotten_and_its_offsets_may_be_used_again() -> None:
    made = history(None)
    made.check(LOG[:2], End.POWER_LOSS)
    made.sending("w/5")
    made.acknowledged(2, ["w/5"])
    made.check([*LOG[:2], (2, "w/5")], End.KILL)


@pytest.mark.parametrize(
    ("log", "complaint"),
    [
        ([(0, "w/1"), (2, "w/3")], "offset 2 follows 0"),
        ([(1, "w/2")], "offset 1 follows -1"),
        ([*LOG, (4, "w/4")], "w/4 is at 3 and at 4"),
        ([*LOG, (4, "stranger/1")], "never sent"),
        ([(0, "w/2"), (1, "w/1"), *LOG[2:]], "sent later"),
    ],
)
def test_a_log_that_no_crash_explains_is_refused(
    log: list[tuple[int, str]], complaint: str
) -> None:
    with pytest.raises(Violation, match=complaint):
        history(None).check(log, End.POWER_LOSS)


def test_another_record_at_a_told_offset_is_refused() -> None:
    made = PartitionHistory("t-0", 1)
    made.sending("a/1")
    made.sending("b/1")
    made.acknowledged(0, ["a/1"])
    with pytest.raises(Violation, match="b/1 was acknowledged where a/1"):
        made.acknowledged(0, ["b/1"])
    with pytest.raises(Violation, match="b/1 where a/1 was told"):
        made.check([(0, "b/1")], End.KILL)
    with pytest.raises(Violation, match="never sent"):
        made.read(1, "c/1")
