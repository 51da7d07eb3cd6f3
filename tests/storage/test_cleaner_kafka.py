"""What Kafka's own tool says of compacted segments."""

from __future__ import annotations

import re
from pathlib import Path

from cleaner_tools import clean, compacted, end_transaction, put, read_batches
from storage_tools import NOW_MS, open_log
from test_storage_kafka import dump, needs_kafka

from ottla.records.codec import Codec
from ottla.records.reader import read_records


@needs_kafka
def test_kafka_reads_compacted_segments(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", compacted(segment_bytes=2000, index_interval_bytes=100))
    codecs = list(Codec)
    for number in range(60):
        pairs = [(b"k%d" % ((number + step) % 17), b"v%d" % number * 5) for step in range(3)]
        put(log, pairs, codec=codecs[number % len(codecs)], now_ms=NOW_MS + number)
    put(log, [(b"gone", None), (b"k3", None)], now_ms=NOW_MS + 100)
    for producer_id, committed in ((7, True), (8, False)):
        fields = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0}
        put(log, [(b"tx", b"%d" % producer_id)], transactional=True, **fields)
        end_transaction(log, producer_id, committed=committed)
    put(log, [(b"tx", b"after")])
    log.roll()
    finished = clean(log)
    assert finished is not None
    batches = read_batches(log)
    offsets = [record.offset for _, batch in batches for record in read_records(batch)]
    assert len(offsets) < 25
    log.close(clean=True)
    folder = tmp_path / "t-0"
    text = dump(*sorted(folder.glob("*.log")), options=("--deep-iteration", "--print-data-log"))
    assert "isvalid: false" not in text
    assert text.count("isvalid: true") == len(batches)
    assert [int(offset) for offset in re.findall(r"\| offset: (\d+)", text)] == offsets
    assert f"deleteHorizonMs: OptionalLong[{NOW_MS + 86_400_000}]" in text
    indexes = [*folder.glob("*.index"), *folder.glob("*.timeindex")]
    for option in ("--index-sanity-check", "--verify-index-only"):
        told = dump(*sorted(path for path in indexes if path.stat().st_size), options=(option,))
        for complaint in ("Mismatches", "not match", "out of order", "not found"):
            assert complaint not in told, told
    assert "producerId: 8 firstOffset" in dump(*folder.glob("*.txnindex"))
