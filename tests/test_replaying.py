import subprocess
import sys
from pathlib import Path


def test_a_failed_soak_ends_with_how_to_replay_it() -> None:
    program = "import replaying; replaying.end_failures_with('make soak SEED=7'); 1 / 0"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=Path(__file__).parent, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-2:] == [
        "ZeroDivisionError: division by zero",
        "replay it with: make soak SEED=7",
    ]
