"""A simulated file system: one tree of folders, one journal for their entries.

Model of names: creations, renames and removals go, in order, into one journal, as in ext4. A power
loss keeps a prefix of the journal, at least up to the last change in any folder that was synced. A
rename is one entry, so it happens as a whole or not at all. Syncing a file makes its bytes durable,
but not its name: that takes a sync of the folder, which is all that file systems promise.
"""

from __future__ import annotations

import errno
import os
import posixpath
import random
from collections.abc import Callable, Iterator

from ottla.sim.inode import PAGE_BYTES, Inode

Node = "Inode | Folder"


class Folder:
    def __init__(self) -> None:
        self.entries: dict[str, Inode | Folder] = {}
        self.durable: dict[str, Inode | Folder] = {}


Change = tuple[Folder, str, "Inode | Folder | None"]
"""In this folder, this name now means this node, or nothing."""


class Volume:
    """Survives its machine's crashes. Paths are absolute; relative ones start at the root."""

    def __init__(self, chance: random.Random, wall_ms: Callable[[], int]) -> None:
        self.chance = chance
        self.wall_ms = wall_ms
        self.capacity_bytes: int | None = None
        self.root = Folder()
        self._journal: list[tuple[Change, ...]] = []

    # Looking things up.

    def find(self, path: str) -> Inode | Folder | None:
        node: Inode | Folder | None = self.root
        for part in _parts(path):
            if not isinstance(node, Folder):
                return None
            node = node.entries.get(part)
        return node

    def inode(self, path: str) -> Inode:
        node = self.find(path)
        if node is None:
            raise _error(errno.ENOENT, path)
        if isinstance(node, Folder):
            raise _error(errno.EISDIR, path)
        return node

    def folder(self, path: str) -> Folder:
        node = self.find(path)
        if node is None:
            raise _error(errno.ENOENT, path)
        if not isinstance(node, Folder):
            raise _error(errno.ENOTDIR, path)
        return node

    def _parent(self, path: str) -> tuple[Folder, str]:
        parts = _parts(path)
        if not parts:
            raise _error(errno.EBUSY, path)
        return self.folder("/" + "/".join(parts[:-1])), parts[-1]

    # Changing names.

    def _commit(self, *changes: Change) -> None:
        self._journal.append(changes)
        for folder, name, node in changes:
            _set(folder.entries, name, node)

    def create(self, path: str) -> Inode:
        parent, name = self._parent(path)
        inode = Inode(self.wall_ms())
        self._commit((parent, name, inode))
        return inode

    def make_dirs(self, path: str) -> None:
        node = self.root
        for part in _parts(path):
            below = node.entries.get(part)
            if below is None:
                below = Folder()
                self._commit((node, part, below))
            elif not isinstance(below, Folder):
                raise _error(errno.ENOTDIR, path)
            node = below

    def rename(self, source: str, target: str) -> None:
        node = self.find(source)
        if node is None:
            raise _error(errno.ENOENT, source)
        from_folder, from_name = self._parent(source)
        to_folder, to_name = self._parent(target)
        replaced = to_folder.entries.get(to_name)
        if isinstance(replaced, Folder) and (replaced.entries or not isinstance(node, Folder)):
            raise _error(errno.ENOTEMPTY, target)
        if replaced is not node:
            self._commit((from_folder, from_name, None), (to_folder, to_name, node))

    def remove(self, path: str) -> None:
        self.inode(path)
        parent, name = self._parent(path)
        self._commit((parent, name, None))

    def remove_tree(self, path: str) -> Iterator[str]:
        """Remove entry by entry, children first; yield before each: a crash may come between."""
        folder = self.folder(path)
        for name, node in sorted(folder.entries.items()):
            below = posixpath.join(path, name)
            if isinstance(node, Folder):
                yield from self.remove_tree(below)
            else:
                yield below
                self.remove(below)
        yield path
        parent, name = self._parent(path)
        self._commit((parent, name, None))

    def sync_dir(self, path: str) -> None:
        folder = self.folder(path)
        touched = [
            index
            for index, changes in enumerate(self._journal)
            if any(change[0] is folder for change in changes)
        ]
        if touched:
            self._settle(touched[-1] + 1)

    def _settle(self, count: int) -> None:
        for changes in self._journal[:count]:
            for folder, name, node in changes:
                _set(folder.durable, name, node)
        del self._journal[:count]

    # Space.

    def used_bytes(self) -> int:
        return sum(len(inode.pages) for inode in self._inodes(self.root)) * PAGE_BYTES

    def room_for(self, inode: Inode, offset: int, length: int) -> int:
        """Return how many of these bytes fit: pages the file already has cost nothing."""
        if self.capacity_bytes is None:
            return length
        free_pages = (self.capacity_bytes - self.used_bytes()) // PAGE_BYTES
        position, end = offset, offset + length
        while position < end:
            page = position // PAGE_BYTES
            if page not in inode.pages:
                if free_pages <= 0:
                    break
                free_pages -= 1
            position = min(end, (page + 1) * PAGE_BYTES)
        return position - offset

    # Crashes.

    def settle(self) -> None:
        """Make everything durable as it is now: the state before the run begins."""
        self._settle(len(self._journal))
        for inode in self._inodes(self.root):
            inode.sync()

    def process_killed(self) -> None:
        for inode in self._inodes(self.root):
            inode.process_killed()

    def power_loss(self) -> None:
        self._settle(self.chance.randint(0, len(self._journal)))
        self._journal.clear()
        self._forget_unsettled(self.root)
        for inode in self._inodes(self.root):
            inode.power_loss(self.chance)

    def _forget_unsettled(self, folder: Folder) -> None:
        folder.entries = dict(folder.durable)
        for node in folder.entries.values():
            if isinstance(node, Folder):
                self._forget_unsettled(node)

    def _inodes(self, folder: Folder) -> Iterator[Inode]:
        for node in folder.entries.values():
            if isinstance(node, Folder):
                yield from self._inodes(node)
            else:
                yield node


def _parts(path: str) -> list[str]:
    return [part for part in posixpath.normpath("/" + path).split("/") if part]


def _set(entries: dict[str, Inode | Folder], name: str, node: Inode | Folder | None) -> None:
    if node is None:
        entries.pop(name, None)
    else:
        entries[name] = node


def _error(code: int, path: str) -> OSError:
    return OSError(code, os.strerror(code), path)
