"""Topics in Spark: the data source named `ottla`, its exactly-once sink, and sessions for them.

Nothing here is imported by the broker. Needs the extra `spark`: `pip install 'ottla[spark]'`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.lazy import lazily

if TYPE_CHECKING:
    from ottla.spark.datasource import register as register
    from ottla.spark.session import spark_session as spark_session

__getattr__, __all__ = lazily(
    "ottla.spark",
    {"ottla.spark.datasource": "register", "ottla.spark.session": "spark_session"},
)
