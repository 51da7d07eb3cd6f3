"""What TransactionLoops.java does, through librdkafka, which speaks the first protocol of
transactions: the same arguments, the same last line."""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from collections import Counter

from confluent_kafka import KafkaException, Producer

ODD_ONE_IN = 25
LATE_S = 1.5
WAIT_S = 60.0


class Loop(threading.Thread):
    def __init__(self, words: list[str], number: int) -> None:
        super().__init__()
        bootstrap, self._topic, partitions, self._scenario, _, transactions, seed, *more = words
        self._partitions, self._transactions = int(partitions), int(transactions)
        self._name = f"{self._topic}-rdkafka-{number}"
        self._chance = random.Random(int(seed) + number)
        self._settings: dict[str, object] = {
            "bootstrap.servers": bootstrap,
            "transactional.id": self._name,
            "linger.ms": 0,
            "log_level": 0,
            **dict(one.split("=", 1) for one in more),
        }
        self._producer: Producer | None = None
        self._step = ""
        self.outcomes: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()

    def run(self) -> None:
        for number in range(self._transactions):
            try:
                if self._producer is None:
                    self._step = "init_transactions"
                    self._producer = self._new_producer()
                self._transact(self._producer, number)
            except KafkaException as failure:
                self._failed(failure)

    def _new_producer(self) -> Producer:
        made = Producer(self._settings)
        made.init_transactions(WAIT_S)
        return made

    def _transact(self, producer: Producer, number: int) -> None:
        self._step = "begin_transaction"
        producer.begin_transaction()
        self._step = "produce"
        for partition in range(self._partitions):
            producer.produce(self._topic, f"{self._name} {number}".encode(), partition=partition)
        odd = number % ODD_ONE_IN == ODD_ONE_IN - 1
        if odd and self._scenario == "timeout":
            producer.flush(WAIT_S)
            time.sleep(int(str(self._settings["transaction.timeout.ms"])) / 1000 + LATE_S)
            self._end(producer, "late commit_transaction", commit=True)
        elif odd and self._scenario == "fenced":
            producer.flush(WAIT_S)
            self._step = "init_transactions of a rival"
            self._new_producer()
            self._end(producer, "fenced commit_transaction", commit=True)
        elif self._scenario == "commit" or number % 2 == 0:
            self._end(producer, "commit_transaction", commit=True)
        else:
            time.sleep(self._chance.uniform(0, 0.002))
            self._end(producer, "abort_transaction", commit=False)

    def _end(self, producer: Producer, step: str, *, commit: bool) -> None:
        self._step = step
        if commit:
            producer.commit_transaction(WAIT_S)
        else:
            producer.abort_transaction(WAIT_S)
        self.outcomes["committed" if commit else "aborted"] += 1

    def _failed(self, failure: KafkaException) -> None:
        error = failure.args[0]
        kind = f"{self._step}: {error.name()}"
        self.errors[kind] += 1
        if self.errors[kind] <= 3:
            print(f"{self._name}: {kind}: {error.str()}", file=sys.stderr)
        if self._producer is None:
            return
        try:
            self._producer.abort_transaction(WAIT_S)
        except KafkaException:
            self._producer = None


def main(words: list[str]) -> None:
    loops = [Loop(words, number) for number in range(int(words[4]))]
    for loop in loops:
        loop.start()
    for loop in loops:
        loop.join()
    outcomes = sum((loop.outcomes for loop in loops), Counter())
    errors = sum((loop.errors for loop in loops), Counter())
    told = {name: outcomes[name] for name in ("committed", "aborted")}
    print(json.dumps({**told, "errors": errors}))


if __name__ == "__main__":
    main(sys.argv[1:])
