"""That a transaction coordinator has been asked about a producer's transaction in this partition.

A transactional batch is only appended if its transaction is open here already, or if a coordinator
has confirmed that the partition takes part. Between the question and the append the transaction may
end: its marker removes the note that was made with the question, and then the answer counts for
nothing. Without this, a late batch would open a transaction that nobody will ever end.
"""

from __future__ import annotations


class Verification:
    """One question. It is known by identity; the batch it was asked for has to present it."""

    __slots__ = ("asked_ms", "epoch", "epochs_grow", "lowest_sequence")

    def __init__(self, asked_ms: int, epoch: int, sequence: int, *, epochs_grow: bool) -> None:
        self.asked_ms = asked_ms
        self.epoch = epoch
        self.lowest_sequence = sequence
        """The first batch that was sent. Until it is in, none of its successors may be: it would
        be refused for good when it is sent again."""
        self.epochs_grow = epochs_grow
        """The client gets a new epoch for every transaction, so each begins with sequence 0."""

    def also_for(self, epoch: int, sequence: int) -> None:
        """Another batch of the producer waits for the same answer."""
        if epoch > self.epoch:
            self.epoch = epoch
            self.lowest_sequence = sequence
        elif epoch == self.epoch and sequence < self.lowest_sequence:
            self.lowest_sequence = sequence
