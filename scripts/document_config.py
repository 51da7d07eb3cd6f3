"""Writes the tables of docs/configuration.md from the declarations of the keys.

`python scripts/document_config.py` rewrites the tables between the markers; the text around them is
written by hand.
"""

import textwrap
from collections.abc import Iterable
from pathlib import Path

from ottla.config.broker import BrokerConfig
from ottla.config.definitions import BROKER_KEYS
from ottla.config.definitions.topic import KEYS as TOPIC_KEYS
from ottla.config.dynamic import is_read_only
from ottla.config.keys import ConfigKey
from ottla.config.synonyms import BROKER_SYNONYMS, TOPIC_SYNONYMS
from ottla.config.updates import READ_ONLY
from ottla.config.values import value_text
from ottla.logs import LOGGERS

PAGE = Path(__file__).parents[1] / "docs" / "configuration.md"
WIDTH = 120
ALONE = BrokerConfig.parse({})


def main() -> None:
    PAGE.write_text(render(PAGE.read_text()))


def render(page: str) -> str:
    """Return the page with new tables."""
    for name, table in tables().items():
        begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
        before, _, rest = page.partition(begin)
        _, marker, after = rest.partition(end)
        if not marker:
            raise SystemExit(f"{PAGE} has no place for the table {name!r}")
        page = f"{before}{begin}\n{table}\n{end}{after}"
    return page


def tables() -> dict[str, str]:
    used = [key for key in BROKER_KEYS.values() if key.used and not key.internal]
    unused = [key for key in BROKER_KEYS.values() if not key.used and not key.internal]
    topic = [key for key in TOPIC_KEYS.values() if not key.internal]
    return {
        "used": key_table(used),
        "topic": topic_table(topic),
        "unused": lines_of(", ".join(f"`{key}`" for key in sorted(one.name for one in unused))),
        "loggers": "".join(
            ["| Logger | What it tells |\n|---|---|\n"]
            + [f"| `{name}` | {what} |\n" for name, what in LOGGERS.items()]
        ),
    }


def key_table(keys: Iterable[ConfigKey]) -> str:
    head = "| Key | Type | Default | Allowed | Change | Meaning |\n|---|---|---|---|---|---|\n"
    return head + "".join(
        f"| `{key.name}` | {key.type.name.lower()} | {default(key)} | {allowed(key)} "
        f"| {READ_ONLY if is_read_only(key.name) else key.update_mode} | {cell(key.doc)} |\n"
        for key in sorted(keys, key=lambda key: key.name)
    )


def topic_table(keys: Iterable[ConfigKey]) -> str:
    rows = [
        "| Key | Type | Default | Broker key | Allowed | Meaning |\n|---|---|---|---|---|---|\n"
    ]
    for key in sorted(keys, key=lambda key: key.name):
        synonyms = TOPIC_SYNONYMS.get(key.name)
        broker_key = f"`{synonyms[0].name}`" if synonyms else ""
        rows.append(
            f"| `{key.name}` | {key.type.name.lower()} | {default(key)} | {broker_key} "
            f"| {allowed(key)} | {cell(key.doc)} |\n"
        )
    return "".join(rows)


def lines_of(text: str) -> str:
    """Return the text as a sentence, in lines of the width that the other pages have."""
    return textwrap.fill(text + ".", WIDTH, break_long_words=False, break_on_hyphens=False) + "\n"


def default(key: ConfigKey) -> str:
    text = key.default_text
    if text is None and key.name not in BROKER_SYNONYMS:  # the value of a single node
        text = value_text(ALONE.get(key.name))
    return "" if text is None else f"`{text}`" if text else "empty"


def allowed(key: ConfigKey) -> str:
    return cell(str(key.limit)) if key.limit is not None else ""


def cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    main()
