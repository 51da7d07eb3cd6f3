"""Makes docs/images/running.svg and demo.svg: pictures of real terminal sessions.

python scripts/picture.py
python scripts/picture.py demo      (needs Spark and tmux; shows the screen at work, and the end)
"""

import os
import re
import subprocess
import sys
import tempfile
import time
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
        draw_demo()
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


DEMO_OPTIONS = "--chaos --seconds 40 --rate 400"
DEMO_LINES = 30


def draw_demo() -> None:
    """Draw the terminal after Spark and a broker were killed, and at the end."""
    tmux = ["tmux", "-L", f"picture-{os.getpid()}"]
    command = f"{OTTLA} demo {DEMO_OPTIONS}; echo; echo 'exit code' $?; sleep 60"
    size = ["-x", str(WIDTH), "-y", str(DEMO_LINES)]
    subprocess.run([*tmux, "new-session", "-d", *size, command], check=True)
    try:
        at_work = screen = ""
        while "exit code" not in screen:
            time.sleep(1)
            screen = seen(tmux)
            is_busy = "Fraud alerts" in screen and "broker 1" in screen and "to go" in screen
            at_work = screen if is_busy else at_work
    finally:
        subprocess.run([*tmux, "kill-server"], check=False)
    verdict = screen[screen.rindex("No more payments") :]
    verdict = verdict[: verdict.rindex("exit code")].rstrip().removesuffix("\x1b[39m")
    draw(
        "demo",
        [
            (f"make demo ARGS='{DEMO_OPTIONS}'", f"{at_work.rstrip()}\n"),
            ("", verdict),
        ],
    )


def seen(tmux: list[str]) -> str:
    """Return the screen with its colours."""
    shown = subprocess.run(
        [*tmux, "capture-pane", "-p", "-e"], check=True, text=True, capture_output=True
    )
    return re.sub(r"/tmp/[\w/-]+", "/tmp/ottla-demo", shown.stdout)


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
        if command:
            prompt(console, command)
        console.print(Text.from_ansi(shown))
    PICTURES.mkdir(exist_ok=True)
    # The reader's own fonts are enough: a picture must not load anything.
    picture = re.sub(r"@font-face \{.*?\}", "", console.export_svg(title="Ottla"), flags=re.DOTALL)
    (PICTURES / f"{name}.svg").write_text(re.sub(r"<!--.*?-->", "", picture, flags=re.DOTALL))


def prompt(console: Console, command: str) -> None:
    console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))


if __name__ == "__main__":
    main()
