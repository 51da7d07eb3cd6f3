"""What `ottla.records.engine` offers, in Python alone: the twin of `ottla.records.native`.

It serves where the compiled modules could not be built, and it is what they are tested against.
"""
