"""Writes the table of served APIs in docs/compatibility.md: `python scripts/document_apis.py`."""

from pathlib import Path

from ottla.broker.server.contract import SERVED
from ottla.protocol.apis import api

PAGE = Path(__file__).parents[1] / "docs" / "compatibility.md"
BEGIN, END = "<!-- begin apis -->\n", "<!-- end apis -->"


def table() -> str:
    rows = ["| API | key | versions |", "|---|---|---|"]
    for key in sorted(SERVED):
        declared = api(key)
        first, last = declared.versions[0], declared.latest_stable
        rows.append(f"| {declared.name} | {int(key)} | {first} to {last} |")
    return "\n".join(rows)


def render(page: str) -> str:
    before, _, rest = page.partition(BEGIN)
    _, marker, after = rest.partition(END)
    if not marker:
        raise SystemExit(f"{PAGE} has no place for the table of APIs")
    return f"{before}{BEGIN}\n{table()}\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(render(PAGE.read_text()))
