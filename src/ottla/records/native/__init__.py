"""What `ottla.records.engine` offers, compiled; each module has a twin of its name in `pure`.

Everything that comes from outside is checked before it is used. What is wrong with it is not told
here: the twin is run from the place of the damage on, and says it in its own words.

Beside the twins there is what they share:

    varint        numbers as records hold them
    raw_record    one record in a payload: where its parts lie, each checked to lie within it
    walk          record by record through a payload
    growing       memory that grows, with or without the interpreter's lock
    bytes_column  a column of bytes or null, growing
    column_rows   the rows of columns that came from elsewhere
    siphash       a hash for which nobody can make two keys meet
"""
