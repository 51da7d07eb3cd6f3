"""What can be set on a client: Kafka's names (with `_` for `.`), Kafka's defaults.

Each kind of client has two classes: the options a caller may name (a `TypedDict`, so that type
checkers and editors know them), and the settings that come out, complete and checked. A test holds
the two together.
"""
