"""A note that a transaction coordinator was asked about a producer's transaction in this partition.

A transactional batch is only appended if its transaction is already open here, or if a coordinator
has confirmed that the partition is part of it. The transaction may end between the question and the
append: its marker then removes the note made with the question, and the answer is void. Without
this, a late batch would open a transaction that nobody ever ends.

The marker may also be that of the previous transaction: the client was told of its end when it was
decided, and began the next one. The order was then: the note was made, the marker came, the
coordinator had all its markers written, and only then was it asked. So a void note is not a
refusal, but a reason to ask again, with a new note.
"""

from __future__ import annotations


class Verification:
    """A pending verification of a transaction. It is compared by identity, and the batch that it
    was made for must present it."""

    __slots__ = ("asked_ms", "epoch", "epochs_grow", "lowest_sequence")

    def __init__(self, asked_ms: int, epoch: int, sequence: int, *, epochs_grow: bool) -> None:
        self.asked_ms = asked_ms
        self.epoch = epoch
        self.lowest_sequence = sequence
        """The sequence of the first batch that was sent. None of its successors may be appended
        before it, or it would be refused for good when it is sent again."""
        self.epochs_grow = epochs_grow
        """True if the client gets a new epoch for every transaction, so each begins with sequence
        0."""

    def also_for(self, epoch: int, sequence: int) -> None:
        """Add another batch of the producer that waits for the same answer."""
        if epoch > self.epoch:
            self.epoch = epoch
            self.lowest_sequence = sequence
        elif epoch == self.epoch and sequence < self.lowest_sequence:
            self.lowest_sequence = sequence
