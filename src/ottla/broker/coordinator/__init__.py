"""Group and transaction coordinators: pure state machines, and the runtime that carries out what
they ask for.

A state machine never waits and never reads a clock. It is given an event and the time, and fills an
`Outbox` with the records to append, the replies to send once those are committed, and timers.
"""
