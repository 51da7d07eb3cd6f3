"""Keys of the network: listeners, sockets, connections, requests."""

from typing import Final

from ottla.config.keys import declare

KEYS: Final = declare("""
high list listeners = PLAINTEXT://:9092 (non-empty list)
    Addresses served, as NAME://host:port; an empty host means all, port 0 a free one.
high list advertised.listeners (non-empty list)
    Addresses told to clients; taken from listeners where not set.
low string listener.security.protocol.map = \
SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT
    Security protocol of each listener name.
medium string inter.broker.listener.name
    Listener that other brokers use.
medium string security.inter.broker.protocol = PLAINTEXT \
(one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL)
    Protocol between brokers where inter.broker.listener.name is not set.
high list early.start.listeners (list)
    Listeners opened before the broker is fully authorized.
medium int socket.listen.backlog.size = 50 (at least 1)
    Connections the system may queue before they are accepted.
high int socket.send.buffer.bytes = 102400
    Send buffer of a socket, -1 for the system's choice.
high int socket.receive.buffer.bytes = 102400
    Receive buffer of a socket, -1 for the system's choice.
high int socket.request.max.bytes = 104857600 (at least 1)
    Largest request accepted; a larger one closes its connection.
medium long connections.max.idle.ms = 600000
    Silence after which a connection is closed, negative for never.
medium int max.connections = 2147483647 (at least 0)
    Connections at one time.
medium int max.connections.per.ip = 2147483647 (at least 0)
    Connections at one time from one address.
medium string max.connections.per.ip.overrides =
    Other limits for some addresses, as address:count,address:count.
medium int max.connection.creation.rate = 2147483647 (at least 0)
    New connections a second.
high int num.network.threads = 3 (at least 1)
    Threads that read and write sockets; Ottla has one event loop.
high int num.io.threads = 8 (at least 1)
    Threads that answer requests; Ottla has one event loop.
high int background.threads = 10 (at least 1)
    Threads for background work.
high int queued.max.requests = 500 (at least 1)
    Requests waiting before reading stops.
medium long queued.max.request.bytes = -1
    Bytes of requests waiting before reading stops.
high int request.timeout.ms = 30000
    Time for a request between brokers.
low int connection.failed.authentication.delay.ms = 100 (at least 0)
    Pause before a failed authentication is answered.
medium long socket.connection.setup.timeout.ms = 10000
    Time to open a connection to another broker.
medium long socket.connection.setup.timeout.max.ms = 30000
    Longest time to open a connection after failures.
medium int fetch.max.bytes = 57671680 (at least 1024)
    Most bytes in the answer to one fetch.
medium int fetch.purgatory.purge.interval.requests = 1000
    Waiting fetches between two clean-ups.
medium int producer.purgatory.purge.interval.requests = 1000
    Waiting produce requests between two clean-ups.
medium int delete.records.purgatory.purge.interval.requests = 1
    Waiting deletions between two clean-ups.
medium int share.fetch.purgatory.purge.interval.requests = 1000
    Waiting share fetches between two clean-ups.
medium int max.incremental.fetch.session.cache.slots = 1000 (at least 0)
    Incremental fetch sessions remembered.
medium int max.request.partition.size.limit = 2000 (at least 1)
    Most partitions in the answer to one DescribeTopicPartitions.
high internal boolean unstable.api.versions.enable = false
    Whether unfinished API versions are offered.
high internal boolean unstable.feature.versions.enable = false
    Whether unfinished feature versions are offered.
""")
