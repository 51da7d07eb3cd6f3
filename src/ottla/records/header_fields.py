"""Where each field of a batch header is in the plain tuple that `unpack_header` returns."""

from typing import Final

BASE_OFFSET: Final = 0
BATCH_LENGTH: Final = 1
PARTITION_LEADER_EPOCH: Final = 2
MAGIC: Final = 3
CRC: Final = 4
ATTRIBUTES: Final = 5
LAST_OFFSET_DELTA: Final = 6
BASE_TIMESTAMP: Final = 7
MAX_TIMESTAMP: Final = 8
PRODUCER_ID: Final = 9
PRODUCER_EPOCH: Final = 10
BASE_SEQUENCE: Final = 11
RECORD_COUNT: Final = 12
