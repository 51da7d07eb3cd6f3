"""Record batches, format v2: the unit in which data travels, is stored and is replicated.

A broker looks at the 61-byte header and the checksum, surveys records that are not compressed, and
passes the rest on unopened; only clients, compaction, recompression and lookups by timestamp read
the records inside. Everything here is pure: bytes in, bytes or typed values out.

    header       the fixed part of a batch, read with one unpack and patched in place
    crc          the CRC-32C that covers a batch
    validation   what a producer may send, and the verdict on what it sent
    rewriting    a batch changed on its way in: recompressed, or stamped with the time of the append
    builder      records -> batch
    reader       batch -> records
    payload      the records inside a batch, varint by varint, and what is wrong with them
    engine       what is done record by record where it has to be fast: `native`, which is compiled,
                 or `pure`, its twin
    compression  the four codecs, with a bound on what may come out
    control      batches that brokers write for each other
"""
