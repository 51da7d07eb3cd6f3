"""A classic group under clients that do anything at any time, in virtual time.

What must hold after every step, whatever the order of events:

- generations only grow, within one life of the coordinator;
- at most one member is told that it leads a generation, and it is the same for all;
- whoever syncs successfully gets what the leader of that generation assigned to it;
- an old process of a static member never again succeeds, within one life;
- every request is answered at most once, and at once or after a bounded time;
- every member, every waiting request and every phase has a timer that will end it;
- what the log says is what the group was when it was written.
"""

from __future__ import annotations

from typing import Any

from classic_stage import Call, Stage, durable, replayed
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.broker.coordinator.classic.settings import GroupSettings
from ottla.broker.coordinator.classic.state import GroupState
from ottla.broker.coordinator.outbox import Outbox
from ottla.protocol.errors import ErrorCode

NAMES = ("a", "b", "c", "d")
PROTOCOLS = st.lists(st.sampled_from(["x", "y"]), min_size=1, max_size=2, unique=True)
KINDS = (
    *("go on", "go on", "all go on", "all go on", "all but one go on", "all but one go on"),
    *("again", "new metadata", "restart", "leave", "pass", "pass a session", "reload"),
    *("join", "sync", "stale sync", "beat", "old process"),
)
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(KINDS),
        st.sampled_from(NAMES),
        PROTOCOLS,
        st.integers(0, 20_000),
    ),
    min_size=10,
    max_size=60,
)


class Actor:
    """A client: follows the protocol, but when and whether it does is not its choice."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.instance = f"i-{name}" if name in "cd" else None
        self.session_ms = 4_000 if name in "ac" else 15_000
        self.member_id = ""
        self.generation = -1
        self.synced = -2
        """The generation of which it has its assignment."""
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
        self.proposal: dict[str, bytes] = {}
        self.revived: set[str] = set()
        """Members of the last stored generation, whose successors were not yet on record."""
        self.serial = 0

    # --- events ---------------------------------------------------------------------------------

    def act(self, event: str, name: str, protocols: list[str], ms: int) -> None:
        actor = self.actors[name]
        if event == "pass":
            self.stage.pass_time(ms // 5)
        elif event == "pass a session":
            self.stage.pass_time(6_000)
        elif event == "go on":
            self.go_on(actor)
        elif event in ("all go on", "all but one go on"):
            for one in self.actors.values():
                if one is not actor or event == "all go on":
                    self.go_on(one)
            self.stage.pass_time(1_000)
        elif event == "again":
            self.again(actor)
        elif event == "leave":
            self.stage.leave(name, (actor.member_id, actor.instance))
        elif event == "reload":
            self.reload()
        elif event == "restart":
            actor.old_ids.append(actor.member_id)
            actor.member_id, actor.call = "", None
            self.join(actor, ["x", "y"])
        elif event == "old process":
            self.old_process(actor)
        elif actor.busy:
            return
        elif event == "join":
            self.join(actor, ["x"])
        elif event == "new metadata":
            self.join(actor, protocols)
        elif event == "beat":
            self.beat(actor)
        else:
            self.sync(actor, actor.generation - (event == "stale sync"))

    def go_on(self, actor: Actor) -> None:
        """Do what a client does next that follows the protocol."""
        if actor.busy:
            return
        last, actor.call = actor.call, None
        if last is not None and last.kind == "sync" and not last.error:
            actor.synced = actor.generation
        elif last is not None and last.kind == "join" and not last.error:
            self.sync(actor, actor.generation)
            return
        if actor.member_id and actor.synced == actor.generation and not self.beat(actor):
            return
        actor.synced = -2
        self.join(actor, ["x"])

    def beat(self, actor: Actor) -> ErrorCode:
        call = self.stage.heartbeat(
            actor.name, actor.member_id, actor.generation, instance=actor.instance
        )
        self.note(actor, call)
        return call.error

    def again(self, actor: Actor) -> None:
        """The connection broke, and the client repeats its request on another one."""
        if actor.call is not None and actor.call.waits:
            if actor.call.kind == "join":
                self.join(actor, ["x"])
            else:
                self.sync(actor, actor.generation)

    def join(self, actor: Actor, protocols: list[str]) -> None:
        call = self.stage.join(
            actor.name,
            actor.member_id,
            instance=actor.instance,
            protocols=protocols,
            version=self.version,
            session_ms=actor.session_ms,
            rebalance_ms=9_000,
        )
        actor.call = call
        self.note(actor, call)

    def sync(self, actor: Actor, generation: int) -> None:
        self.proposal = {}
        if actor.leads:
            self.serial += 1
            self.proposal = {
                member_id: f"{self.serial} {member_id}".encode()
                for member_id in self.stage.group.members.by_id
            }
        call = self.stage.sync(
            actor.name, actor.member_id, generation, self.proposal, instance=actor.instance
        )
        actor.call = call
        self.note(actor, call)

    def old_process(self, actor: Actor) -> None:
        """A process that was replaced does not know it yet."""
        if actor.instance is None or not actor.old_ids or not actor.member_id:
            return
        current = {actor.member_id, *self.revived}
        old = next((id for id in reversed(actor.old_ids) if id not in current), "")
        generation = self.stage.group.generation
        calls = [
            self.stage.heartbeat(actor.name, old, generation, instance=actor.instance),
            self.stage.sync(actor.name, old, generation, {old: b"!"}, instance=actor.instance),
        ]
        if old:
            calls.append(self.stage.join(actor.name, old, instance=actor.instance))
        for call in calls:
            assert call.error is not ErrorCode.NONE
        check = self.stage.group.validate_offset_commit(old, actor.instance, generation)
        assert check in (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNKNOWN_MEMBER_ID)

    def reload(self) -> None:
        """Who waits learns from its connection; nothing is known of the life before."""
        for actor in self.actors.values():
            actor.call = None
        self.stage.calls.clear()
        self.generation = 0
        self.leaders.clear()
        self.assigned.clear()
        self.stage.reload()
        group = self.stage.group
        self.revived = set(group.members.by_id)
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
            assert answer.assignment == self.work_of(actor)
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
        if actor.leads:
            known = self.leaders.setdefault(actor.generation, actor.member_id)
            assert known == actor.member_id

    def work_of(self, actor: Actor) -> bytes:
        """What the leader gave it, under the id that it had then."""
        work = self.assigned[self.stage.group.generation]
        for member_id in (actor.member_id, *reversed(actor.old_ids)):
            if member_id in work:
                return work[member_id]
        return b""

    # --- what must hold -------------------------------------------------------------------------

    def look(self, outbox: Outbox) -> None:
        group = self.stage.group
        assert group.generation >= self.generation
        self.generation = group.generation
        if group.state is GroupState.STABLE and group.generation not in self.assigned:
            self.assigned[group.generation] = self.proposal
        for call, response in outbox.replies:
            assert len(call.answers) == 1
            actor = self.actors[call.sender]
            if call.kind == "join" and response.member_id:
                actor.old_ids.append(response.member_id)
            if actor.call is call:
                self.note(actor, call)
        self.look_at_timers()
        self.look_at_members()
        if outbox.records:
            assert durable(replayed(self.stage.log, self.stage.settings)) == self.as_stored()
        elif group.state is GroupState.STABLE:
            assert durable(replayed(self.stage.log[-1:], group.settings)) == durable(group)

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
        syncs = ("classic", "g", "sync") in timers
        assert syncs or group.state is not GroupState.COMPLETING_REBALANCE
        assert not syncs or group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE)
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
        play.act(event, name, ["x", "y"], ms)
    assert settle(play, order), "the group does not settle"
    group = play.stage.group
    assert {actor.generation for actor in play.actors.values()} == {group.generation}
    assert {actor.member_id for actor in play.actors.values()} == set(group.members.by_id)
    assert len([actor for actor in play.actors.values() if actor.leads]) <= 1


def settle(play: Play, order: list[str]) -> bool:
    """Let the clients do what real ones do, a second at a time, for five minutes at most."""
    for _ in range(300):
        for name in order:
            play.go_on(play.actors[name])
        play.stage.pass_time(1_000)
        group = play.stage.group
        synced = {actor.synced for actor in play.actors.values()}
        # Ids of processes that restarted stay until their sessions end.
        ghosts = group.members.by_id.keys() - {one.member_id for one in play.actors.values()}
        if group.state is GroupState.STABLE and synced == {group.generation} and not ghosts:
            return True
    return False
