"""Makes docs/images/running.svg and demo.svg: real sessions, as a terminal shows them.

python scripts/picture.py
python scripts/picture.py demo      (needs Spark)
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "images"
OTTLA = ROOT / ".venv" / "bin" / "ottla"
WIDTH = 96

SESSION = (
    "ottla topics create payments --partitions 3",
    "printf 'alice=200\\nbob=350\\nalice=120\\n' | ottla produce payments --key-separator =",
    "ottla consume payments --from earliest --exit-at-end --format json",
    "ottla offsets payments",
)


def main() -> None:
    if sys.argv[1:] == ["demo"]:
        draw("demo", [("make demo", run("ottla demo --seconds 45"))])
        return
    with tempfile.TemporaryDirectory() as folder:
        broker = subprocess.Popen(
            [OTTLA, "start", "--data", "data", "--listener", "localhost:9092"],
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
        )
        assert broker.stdout is not None
        try:
            ready = broker.stdout.readline().replace(folder, "/home/me")
            draw("running", [("make run", ready), *((one, run(one)) for one in SESSION)])
        finally:
            broker.terminate()
            broker.wait(10)


def run(command: str) -> str:
    environment = os.environ | {
        "COLUMNS": str(WIDTH),
        "PATH": f"{OTTLA.parent}:{os.environ['PATH']}",
    }
    done = subprocess.run(
        command, shell=True, env=environment, check=True, text=True, capture_output=True
    )
    return done.stdout + done.stderr


def draw(name: str, steps: list[tuple[str, str]]) -> None:
    console = Console(record=True, width=WIDTH, file=open(os.devnull, "w"))  # noqa: SIM115
    for command, shown in steps:
        prompt(console, command)
        console.print(Text(shown))
    PICTURES.mkdir(exist_ok=True)
    # The fonts of the reader's machine will do: a picture must not fetch anything.
    picture = re.sub(r"@font-face \{.*?\}", "", console.export_svg(title="Ottla"), flags=re.DOTALL)
    (PICTURES / f"{name}.svg").write_text(re.sub(r"<!--.*?-->", "", picture, flags=re.DOTALL))


def prompt(console: Console, command: str) -> None:
    console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))


if __name__ == "__main__":
    main()
