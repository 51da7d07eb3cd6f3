"""Group and transaction coordinators: pure machines, and the runtime that does what they ask.

A machine never waits and never reads a clock. It is told an event and the time, and writes into an
`Outbox` what should happen: records to append, replies to send once those are committed, timers.
"""
