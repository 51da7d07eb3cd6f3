"""The settings of clients: Kafka's names (with `_` for `.`), Kafka's defaults.

Each kind of client has two classes: the options that a caller may pass (a `TypedDict`, for type
checkers and editors), and the complete, checked settings. A test checks that the two agree.
"""
