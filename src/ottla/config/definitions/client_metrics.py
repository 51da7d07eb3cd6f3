"""Keys of a client metrics subscription."""

from typing import Final

from ottla.config.keys import declare

KEYS: Final = declare("""
medium int interval.ms = 300000
    How often matching clients report.
medium list match = (list)
    Clients meant, as parameter=pattern entries; empty for all.
medium list metrics = (list)
    Prefixes of the metrics asked for; * for all.
""")
