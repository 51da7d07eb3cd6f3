"""What members make of each answer of a coordinator, scripted: real ones would take long for it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from consumer_tools import run
from scripted_group import GROUP, HANG_UP, SILENCE, TOPIC, TOPIC_ID, both, stage

from ottla.client.errors import ClientError, CommitFailed, CommitInterrupted
from ottla.client.values import OffsetAndMetadata, TopicPartition
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, KafkaError

PLACE = TopicPartition(TOPIC, 0)
AT_3 = {PLACE: OffsetAndMetadata(3)}
NEW: dict[str, Any] = {"group_protocol": "consumer"}

JOIN, SYNC, BEAT = ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT
NEW_BEAT, COMMIT, FIND = (
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.OFFSET_COMMIT,
    ApiKey.FIND_COORDINATOR,
)


# Joining a classic group


@pytest.mark.parametrize(
    ("api", "reply"),
    [
        (JOIN, ErrorCode.MEMBER_ID_REQUIRED),
        (JOIN, ErrorCode.UNKNOWN_MEMBER_ID),
        (JOIN, ErrorCode.REBALANCE_IN_PROGRESS),
        (JOIN, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (JOIN, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (JOIN, ErrorCode.NOT_COORDINATOR),
        (JOIN, HANG_UP),
        (SYNC, ErrorCode.REBALANCE_IN_PROGRESS),
        (SYNC, ErrorCode.ILLEGAL_GENERATION),
        (SYNC, ErrorCode.UNKNOWN_MEMBER_ID),
        (SYNC, ErrorCode.NOT_COORDINATOR),
        (SYNC, HANG_UP),
        (FIND, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_joining_goes_on_after_what_may_pass(api: ApiKey, reply: Any) -> None:
    async def main() -> None:
        async with stage() as one:
            one.group.script[api].append(reply)
            if api is FIND:
                one.group.cluster.coordinators.clear()
                asyncio.get_running_loop().call_later(
                    0.2, one.group.cluster.coordinators.setdefault, GROUP, 1
                )
            await one.join()
            assert one.diary.events == [("assigned", [0, 1])]
            if reply in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, HANG_UP):
                assert len(one.group.requests(FIND)) > 1, "the coordinator is looked up anew"
            if reply is ErrorCode.MEMBER_ID_REQUIRED:
                ids = [request.member_id for request in one.group.requests(JOIN)]
                assert ids == ["", "member"]

    run(main)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.INVALID_SESSION_TIMEOUT,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_what_does_not_pass_comes_out_of_the_poll_and_the_next_one_tries_again(
    code: ErrorCode,
) -> None:
    async def main() -> None:
        async with stage() as one:
            one.group.script[JOIN].append(code)
            with pytest.raises(KafkaError) as caught:
                await one.join()
            assert caught.value.code is code
            assert len(str(caught.value)) > len(code.name) + 20
            await one.join()

    run(main)


def test_the_coordinator_may_move_while_members_work() -> None:
    async def main() -> None:
        async with stage(nodes=2) as one:
            await one.join()
            one.group.cluster.coordinators[GROUP] = 2
            one.group.script[BEAT].append(ErrorCode.NOT_COORDINATOR)
            await one.attend_until(lambda: (2, BEAT) in {(n, a) for n, a, _ in one.group.asked})
            await one.membership.commit(AT_3)
            assert one.group.asked[-1][:2] in {(2, COMMIT), (2, BEAT)}
            assert one.diary.events == [("assigned", [0, 1])], "no reason to rebalance"

    run(main)


def test_the_reason_for_joining_and_for_leaving_is_told() -> None:
    async def main() -> None:
        async with stage() as one:
            await one.join()
            one.membership.enforce_rebalance("a new moon")
            await one.attend_until(lambda: one.group.generation == 2)
            assert one.group.requests(JOIN)[-1].reason == "a new moon"
            await one.membership.close(1_000)
            (leaving,) = one.group.requests(ApiKey.LEAVE_GROUP)
            assert leaving.members[0].reason == "the consumer is being closed"

    run(main)


def test_static_members_do_not_leave() -> None:
    async def main() -> None:
        async with stage(group_instance_id="one") as one:
            await one.join()
            assert one.group.requests(JOIN)[0].group_instance_id == "one"
            await one.membership.close(1_000)
            assert not one.group.requests(ApiKey.LEAVE_GROUP)

    run(main)


def test_close_does_not_wait_for_others_to_join() -> None:
    async def main() -> None:
        async with stage() as one:
            await one.join()
            one.group.script[JOIN].append(SILENCE)
            one.membership.enforce_rebalance()
            await one.attend_until(lambda: len(one.group.requests(JOIN)) == 2)
            await asyncio.wait_for(one.membership.close(5_000), 2)
            assert len(one.group.requests(ApiKey.LEAVE_GROUP)) == 1

    run(main)


def test_a_poll_does_not_wait_longer_than_it_was_told_to() -> None:
    async def main() -> None:
        async with stage() as one:
            one.group.script[JOIN].append(SILENCE)
            began = one.runtime.clock.now()
            for _ in range(5):
                await one.membership.attend(one.runtime.clock.now() + 0.02)
            assert one.runtime.clock.now() - began < 0.5

    run(main)


# Heartbeats of a classic member


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (ErrorCode.REBALANCE_IN_PROGRESS, [("revoked", [0, 1])]),
        (ErrorCode.ILLEGAL_GENERATION, [("lost", [0, 1])]),
        (ErrorCode.UNKNOWN_MEMBER_ID, [("lost", [0, 1])]),
    ],
)
def test_a_heartbeat_tells_that_it_is_time_to_join_again(code: ErrorCode, told: list[Any]) -> None:
    async def main() -> None:
        async with stage() as one:
            await one.join()
            one.group.script[BEAT].append(code)
            await one.attend_until(lambda: one.group.generation == 2)
            await one.join()
            assert one.diary.events == [("assigned", [0, 1]), *told, ("assigned", [0, 1])]
            again = one.group.requests(JOIN)[-1]
            kept = code is not ErrorCode.UNKNOWN_MEMBER_ID
            assert again.member_id == ("member" if kept else "")

    run(main)


def test_cooperative_members_keep_their_partitions_while_joining_again() -> None:
    async def main() -> None:
        cooperative = {"partition_assignment_strategy": ["cooperative-sticky"]}
        async with stage(**cooperative) as one:
            await one.join()
            one.group.script[BEAT].append(ErrorCode.REBALANCE_IN_PROGRESS)
            await one.attend_until(lambda: one.group.generation == 2)
            assert one.subscriptions.assigned == both()
            assert not one.diary.told("revoked")

    run(main)


def test_a_fenced_member_is_told_by_its_heartbeat() -> None:
    async def main() -> None:
        async with stage(group_instance_id="one") as one:
            await one.join()
            one.group.script[BEAT].append(ErrorCode.FENCED_INSTANCE_ID)
            with pytest.raises(KafkaError, match="FENCED_INSTANCE_ID"):
                await one.attend_until(lambda: False)

    run(main)


@pytest.mark.parametrize("reply", [HANG_UP, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_heartbeats_survive_a_coordinator_that_goes_and_comes(reply: Any) -> None:
    async def main() -> None:
        async with stage() as one:
            await one.join()
            beats = len(one.group.requests(BEAT))
            one.group.script[BEAT].extend([reply] * 3)
            await one.attend_until(lambda: len(one.group.requests(BEAT)) > beats + 6)
            assert one.diary.events == [("assigned", [0, 1])]

    run(main)


# Metadata


def test_the_leader_shares_out_partitions_that_were_added() -> None:
    async def main() -> None:
        async with stage(metadata_max_age_ms=100) as one:
            await one.join()
            one.group.cluster.topic(TOPIC, [1, 1, 1])
            await one.attend_until(lambda: len(one.subscriptions.assigned) == 3)
            reason = one.group.requests(JOIN)[-1].reason
            assert reason == "the partitions of the group's topics have changed"

    run(main)


# The new protocol


@pytest.mark.parametrize(
    "reply",
    [
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
        HANG_UP,
    ],
)
def test_a_member_of_the_new_protocol_joins_in_spite_of_what_may_pass(reply: Any) -> None:
    async def main() -> None:
        async with stage(**NEW) as one:
            one.group.script[NEW_BEAT].append(reply)
            await one.join()
            ids = {request.member_id for request in one.group.requests(NEW_BEAT)}
            assert len(ids) == 1, "a member makes its id itself, once"
            assert len(ids.pop()) == 22

    run(main)


@pytest.mark.parametrize("code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_fenced_member_of_the_new_protocol_loses_all_and_joins_anew(code: ErrorCode) -> None:
    async def main() -> None:
        async with stage(**NEW) as one:
            await one.join()
            one.group.script[NEW_BEAT].append(code)
            await one.attend_until(lambda: len(one.diary.events) == 3)
            assert one.diary.events == [
                ("assigned", [0, 1]),
                ("lost", [0, 1]),
                ("assigned", [0, 1]),
            ]
            joins = [one for one in one.group.requests(NEW_BEAT) if one.member_epoch == 0]
            assert len(joins) == 2
            assert joins[1].topic_partitions == []
            assert joins[1].subscribed_topic_names == [TOPIC]

    run(main)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.UNRELEASED_INSTANCE_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNSUPPORTED_ASSIGNOR,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REGULAR_EXPRESSION,
    ],
)
def test_what_does_not_pass_comes_out_of_the_poll_in_the_new_protocol_too(code: ErrorCode) -> None:
    async def main() -> None:
        async with stage(**NEW, group_remote_assignor="uniform") as one:
            one.group.script[NEW_BEAT].append(code)
            with pytest.raises(KafkaError) as caught:
                await one.join()
            assert caught.value.code is code
            await one.join()

    run(main)


def test_the_way_to_a_target_revokes_first_and_is_told_at_once() -> None:
    async def main() -> None:
        async with stage(**NEW) as one:
            await one.join()
            one.group.give(1)
            await one.attend_until(lambda: one.subscriptions.assigned == {TopicPartition(TOPIC, 1)})
            one.group.give(0)
            await one.attend_until(lambda: one.subscriptions.assigned == {PLACE})
            await one.attend_until(
                lambda: one.group.requests(NEW_BEAT)[-1].topic_partitions is None
            )
            assert one.diary.events == [
                ("assigned", [0, 1]),
                ("revoked", [0]),
                ("assigned", []),
                ("revoked", [1]),
                ("assigned", [0]),
            ]
            told = [
                [part.partitions for part in request.topic_partitions]
                for request in one.group.requests(NEW_BEAT)
                if request.topic_partitions is not None
            ]
            assert told == [[], [[0, 1]], [[1]], [[0]]]

    run(main)


def test_only_what_has_changed_is_sent_again() -> None:
    async def main() -> None:
        async with stage(**NEW, group_remote_assignor="uniform", client_rack="r1") as one:
            await one.join()
            await one.attend_until(lambda: len(one.group.requests(NEW_BEAT)) > 4)
            first, *_, last = one.group.requests(NEW_BEAT)
            assert (first.server_assignor, first.rack_id) == ("uniform", "r1")
            assert first.rebalance_timeout_ms == 300_000
            assert last.subscribed_topic_names is None
            assert (last.server_assignor, last.rack_id, last.rebalance_timeout_ms) == (
                None,
                None,
                -1,
            )

    run(main)


@pytest.mark.parametrize(("instance", "epoch"), [(None, -1), ("one", -2)])
def test_a_member_of_the_new_protocol_says_goodbye(instance: str | None, epoch: int) -> None:
    async def main() -> None:
        async with stage(**NEW, group_instance_id=instance) as one:
            await one.join()
            await one.membership.close(1_000)
            assert one.group.requests(NEW_BEAT)[-1].member_epoch == epoch
            assert one.diary.events == [("assigned", [0, 1]), ("revoked", [0, 1])]

    run(main)


def test_a_topic_that_is_known_by_its_id_only_is_looked_up() -> None:
    async def main() -> None:
        async with stage(**NEW) as one:
            await one.join()
            other = (2).to_bytes(16, "big")
            one.group.cluster.topic("other", [1], number=2)
            answered = one.group.cluster.metadata

            def by_id(request: Any) -> Any:
                for topic in request.topics or ():
                    if topic.topic_id == other:
                        topic.name = "other"
                return answered(request)

            one.group.cluster.metadata = by_id  # type: ignore[method-assign]
            one.group.give()
            one.group.assignment = {TOPIC_ID: [0, 1], other: [0]}
            await one.attend_until(
                lambda: one.subscriptions.assigned == {*both(), TopicPartition("other", 0)}
            )

    run(main)


# Commits


@pytest.mark.parametrize("options", [{}, NEW], ids=["classic", "new"])
@pytest.mark.parametrize(
    "reply",
    [
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        HANG_UP,
    ],
)
def test_a_commit_is_tried_again_after_what_may_pass(options: Any, reply: Any) -> None:
    async def main() -> None:
        async with stage(**options) as one:
            await one.join()
            one.group.script[COMMIT].extend([reply, reply])
            await one.membership.commit(AT_3)
            assert len(one.group.requests(COMMIT)) == 3

    run(main)


def test_a_commit_gives_up_when_its_time_is_over() -> None:
    async def main() -> None:
        async with stage(default_api_timeout_ms=200) as one:
            await one.join()
            one.group.script[COMMIT].extend([ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 500)
            with pytest.raises(KafkaError, match="the offset of t-0 was not committed"):
                await one.membership.commit(AT_3)

    run(main)


@pytest.mark.parametrize(
    ("code", "error", "rejoins"),
    [
        (ErrorCode.REBALANCE_IN_PROGRESS, CommitInterrupted, True),
        (ErrorCode.ILLEGAL_GENERATION, CommitFailed, True),
        (ErrorCode.UNKNOWN_MEMBER_ID, CommitFailed, True),
        (ErrorCode.FENCED_INSTANCE_ID, KafkaError, False),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, KafkaError, False),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, KafkaError, False),
        (ErrorCode.OFFSET_METADATA_TOO_LARGE, KafkaError, False),
    ],
)
def test_a_commit_that_cannot_be_says_why(
    code: ErrorCode, error: type[Exception], rejoins: bool
) -> None:
    async def main() -> None:
        async with stage() as one:
            await one.join()
            one.group.script[COMMIT].append(code)
            with pytest.raises(error) as caught:
                await one.membership.commit(AT_3)
            if code is ErrorCode.ILLEGAL_GENERATION:
                assert "max_poll_interval_ms" in str(caught.value)
            if rejoins:
                await one.attend_until(lambda: one.group.generation == 2)
            await one.join()
            await one.membership.commit(AT_3)

    run(main)


def test_a_stale_epoch_is_made_good_by_a_heartbeat() -> None:
    async def main() -> None:
        async with stage(**NEW) as one:
            await one.join()
            one.group.script[COMMIT].append(ErrorCode.STALE_MEMBER_EPOCH)
            one.group.epoch = 5
            await one.membership.commit(AT_3)
            epochs = [
                request.generation_id_or_member_epoch for request in one.group.requests(COMMIT)
            ]
            assert epochs[-1] == 5

    run(main)


def test_commits_before_joining_and_after_being_thrown_out_are_refused_here() -> None:
    async def main() -> None:
        async with stage() as one:
            with pytest.raises(CommitFailed, match="no member"):
                await one.membership.commit(AT_3)
            await one.join()
            one.group.script[JOIN].append(SILENCE)
            one.group.script[BEAT].append(ErrorCode.REBALANCE_IN_PROGRESS)
            await one.attend_until(lambda: len(one.group.requests(JOIN)) == 2)
            with pytest.raises(CommitInterrupted, match="commit again"):
                await one.membership.commit(AT_3)
            assert not one.group.requests(COMMIT)

    run(main)


def test_a_commit_in_the_background_is_not_tried_again_and_tells_its_error() -> None:
    told: list[Exception | None] = []

    async def main() -> None:
        async with stage() as one:
            await one.join()
            one.group.script[COMMIT].append(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            one.membership.commit_soon(AT_3, lambda offsets, error: told.append(error))
            await one.attend_until(lambda: told)
            assert len(one.group.requests(COMMIT)) == 1

    run(main)
    assert isinstance(told[0], KafkaError)
    assert told[0].retriable


@pytest.mark.parametrize("options", [{}, NEW], ids=["classic", "new"])
@pytest.mark.parametrize(
    "reply",
    [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR, HANG_UP],
)
def test_committed_offsets_are_asked_for_until_they_come(options: Any, reply: Any) -> None:
    async def main() -> None:
        async with stage(**options) as one:
            await one.join()
            one.group.script[ApiKey.OFFSET_FETCH].append(reply)
            assert await one.membership.committed([PLACE]) == {PLACE: OffsetAndMetadata(7)}
            asked = one.group.requests(ApiKey.OFFSET_FETCH)[-1]
            assert asked.require_stable
            assert asked.groups[0].topics[0].topic_id == TOPIC_ID
            assert (asked.groups[0].member_id is None) == (not options)

    run(main)


def test_what_was_consumed_is_committed_before_partitions_go() -> None:
    """And nothing is given up, told, or joined, before that commit was answered."""

    async def main() -> None:
        async with stage(enable_auto_commit=True, auto_commit_interval_ms=60_000) as one:
            await one.join()
            one.subscriptions.seek(PLACE, 5)
            one.group.script[COMMIT].extend([ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 5)
            one.group.script[BEAT].append(ErrorCode.REBALANCE_IN_PROGRESS)
            await one.attend_until(lambda: one.group.generation == 2)
            apis = [api for _, api, _ in one.group.asked if api in (COMMIT, JOIN)]
            assert apis == [JOIN, *[COMMIT] * 6, JOIN]
            (topic,) = one.group.requests(COMMIT)[-1].topics
            (committed,) = topic.partitions
            assert (committed.partition_index, committed.committed_offset) == (0, 5)

    run(main)


def test_an_error_that_is_not_the_clusters_is_raised_as_it_is() -> None:
    class Broken:
        name = "broken"
        protocols = (0,)

        def subscription_userdata(self, topics: Any, owned: Any) -> bytes | None:
            return None

        def assign(self, view: Any, members: Any) -> Any:
            raise ZeroDivisionError

        def on_assignment(self, assignment: Any, metadata: Any) -> None:
            pass

    async def main() -> None:
        async with stage(partition_assignment_strategy=[Broken()]) as one:
            with pytest.raises(ZeroDivisionError):
                await one.join()

    run(main)


def test_closing_twice_and_closing_what_never_joined() -> None:
    async def main() -> None:
        for options in ({}, NEW):
            async with stage(**options) as one:
                await one.membership.close(100)
                await one.membership.close(100)
                with pytest.raises((CommitFailed, ClientError)):
                    await one.membership.commit(AT_3)

    run(main)
