"""The ten steps of docs/security.md, run as a new user runs them."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.runtime.ports import free_ports

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
SECTION = PAGE.read_text().partition("## From nothing")[2].partition("\n## ")[0]
BLOCKS = re.findall(r"```sh\n(.*?)```", SECTION, re.S)
PORT = re.compile(r"(?<=localhost:)9[01]9(?:\d|\$n)")


def test_there_are_ten_steps() -> None:
    assert len(BLOCKS) == 10
    assert [int(number) for number in re.findall(r"^\*\*(\d+)\.", SECTION, re.M)] == [*range(1, 11)]


@pytest.mark.timeout(180)
def test_ten_steps_lead_to_a_cluster_where_users_do_what_they_may_and_no_more(
    tmp_path: Path,
) -> None:
    ports = iter(free_ports(6))
    chosen = {f"{kind}{n}": str(next(ports)) for kind in ("909", "919") for n in (1, 2, 3)}
    script = "set -e\n" + "".join(BLOCKS)
    # In the settings of each node the port ends with its number.
    for kind in ("909", "919"):
        cases = " ".join(f"{n}) echo {chosen[f'{kind}{n}']};;" for n in (1, 2, 3))
        script = script.replace(f"localhost:{kind}$n", f"localhost:$(case $n in {cases} esac)")
    script = PORT.sub(lambda found: chosen[found[0]], script)
    programs = Path(sys.executable).parent
    output = tmp_path / "output"
    with output.open("wb") as target:
        process = subprocess.Popen(
            ["bash", "-c", f"{script}\nkill $(jobs -p)\nwait"],
            cwd=tmp_path,
            env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "COLUMNS": "200"},
            stdin=subprocess.DEVNULL,
            stdout=target,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(150)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    said = output.read_text()
    assert code == 0, said
    assert re.search("^" + "\n".join(map(str, range(1, 11))) + "$", said, re.M), said
    assert said.count("\nrefused\n") == 2, said
    assert '"event": "denied", "principal": "User:shop", "operation": "DELETE"' in said
    words = [(tmp_path / "secured" / f"{user}.password").read_text() for user in ("admin", "nodes")]
    assert not [word for word in words if word.strip() in said]
