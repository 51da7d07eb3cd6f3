"""Planted: a vote is answered though power loss may still bring back the file before it."""

import pytest

from ottla.broker.quorum import state_file
from ottla.runtime.disk import Disk


def plant(patch: pytest.MonkeyPatch) -> None:
    def write(disk: Disk, directory: str, content: bytes) -> None:
        path = f"{directory}/{state_file.FILE_NAME}"
        file = disk.open(path + ".tmp", create=True)
        file.truncate(0)
        file.write_at(0, [content])
        file.sync()
        file.close()
        disk.rename(path + ".tmp", path)

    patch.setattr(state_file, "write", write)
