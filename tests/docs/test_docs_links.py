"""Links between the pages lead somewhere, and the index leads to every page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "ARCHITECTURE.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    ROOT / "examples" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    plain = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings]
    return {heading.replace(" ", "-") for heading in plain}


def links(page: Path) -> list[str]:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    return [link for link in LINK.findall(text) if "://" not in link]


def is_broken(page: Path, link: str) -> bool:
    file, _, anchor = link.partition("#")
    target = (page.parent / file).resolve() if file else page
    if not target.exists():
        return True
    return bool(anchor) and target.suffix == ".md" and anchor not in anchors(target)


def test_every_link_leads_to_a_file_and_a_heading() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {link}"
        for page in PAGES
        for link in links(page)
        if is_broken(page, link)
    ]
    if broken:
        pytest.fail("these lead nowhere:\n" + "\n".join(broken), pytrace=False)


def test_the_index_leads_to_every_page() -> None:
    index = ROOT / "docs" / "README.md"
    reached = {index}
    waiting = [index]
    while waiting:
        page = waiting.pop()
        for link in links(page):
            target = (page.parent / link.partition("#")[0]).resolve()
            if target.suffix == ".md" and target not in reached and target.is_file():
                reached.add(target)
                waiting.append(target)
    every = set((ROOT / "docs").rglob("*.md")) - set((ROOT / "docs" / "decisions").iterdir())
    lost = [str(page.relative_to(ROOT)) for page in sorted(every - reached)]
    assert not lost, f"docs/README.md does not lead to {lost}"
