"""Whole stories of classic groups, word by word: what happens, and what everybody is told.

A line at the margin is an event; the indented lines below it are what it causes, and the test runs
the events and compares every word. `->` is an answer, `stored` a record, `is` a new state.

    NAME joins [as INSTANCE] [with PROTOCOL ...]   with the id it was last given, if any
    NAME syncs [NAME=WORK ...]                     the leader's carries the assignments
    NAME beats / NAME leaves / NAME restarts       a restart forgets the id
    N ms pass
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from classic_stage import Call, Stage

from ottla.broker.coordinator.outbox import Outbox
from ottla.protocol.errors import ErrorCode

A_GROUP_FORMS_AND_GROWS = """
ann joins with range
    stored: generation 0, no members
    ann -> MEMBER_ID_REQUIRED: you are ann-1
ann joins with range
    is PreparingRebalance
bob joins with sticky range
    bob -> MEMBER_ID_REQUIRED: you are bob-1
bob joins with sticky range
2999 ms pass
1 ms pass
2999 ms pass
1 ms pass
    ann -> joined generation 1: range, led by ann-1, of ann-1 bob-1
    bob -> joined generation 1: range, led by ann-1
    is CompletingRebalance
bob syncs
bob beats
    bob -> ok
ann syncs ann-1=p0 bob-1=p1
    stored: generation 1, range, led by ann-1, ann-1=p0 bob-1=p1
    ann -> works on p0
    bob -> works on p1
    is Stable
cid joins with range
    cid -> MEMBER_ID_REQUIRED: you are cid-1
cid joins with range
    is PreparingRebalance
ann beats
    ann -> REBALANCE_IN_PROGRESS
ann joins with range
bob joins with sticky range
    ann -> joined generation 2: range, led by ann-1, of ann-1 bob-1 cid-1
    bob -> joined generation 2: range, led by ann-1
    cid -> joined generation 2: range, led by ann-1
    is CompletingRebalance
bob syncs
ann syncs ann-1=p0 bob-1=p1 cid-1=p2
    stored: generation 2, range, led by ann-1, ann-1=p0 bob-1=p1 cid-1=p2
    ann -> works on p0
    bob -> works on p1
    is Stable
cid syncs
    cid -> works on p2
ann leaves
    ann -> left
    is PreparingRebalance
bob joins with sticky range
9999 ms pass
1 ms pass
    bob -> joined generation 3: sticky, led by bob-1, of bob-1
    is CompletingRebalance
bob syncs bob-1=everything
    stored: generation 3, sticky, led by bob-1, bob-1=everything
    bob -> works on everything
    is Stable
cid beats
    cid -> UNKNOWN_MEMBER_ID
bob leaves
    stored: generation 4, no members
    bob -> left
    is Empty
"""

A_STATIC_MEMBER_RESTARTS = """
ann joins as i1 with range
    stored: generation 0, no members
    is PreparingRebalance
bob joins as i2 with range
6000 ms pass
    ann -> joined generation 1: range, led by i1-1, of i1-1 i2-1
    bob -> joined generation 1: range, led by i1-1
    is CompletingRebalance
bob syncs
ann syncs i1-1=p0 i2-1=p1
    stored: generation 1, range, led by i1-1, i1-1=p0 i2-1=p1
    ann -> works on p0
    bob -> works on p1
    is Stable
bob restarts
bob joins as i2 with range
    stored: generation 1, range, led by i1-1, i1-1=p0 i2-2=p1
    bob -> joined generation 1: range, led by i1-1
bob syncs
    bob -> works on p1
ann restarts
ann joins as i1 with range
    stored: generation 1, range, led by i1-2, i2-2=p1 i1-2=p0
    ann -> joined generation 1: range, led by i1-2, of i2-2 i1-2, nothing to assign
ann syncs
    ann -> works on p0
9999 ms pass
bob beats
    bob -> ok
1 ms pass
    is PreparingRebalance
bob joins as i2 with range
    bob -> joined generation 2: range, led by i2-2, of i2-2
    is CompletingRebalance
"""


class Narrator:
    def __init__(self) -> None:
        self.stage = Stage()
        self.stage.on_step = self.note
        self.lines: list[str] = []
        self.short: dict[str, str] = {}
        self.counts: dict[str, int] = {}
        self.ids: dict[str, str] = {}
        self.instances: dict[str, str] = {}
        self.generations: dict[str, int] = {}
        self.state = self.stage.state

    def tell(self, event: str) -> None:
        self.lines.append(event)
        if passed := re.fullmatch(r"(\d+) ms pass", event):
            self.stage.pass_time(int(passed[1]))
            return
        name, verb, *rest = event.split()
        getattr(self, verb)(name, *rest)

    # --- events ---------------------------------------------------------------------------------

    def joins(self, name: str, *words: str) -> None:
        if words[0] == "as":
            self.instances[name], words = words[1], words[2:]
        self.stage.join(
            name, self.ids.get(name, ""), instance=self.instances.get(name), protocols=words[1:]
        )

    def syncs(self, name: str, *pairs: str) -> None:
        long = {short: id for id, short in self.short.items()}
        work = {long[pair.split("=")[0]]: pair.split("=")[1].encode() for pair in pairs}
        member = (self.ids[name], self.generations[name], work)
        self.stage.sync(name, *member, instance=self.instances.get(name))

    def beats(self, name: str) -> None:
        member = (self.ids[name], self.generations[name])
        self.stage.heartbeat(name, *member, instance=self.instances.get(name))

    def leaves(self, name: str) -> None:
        self.stage.leave(name, (self.ids[name], self.instances.get(name)))

    def restarts(self, name: str) -> None:
        del self.ids[name]

    # --- consequences ---------------------------------------------------------------------------

    def note(self, outbox: Outbox) -> None:
        told = sorted(outbox.replies, key=lambda reply: reply[0].sender)
        for call, response in told:
            self.learn(call, response)
        told_text = [f"{call.sender} -> {self.answer(call, response)}" for call, response in told]
        stored = [f"stored: {self.stored(record.value)}" for record in outbox.records]
        self.lines += [f"    {line}" for line in stored + told_text]
        if self.stage.state != self.state:
            self.state = self.stage.state
            self.lines.append(f"    is {self.state}")

    def learn(self, call: Call, response: Any) -> None:
        if call.kind == "join":
            self.ids[call.sender] = response.member_id
            self.generations[call.sender] = response.generation_id
            self.name(response.member_id)

    def name(self, member_id: str) -> str:
        """Random ids are numbered in the order of their appearance."""
        if member_id not in self.short:
            prefix = member_id[:-37]
            self.counts[prefix] = self.counts.get(prefix, 0) + 1
            self.short[member_id] = f"{prefix}-{self.counts[prefix]}"
        return self.short[member_id]

    def answer(self, call: Call, response: Any) -> str:
        error = ErrorCode.of(response.error_code)
        if error is ErrorCode.MEMBER_ID_REQUIRED:
            return f"{error.name}: you are {self.name(response.member_id)}"
        if error:
            return error.name
        if call.kind == "join":
            return self.joined(response)
        if call.kind == "sync":
            return f"works on {response.assignment.decode()}"
        return "left" if call.kind == "leave" else "ok"

    def joined(self, response: Any) -> str:
        members = " ".join(self.name(one.member_id) for one in response.members)
        return (
            f"joined generation {response.generation_id}: {response.protocol_name}, "
            f"led by {self.name(response.leader)}"
            + (f", of {members}" if members else "")
            + (", nothing to assign" if response.skip_assignment else "")
        )

    def stored(self, value: Any) -> str:
        if not value.members:
            return f"generation {value.generation}, no members"
        work = " ".join(f"{self.name(m.member_id)}={m.assignment.decode()}" for m in value.members)
        leader = self.name(value.leader)
        return f"generation {value.generation}, {value.protocol}, led by {leader}, {work}"


@pytest.mark.parametrize("story", [A_GROUP_FORMS_AND_GROWS, A_STATIC_MEMBER_RESTARTS])
def test_the_story_is_told_word_by_word(story: str) -> None:
    narrator = Narrator()
    for line in story.strip().splitlines():
        if not line.startswith(" "):
            narrator.tell(line)
    assert "\n".join(narrator.lines) == story.strip()
