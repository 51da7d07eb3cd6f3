"""Record batches, format v2: the unit in which data is sent, stored and replicated.

A broker reads the 61-byte header and the checksum, surveys uncompressed records, and passes the
rest on unopened; only clients, compaction, recompression and lookups by timestamp read the records
inside. Everything here is pure: bytes in, bytes or typed values out.

    header       the fixed part of a batch, read with one unpack and patched in place
    crc          the CRC-32C of a batch
    validation   checks of what producers send
    rewriting    changes of a batch before its append: recompression, append timestamps
    builder      records -> batch
    reader       batch -> records
    payload      the records inside a batch, varint by varint, and what is wrong with them
    engine       fast loops over records: `native`, which is compiled, or `pure`, the same in
                 Python
    compression  the four codecs, with a bound on their output
    control      batches that brokers write for each other
"""
