"""Topics in Spark: the data source named `ottla`, its exactly-once sink, and sessions for them.

Nothing here is imported by the broker. Needs the extra `spark`: `pip install 'ottla[spark]'`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.lazy import lazily
from ottla.spark.hidden import hidden_module

if TYPE_CHECKING:
    from ottla.spark.datasource import register as register
    from ottla.spark.session import spark_session as spark_session

_find, _names = lazily(__name__)


def __dir__() -> list[str]:
    return _names()


def __getattr__(name: str) -> Any:
    try:
        return _find(name)
    except ImportError as error:
        if hidden := hidden_module():
            raise ImportError(f"{error}. {hidden}.") from error
        raise
