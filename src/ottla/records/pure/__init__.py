"""The functions of `ottla.records.engine` in pure Python: the counterpart of
`ottla.records.native`.

They are used if the compiled modules could not be built, and the compiled modules are tested
against them.
"""
