"""What `ottla.records.engine` offers, compiled; each module has a twin of its name in `pure`.

Everything that comes from outside is checked before it is used. What is wrong with it is not told
here: the twin is run from the place of the damage on, and says it in its own words.

    varint      numbers as records hold them
    raw_record  one record in a payload: where its parts lie, each checked to lie within it
    growing     memory that grows without the interpreter
"""
