"""`python -m ottla.sim`: play a scenario with one seed after another, on all cores."""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterator

from ottla.sim.playing import Game, Outcome, play

RUNS_DEFAULT = 1000
FAILURES_MAX = 5
"""The run stops after this many failed seeds."""
RUNS_PER_PROCESS = 40
BAR_WIDTH = 30


def main() -> int:
    arguments = _arguments()
    if os.environ.get("PYTHONHASHSEED") != "0":
        _start_again_with_fixed_hashes()
    first = arguments.seed if arguments.seed is not None else int.from_bytes(os.urandom(4), "big")
    runs = arguments.runs or (1 if arguments.seed is not None else RUNS_DEFAULT)
    game = Game(
        arguments.scenario,
        arguments.nodes,
        arguments.lives,
        arguments.verbose,
        arguments.quorum,
        arguments.compaction,
    )
    if not arguments.verbose:
        logging.disable(logging.CRITICAL)
    try:
        return _play_all([(game, seed) for seed in range(first, first + runs)], arguments.jobs)
    finally:
        logging.disable(logging.NOTSET)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m ottla.sim", description=__doc__)
    parser.add_argument(
        "--scenario",
        choices=("cluster", "single-node"),
        default="cluster",
        help="a cluster in storms (default), or one broker and its many lives",
    )
    parser.add_argument("--seed", type=int, help="the first seed (default: a random one)")
    parser.add_argument("--runs", type=int, help=f"how many seeds (default {RUNS_DEFAULT})")
    parser.add_argument("--jobs", type=int, help="processes (default: one for each core)")
    parser.add_argument("--nodes", type=int, help="nodes of the cluster (default: drawn)")
    parser.add_argument(
        "--quorum",
        choices=("static", "dynamic"),
        help="whether voters of the cluster come and go (default: drawn)",
    )
    parser.add_argument(
        "--compaction",
        choices=("on", "off"),
        help="whether logs of the cluster are compacted (default: drawn)",
    )
    parser.add_argument("--lives", type=int, help="lives of the single broker")
    parser.add_argument("--verbose", action="store_true", help="tell every event as it happens")
    return parser.parse_args()


def _start_again_with_fixed_hashes() -> None:
    """Restart Python with a fixed hash seed.

    Sets of strings iterate by hash, which Python salts anew in every process. A seed must replay in
    another process, so the salt has to be fixed before Python starts.
    """
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    os.execve(sys.executable, [sys.executable, "-m", "ottla.sim", *sys.argv[1:]], environment)


def _play_all(tasks: list[tuple[Game, int]], jobs: int | None) -> int:
    began = time.monotonic()
    failed: list[Outcome] = []
    simulated_s = cpu_s = 0.0
    count = 0
    is_interrupted = False
    print(f"{len(tasks)} seeds from {tasks[0][1]} on", flush=True)
    try:
        for count, outcome in enumerate(_outcomes(tasks, jobs), 1):
            simulated_s += outcome.simulated_s
            cpu_s += outcome.cpu_s
            if outcome.failed:
                failed.append(outcome)
            _show(outcome, count, len(tasks), len(failed), time.monotonic() - began)
            if len(failed) >= FAILURES_MAX:
                break
    except KeyboardInterrupt:
        is_interrupted = True
    print(
        f"{count} runs, {simulated_s / 60:.0f} minutes simulated in "
        f"{time.monotonic() - began:.0f} s; {cpu_s / max(simulated_s / 60, 1e-9):.1f} s of CPU a "
        f"simulated minute; {len(failed)} failed{', interrupted' if is_interrupted else ''}"
    )
    _show_failures(failed)
    return 1 if failed else 130 if is_interrupted else 0


def _show_failures(failed: list[Outcome]) -> None:
    """Print each failure, then the replay commands, so that these stay on the screen."""
    for outcome in failed:
        print(f"seed {outcome.seed}: FAILED: {outcome.text}")
    for outcome in failed:
        print(f"replay it with: {outcome.replay}", flush=True)


def _outcomes(tasks: list[tuple[Game, int]], jobs: int | None) -> Iterator[Outcome]:
    jobs = min(jobs or os.cpu_count() or 1, len(tasks))
    if jobs == 1:
        yield from map(play, tasks)
        return
    with multiprocessing.Pool(
        jobs, _leave_ctrl_c_to_parent, maxtasksperchild=RUNS_PER_PROCESS
    ) as pool:
        yield from pool.imap_unordered(play, tasks)


def _leave_ctrl_c_to_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _show(outcome: Outcome, count: int, total: int, failures: int, seconds: float) -> None:
    """Print each failure, a progress bar on a terminal, and every seed of a short run."""
    if outcome.failed:
        print(outcome.report, flush=True)
    elif total <= FAILURES_MAX or not sys.stderr.isatty():
        print(
            f"seed {outcome.seed}: ok, {outcome.text}, {outcome.simulated_s:.1f} s simulated in "
            f"{outcome.cpu_s:.1f} s, trace {outcome.digest}",
            flush=True,
        )
    if sys.stderr.isatty() and total > 1:
        done = BAR_WIDTH * count // total
        left_s = seconds / count * (total - count)
        bar = f"[{'#' * done}{'.' * (BAR_WIDTH - done)}] {count}/{total}, {failures} failed"
        print(f"\r{bar}, {left_s:.0f} s left ", end="", file=sys.stderr, flush=True)
        if count == total:
            print(file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
