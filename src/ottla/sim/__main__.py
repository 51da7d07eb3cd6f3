"""`python -m ottla.sim`: play the scenarios with one seed after another until one fails."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
import traceback

RUNS_DEFAULT = 20
LIVES_DEFAULT = 6
LINES_SHOWN = 60


def main() -> int:
    arguments = _arguments()
    if os.environ.get("PYTHONHASHSEED") != "0":
        _start_again_with_fixed_hashes()
    first = arguments.seed if arguments.seed is not None else int.from_bytes(os.urandom(4), "big")
    runs = arguments.runs or (1 if arguments.seed is not None else RUNS_DEFAULT)
    if not arguments.verbose:
        logging.disable(logging.CRITICAL)
    try:
        seeds = range(first, first + runs)
        return 0 if all(_play(s, arguments.lives, arguments.verbose) for s in seeds) else 1
    finally:
        logging.disable(logging.NOTSET)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m ottla.sim", description=__doc__)
    parser.add_argument("--seed", type=int, help="the first seed (default: a random one)")
    parser.add_argument("--runs", type=int, help=f"how many seeds (default {RUNS_DEFAULT})")
    parser.add_argument(
        "--lives", type=int, default=LIVES_DEFAULT, help="lives of the broker in each run"
    )
    parser.add_argument("--verbose", action="store_true", help="tell every event as it happens")
    return parser.parse_args()


def _start_again_with_fixed_hashes() -> None:
    """Sets of texts iterate by hash, which Python salts anew in every process unless told not to.

    A seed must replay in another process, so the salt has to be fixed, and before Python starts.
    """
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    os.execve(sys.executable, [sys.executable, "-m", "ottla.sim", *sys.argv[1:]], environment)


def _play(seed: int, lives: int, verbose: bool) -> bool:
    from ottla.sim.scenarios import single_node
    from ottla.sim.world import World

    world = World(seed, time_limit_s=36_000, tell=print if verbose else None)
    began = time.monotonic()
    try:
        summary = single_node.play(seed, lives=lives, world=world)
    except Exception as error:
        _report(seed, lives, error, list(world.trace.lines)[-LINES_SHOWN:])
        return False
    print(
        f"seed {seed}: ok, {summary}, {world.loop.time():.1f} s simulated in "
        f"{time.monotonic() - began:.1f} s, trace {world.trace.digest()[:12]}",
        flush=True,
    )
    return True


def _report(seed: int, lives: int, error: Exception, lines: list[str]) -> None:
    print("\n".join(lines))
    traceback.print_exception(error)
    print(f"seed {seed}: FAILED: {error}")
    replay = f"make sim SEED={seed}"
    if lives != LIVES_DEFAULT:
        replay = f"python -m ottla.sim --seed {seed} --lives {lives}"
    print(f"replay it with: {replay}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
