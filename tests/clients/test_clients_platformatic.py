"""@platformatic/kafka, which speaks only the newest version of every request."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

SCRIPT = Path(__file__).parent / "kafkajs" / "newest.js"


def test_platformatic_produces_fetches_and_administers(
    node_program: str, bootstrap: str, topic: str
) -> None:
    done = subprocess.run(
        [node_program, str(SCRIPT), bootstrap, topic], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr + done.stdout
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen["partitions"] == 2
    assert seen["sent"] == ["1:0", "1:100", "1:200", "1:300"]
    assert seen["keys"][:100] == [str(number) for number in range(100)]
    assert seen["offsets"] == ["0", "400", "7"]
    assert seen["retention"] == "604800000"
    assert seen["left"] is False
