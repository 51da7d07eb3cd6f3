"""Configuration with Kafka's names, types, defaults and rules; nothing here accesses the system.

`definitions` declares every key, `broker` turns a `server.properties` into a checked
`BrokerConfig`, `topic` adds a topic's own settings to it, and `describe` tells which value is in
force and where it comes from.
"""
