"""The life of a pipeline's process as others see it, and processes told apart."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.pipelines import control, processes
from ottla.pipelines.errors import PipelineError, UnknownPipeline
from ottla.pipelines.folders import PipelineFolder, PipelineState, Spec, find_pipeline
from ottla.pipelines.states import NEXT, VANISHED, Record, State


def test_a_process_that_vanished_has_failed_unless_it_was_asked_to_stop() -> None:
    for state in State:
        record = Record(state, 1.0, 5, "x")
        assert record.seen(is_alive=True) == record
        seen = record.seen(is_alive=False)
        if state in (State.STARTING, State.RUNNING):
            assert (seen.state, seen.error) == (State.FAILED, VANISHED)
        elif state is State.STOPPING:
            assert seen.state is State.STOPPED
        else:
            assert seen == record


def test_only_the_moves_of_the_table_are_made() -> None:
    for state in State:
        for other in State:
            record = Record(state, 1.0)
            if other in NEXT[state]:
                assert record.moved(other, 2.0).state is other
            else:
                with pytest.raises(ValueError, match=f"{state} cannot become {other}"):
                    record.moved(other, 2.0)


def test_a_record_survives_being_written_down() -> None:
    record = Record(State.FAILED, 1.5, 7, "b:1", 8, "b:2", "why")
    assert Record.from_json(record.as_json()) == record


def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)


def test_a_signal_reaches_the_process_meant_and_no_other_with_its_pid() -> None:
    with sleeper() as child:
        identity = processes.identity_of(child.pid)
        assert identity is not None
        assert identity != processes.identity_of(os.getpid())
        assert not processes.send(child.pid, identity + "0", signal.SIGKILL)
        assert child.poll() is None
        assert processes.send(child.pid, identity, signal.SIGTERM)
        assert child.wait(10) == -signal.SIGTERM
    assert processes.identity_of(child.pid) is None
    assert not processes.send(child.pid, identity, signal.SIGTERM)


def test_a_lock_is_handed_on_and_let_go_by_the_kernel(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    lock = processes.Lock.take(file)
    assert lock is not None
    assert processes.Lock.take(file) is None
    child = subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=[lock.descriptor]
    )
    lock.release()
    assert processes.is_locked(file)
    child.kill()
    child.wait(10)
    assert not processes.is_locked(file)
    assert child.stdin is not None
    child.stdin.close()


def make(root: Path, state: Record | None) -> PipelineFolder:
    folder = PipelineFolder(root, "orders")
    folder.write_state(PipelineState(current=1))
    folder.version(1).write_spec(Spec("orders", 1, "/x/orders.yaml", "orders.yaml"))
    if state:
        folder.version(1).write_record(state)
    return folder


def test_what_is_shown_is_the_truth_after_the_machine_went_down(tmp_path: Path) -> None:
    folder = make(tmp_path, Record(State.RUNNING, 1.0, os.getpid(), "another boot:5"))
    record = folder.current().record()
    assert (record.state, record.error) == (State.FAILED, VANISHED)
    lock = processes.Lock.take(folder.current().lock)
    assert lock is not None
    assert folder.current().record().state is State.RUNNING
    lock.release()


def test_a_damaged_or_unknown_pipeline_is_told(tmp_path: Path) -> None:
    folder = make(tmp_path, None)
    assert find_pipeline(tmp_path, "orders").current().record().state is State.STOPPED
    with pytest.raises(UnknownPipeline, match="no pipeline 'order'; there are: orders"):
        find_pipeline(tmp_path, "order")
    with pytest.raises(PipelineError, match="is no name"):
        find_pipeline(tmp_path, "../orders")
    (folder.path / "pipeline.json").write_text("{")
    with pytest.raises(PipelineError, match=r"pipeline\.json is damaged"):
        folder.current()


def test_a_file_does_not_take_the_place_of_another_by_its_name_alone(tmp_path: Path) -> None:
    make(tmp_path / "state", None)
    file = tmp_path / "orders.yaml"
    file.write_text("source: orders\nsink: {path: lake}\n")
    spec = Spec("", 1, "", "")
    with pytest.raises(PipelineError, match=r"is that of /x/orders\.yaml: choose another --name"):
        control.prepare(tmp_path / "state", file, None, spec)
    folder = control.prepare(tmp_path / "state", file, "orders", spec)
    found = folder.current().spec()
    assert (found.name, found.file, found.entry) == ("orders", str(file), "orders.yaml")
    assert (folder.current().app / "orders.yaml").read_text() == file.read_text()
    assert (folder.current().path / "spec.json").stat().st_mode & 0o777 == 0o600


def test_the_second_version_writes_beside_the_first() -> None:
    assert Spec("a", 1, "", "").suffix == ""
    assert Spec("a", 3, "", "").suffix == "-v3"
