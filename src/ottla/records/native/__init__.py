"""The compiled functions of `ottla.records.engine`; each module has a counterpart of its name in
`pure`.

All input is checked before it is used. Errors are not described here: the counterpart is run from
the position of the damage on, and raises the error.

Shared modules:

    varint        numbers as records hold them
    raw_record    one record in a payload: where its parts are, each checked to be within it
    walk          iterates over the records of a payload
    growing       memory that grows, with or without the interpreter's lock
    bytes_column  a growing column of bytes or null
    column_rows   the rows of columns passed in
    siphash       a hash for which no attacker can make two keys collide
"""
