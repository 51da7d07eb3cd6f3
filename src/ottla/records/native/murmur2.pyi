from ottla.records.pure.murmur2 import murmur2 as murmur2
from ottla.records.pure.murmur2 import partition_rows as partition_rows
