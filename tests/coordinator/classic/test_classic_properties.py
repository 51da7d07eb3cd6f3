"""A classic group under clients that do anything at any time, in virtual time.

What must hold after every step, whatever the order of events:

- generations only grow, within one life of the coordinator;
- at most one member is told that it leads a generation, and it is the same for all;
- whoever syncs successfully gets what the leader of that generation assigned to it;
- an old process of a static member never again succeeds;
- every request is answered at most once, and at once or after a bounded time;
- every member, every waiting request and every phase has a timer that will end it;
- what the log says is what the group was when it was written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from classic_stage import Call, Stage, durable, replayed
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.coordinator.classic.settings import GroupSettings
from ottla.coordinator.classic.state import GroupState
from ottla.coordinator.outbox import Outbox
from ottla.protocol.errors import ErrorCode

NAMES = ("a", "b", "c", "d")
PROTOCOLS = st.lists(st.sampled_from(["x", "y"]), min_size=1, max_size=2, unique=True)
KINDS = (
    *("join", "join", "restart", "sync", "sync", "beat", "leave", "pass", "pass", "reload"),
    *("stale sync", "old process"),
)
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(KINDS),
        st.sampled_from(NAMES),
        PROTOCOLS,
        st.integers(0, 20_000),
    ),
    max_size=60,
)


class Actor:
    """A client: follows the protocol, but when and whether it does is not its choice."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.instance = f"i-{name}" if name in "cd" else None
        self.member_id = ""
        self.generation = -1
        self.leads = False
        self.old_ids: list[str] = []
        self.call: Call | None = None

    @property
    def busy(self) -> bool:
        return self.call is not None and self.call.waits


class Play:
    def __init__(self, limits: GroupSettings, version: int) -> None:
        self.stage = Stage(limits)
        self.stage.on_step = self.look
        self.version = version
        self.actors = {name: Actor(name) for name in NAMES}
        self.leaders: dict[int, str] = {}
        self.assigned: dict[int, dict[str, bytes]] = {}
        self.generation = 0
        self.serial = 0
        self.life = 0

    # --- events ---------------------------------------------------------------------------------

    def act(self, event: str, name: str, protocols: list[str], ms: int) -> None:
        actor = self.actors[name]
        if event == "pass":
            self.stage.pass_time(ms)
        elif event == "reload":
            self.reload()
        elif event == "restart":
            actor.old_ids.append(actor.member_id)
            actor.member_id, actor.call = "", None
            self.join(actor, protocols)
        elif event == "old process":
            self.old_process(actor)
        elif actor.busy:
            return
        elif event == "join":
            self.join(actor, protocols)
        elif event == "beat":
            self.note(
                actor,
                self.stage.heartbeat(
                    name, actor.member_id, actor.generation, instance=actor.instance
                ),
            )
        elif event == "leave":
            self.stage.leave(name, (actor.member_id, actor.instance))
        else:
            self.sync(actor, actor.generation - (event == "stale sync"))

    def join(self, actor: Actor, protocols: list[str]) -> None:
        call = self.stage.join(
            actor.name,
            actor.member_id,
            instance=actor.instance,
            protocols=protocols,
            version=self.version,
            session_ms=6_000,
            rebalance_ms=9_000,
        )
        actor.call = call
        self.note(actor, call)

    def sync(self, actor: Actor, generation: int) -> None:
        work = {}
        if actor.leads:
            self.serial += 1
            work = {
                member_id: f"{self.serial} {member_id}".encode()
                for member_id in self.stage.group.members.by_id
            }
        before = self.stage.group.state
        call = self.stage.sync(
            actor.name, actor.member_id, generation, work, instance=actor.instance
        )
        actor.call = call
        leader = self.stage.group.members.leader_id
        decided = before is not self.stage.group.state is GroupState.STABLE
        if decided:
            assert actor.member_id == leader
            self.assigned[generation] = work
        self.note(actor, call)

    def old_process(self, actor: Actor) -> None:
        """A process that was replaced does not know it yet."""
        if actor.instance is None or not actor.old_ids or not actor.member_id:
            return
        old = actor.old_ids[-1]
        generation = self.stage.group.generation
        calls = [
            self.stage.heartbeat(actor.name, old, generation, instance=actor.instance),
            self.stage.sync(actor.name, old, generation, {old: b"!"}, instance=actor.instance),
        ]
        if old:
            calls.append(self.stage.join(actor.name, old, instance=actor.instance))
        for call in calls:
            assert call.error in (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNKNOWN_MEMBER_ID)
        check = self.stage.group.validate_offset_commit(old, actor.instance, generation)
        assert check in (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNKNOWN_MEMBER_ID)

    def reload(self) -> None:
        """Who waits learns from its connection; nothing is known of the life before."""
        for actor in self.actors.values():
            actor.call = None
        self.stage.calls.clear()
        self.generation = 0
        self.life += 1
        self.leaders.clear()
        self.assigned.clear()
        self.stage.reload()
        group = self.stage.group
        self.assigned[group.generation] = {
            member.member_id: member.assignment for member in group.members
        }

    # --- what clients learn ---------------------------------------------------------------------

    def note(self, actor: Actor, call: Call) -> None:
        """Take in an answer that may come now or in a later step."""
        if call.waits:
            return
        answer = call.answer
        error = call.error
        if call.kind == "join":
            if error in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
                actor.member_id = answer.member_id
            if error is ErrorCode.NONE:
                self.note_joined(actor, answer)
        elif call.kind == "sync" and error is ErrorCode.NONE:
            work = self.assigned[self.stage.group.generation]
            assert answer.assignment == work.get(actor.member_id, b"")
        if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            actor.member_id, actor.generation, actor.leads = "", -1, False

    def note_joined(self, actor: Actor, answer: Any) -> None:
        assert answer.generation_id == self.stage.group.generation
        actor.generation = answer.generation_id
        actor.leads = answer.leader == answer.member_id and not answer.skip_assignment
        if answer.members:
            listed = {one.member_id for one in answer.members}
            assert answer.leader == answer.member_id
            assert listed == set(self.stage.group.members.by_id)

    # --- what must hold -------------------------------------------------------------------------

    def look(self, outbox: Outbox) -> None:
        group = self.stage.group
        assert group.generation >= self.generation
        self.generation = group.generation
        for call, _ in outbox.replies:
            assert len(call.answers) == 1
            actor = self.actors.get(call.sender)
            if actor is not None and actor.call is call:
                if call.kind == "sync" and not call.error:
                    self.note_assigned(group.generation)
                self.note(actor, call)
        self.look_at_timers()
        self.look_at_members()
        if outbox.records:
            assert durable(replayed(self.stage.log, self.stage.settings)) == self.as_stored()

    def note_assigned(self, generation: int) -> None:
        members = self.stage.group.members
        given = {member.member_id: member.assignment for member in members}
        self.assigned.setdefault(generation, given)
        if set(given) == set(self.assigned[generation]):
            assert self.assigned[generation] == given
        else:  # a static member came back under another id
            self.assigned[generation] = given

    def as_stored(self) -> dict[str, Any]:
        """The first record of a group says only that it exists."""
        state = durable(self.stage.group)
        if len(self.stage.log) == 1:
            state |= {"state": GroupState.EMPTY, "members": {}, "leader": None}
            state |= {"protocol type": None}
        return state

    def look_at_timers(self) -> None:
        group, timers = self.stage.group, self.stage.timers
        waiting = group.members.joining.keys() | group.members.syncing.keys()
        for member in group.members:
            key = ("classic", "g", "heartbeat", member.member_id)
            assert key in timers or (member.member_id in waiting and not member.is_new)
        for pending in group.members.pending:
            assert ("classic", "g", "heartbeat", pending) in timers
        gathering = group.state is GroupState.PREPARING_REBALANCE
        assert (("classic", "g", "join") in timers) == gathering
        if group.state is GroupState.COMPLETING_REBALANCE:
            assert ("classic", "g", "sync") in timers
        alive = {*group.members.by_id, *group.members.pending}
        for key in timers:
            assert key[2] != "heartbeat" or key[3] in alive, f"{key} is nobody's"  # type: ignore[index]

    def look_at_members(self) -> None:
        group = self.stage.group
        members = group.members
        assert (members.leader_id in members) == bool(len(members))
        assert set(members.static_ids.values()) <= set(members.by_id)
        assert members.joining.keys() <= members.by_id.keys()
        assert members.syncing.keys() <= members.by_id.keys()
        if group.state is not GroupState.PREPARING_REBALANCE:
            assert not members.joining
        if group.state is not GroupState.COMPLETING_REBALANCE:
            assert not members.syncing
        assert group.is_empty == (
            not len(members) and group.state is not GroupState.PREPARING_REBALANCE
        )
        assert len(members) <= max(group.settings.members_max, len(NAMES))


@settings(deadline=None, max_examples=300)
@given(
    events=EVENTS,
    version=st.sampled_from([3, 9]),
    delay_ms=st.sampled_from([0, 3_000]),
    members_max=st.sampled_from([2, 100]),
)
def test_any_order_of_events(
    events: list[tuple[str, str, list[str], int]], version: int, delay_ms: int, members_max: int
) -> None:
    limits = GroupSettings(
        initial_rebalance_delay_ms=delay_ms,
        members_max=members_max,
        new_member_join_timeout_ms=20_000,
    )
    play = Play(limits, version)
    for event in events:
        play.act(*event)
    # Everybody falls silent: every request ends, and nobody stays.
    play.stage.pass_time(60_000)
    assert [call for call in play.stage.calls if call.waits] == []
    assert play.stage.group.state is GroupState.EMPTY
    assert play.stage.timers == {}


@settings(deadline=None, max_examples=100)
@given(
    events=EVENTS,
    delay_ms=st.sampled_from([0, 3_000]),
    order=st.permutations(NAMES),
)
def test_clients_that_behave_always_end_up_in_one_stable_generation(
    events: list[tuple[str, str, list[str], int]], delay_ms: int, order: list[str]
) -> None:
    """Whatever happened before, once all clients follow the protocol nobody is stuck."""
    play = Play(GroupSettings(initial_rebalance_delay_ms=delay_ms), 9)
    for event, name, _, ms in events:
        play.act(event, name, ["x"], ms)
    assert settle(play, order), "the group does not settle"
    group = play.stage.group
    assert {actor.generation for actor in play.actors.values()} == {group.generation}
    assert {actor.member_id for actor in play.actors.values()} == set(group.members.by_id)
    assert len([actor for actor in play.actors.values() if actor.leads]) <= 1


def settle(play: Play, order: list[str]) -> bool:
    """Let the clients do what real ones do, a second at a time, for five minutes at most."""
    ready: dict[str, int] = {}
    for _ in range(300):
        for name in order:
            follow_protocol(play, play.actors[name], ready)
        play.stage.pass_time(1_000)
        stable = play.stage.group.state is GroupState.STABLE
        generation = play.stage.group.generation
        if stable and [ready.get(name) for name in NAMES] == [generation] * len(NAMES):
            return True
    return False


def follow_protocol(play: Play, actor: Actor, ready: dict[str, int]) -> None:
    if actor.busy:
        return
    last, actor.call = actor.call, None
    if last is not None and last.kind == "sync" and not last.error:
        ready[actor.name] = actor.generation
    elif last is not None and last.kind == "join" and not last.error:
        play.sync(actor, actor.generation)
        return
    if ready.get(actor.name) == actor.generation and actor.member_id:
        beat = play.stage.heartbeat(
            actor.name, actor.member_id, actor.generation, instance=actor.instance
        )
        play.note(actor, beat)
        if not beat.error:
            return
    ready.pop(actor.name, None)
    play.join(actor, ["x"])


def test_the_play_finds_a_group_that_forgets_a_request() -> None:
    """The check itself: take away the timer that ends a rebalance, and it complains."""
    play = Play(GroupSettings(), 9)
    play.join(play.actors["a"], ["x"])
    play.join(play.actors["a"], ["x"])
    play.stage.timers.clear()

    def look() -> None:
        play.look_at_timers()

    assert raises(look)


def raises(what: Callable[[], None]) -> bool:
    try:
        what()
    except AssertionError:
        return True
    return False
