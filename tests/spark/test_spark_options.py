"""Options of the source and of the clients under it, as Spark's users write them."""

from __future__ import annotations

import re

import pytest

from ottla.client.errors import BadSetting
from ottla.client.values import TopicPartition
from ottla.security.oauth.unsecured import UnsecuredTokens
from ottla.spark.client_options import admin_options, consumer_options, producer_options
from ottla.spark.source.limits import AtEnd, AtOffsets, AtTime, AtTimes
from ottla.spark.source.offsets import EARLIEST, LATEST, from_json, to_json
from ottla.spark.source.options import batch_options, stream_options

BASE = {"kafka.bootstrap.servers": "localhost:9092"}
TOPIC = {**BASE, "subscribe": "t"}
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


def said(what: str) -> str:
    return re.escape(what)


# Clients


def test_kafkas_names_become_options_of_each_client() -> None:
    options = {
        **BASE,
        "kafka.isolation.level": "read_committed",
        "kafka.linger.ms": "7",
        "kafka.request.timeout.ms": "1000",
        "kafka.receive.buffer.bytes": "65536",
        "kafka.partition.assignment.strategy": "org.apache.kafka.clients.consumer.RangeAssignor",
        "startingOffsets": "earliest",
    }
    common = {"bootstrap_servers": "localhost:9092", "request_timeout_ms": "1000"}
    assert consumer_options(options) == {**common, "isolation_level": "read_committed"}
    assert producer_options(options) == {**common, "linger_ms": "7"}
    assert admin_options(options) == common


@pytest.mark.parametrize("case", ["KAFKA.Bootstrap.Servers", "kafka.bootstrap.servers"])
def test_names_count_whatever_their_case(case: str) -> None:
    assert admin_options({case: "a:1"}) == {"bootstrap_servers": "a:1"}


def test_a_compression_level_counts_for_its_codec() -> None:
    levels = {"kafka.compression.zstd.level": "5", "kafka.compression.gzip.level": "9"}
    zstd = producer_options({**BASE, **levels, "kafka.compression.type": "zstd"})
    assert zstd["compression_level"] == "5"
    assert "compression_level" not in producer_options({**BASE, **levels})


def test_names_and_passwords_come_from_jaas() -> None:
    found = consumer_options(
        {
            **BASE,
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": "SCRAM-SHA-512",
            "kafka.sasl.jaas.config": (
                "org.apache.kafka.common.security.scram.ScramLoginModule required\n"
                '  username="ann" password="p\\"w;d=1" ;'
            ),
        }
    )
    assert (found["sasl_username"], found["sasl_password"]) == ("ann", 'p"w;d=1')
    assert "sasl_token_auth" not in found


@pytest.mark.parametrize("module", ["scram.ScramLoginModule", "plain.PlainLoginModule"])
def test_a_delegation_token_is_for_scram_alone(module: str) -> None:
    jaas = (
        f"org.apache.kafka.common.security.{module} required "
        'username="id" password="hmac" tokenauth="True";'
    )
    found = consumer_options({**BASE, "kafka.sasl.jaas.config": jaas})
    assert found.get("sasl_token_auth", False) == ("Scram" in module)


OAUTH = "org.apache.kafka.common.security.oauthbearer"


def test_tokens_of_an_identity_provider_come_from_javas_settings() -> None:
    found = consumer_options(
        {
            **BASE,
            "kafka.sasl.mechanism": "OAUTHBEARER",
            "kafka.sasl.login.callback.handler.class": f"{OAUTH}.OAuthBearerLoginCallbackHandler",
            "kafka.sasl.oauthbearer.token.endpoint.url": "https://login.example/token",
            "kafka.sasl.oauthbearer.client.credentials.client.id": "ann",
            "kafka.sasl.login.refresh.window.factor": "0.9",
            "kafka.sasl.jaas.config": (
                f'{OAUTH}.OAuthBearerLoginModule required clientId="bob" clientSecret="hush" '
                'scope="read" extension_team="blue" ssl.truststore.location="/ca.pem";'
            ),
        }
    )
    assert found["sasl_oauthbearer_token_endpoint_url"] == "https://login.example/token"
    assert found["sasl_oauthbearer_client_credentials_client_id"] == "ann"
    assert found["sasl_oauthbearer_client_credentials_client_secret"] == "hush"
    assert found["sasl_oauthbearer_scope"] == "read"
    assert found["sasl_oauthbearer_extensions"] == {"team": "blue"}
    assert found["sasl_oauthbearer_ssl_cafile"] == "/ca.pem"


def test_unsecured_tokens_come_from_jaas() -> None:
    line = f'{OAUTH}.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="ann";'
    found = consumer_options({**BASE, "kafka.sasl.jaas.config": line})
    tokens = found["sasl_oauth_token_provider"]
    assert isinstance(tokens, UnsecuredTokens)
    assert tokens.claims == {"sub": "ann"}


def test_pem_stores_are_files_of_ours() -> None:
    found = consumer_options(
        {
            **BASE,
            "kafka.security.protocol": "SSL",
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.location": "/ca",
            "kafka.ssl.keystore.location": "/client.pem",
            "kafka.ssl.key.password": "secret",
            "kafka.ssl.endpoint.identification.algorithm": "",
        }
    )
    assert found["ssl_cafile"] == "/ca"
    assert found["ssl_certfile"] == found["ssl_keyfile"] == "/client.pem"
    assert found["ssl_password"] == "secret"
    assert found["ssl_check_hostname"] is False


def test_stores_of_java_come_with_their_passwords() -> None:
    found = consumer_options(
        {
            **BASE,
            "kafka.security.protocol": "SSL",
            "kafka.ssl.truststore.location": "/trust.jks",
            "kafka.ssl.truststore.password": "one",
            "kafka.ssl.keystore.type": "PKCS12",
            "kafka.ssl.keystore.location": "/own.p12",
            "kafka.ssl.keystore.password": "two",
            "kafka.ssl.key.password": "two",
        }
    )
    assert (found["ssl_cafile"], found["ssl_cafile_password"]) == ("/trust.jks", "one")
    assert (found["ssl_certfile"], found["ssl_password"]) == ("/own.p12", "two")


@pytest.mark.parametrize(
    ("option", "value", "problem"),
    [
        ("kafka.isolation.lvel", "x", "did you mean kafka.isolation.level?"),
        ("kafka.isolation.level", "x", "kafka.isolation.level: 'x' is none of"),
        ("kafka.fetch.max.bytes", "x", "kafka.fetch.max.bytes: 'x' is not a number"),
        ("kafka.ssl.truststore.type", "BCFKS", "'BCFKS' is none of PEM, PKCS12, JKS"),
        ("kafka.ssl.truststore.certificates", "-----", "put it into a PEM file"),
        ("kafka.sasl.jaas.config", "com.acme.LoginModule required;", "LoginModule is none"),
        ("kafka.sasl.jaas.config", PLAIN + " username=a;", "it has no password"),
        ("kafka.sasl.login.class", "x", "names a Java class"),
        ("kafka.sasl.login.callback.handler.class", "x", "or name one whose work is done here"),
        ("kafka.sasl.oauthbearer.jwt.retriever.class", "x", "DefaultJwtRetriever"),
        ("kafka.sasl.oauthbearer.assertion.file", "x", "not by assertions"),
        (
            "kafka.sasl.jaas.config",
            "a.OAuthBearerLoginModule required clientId=x;",
            "kafka.sasl.oauthbearer.token.endpoint.url: must say",
        ),
        (
            "kafka.sasl.jaas.config",
            "a.OAuthBearerLoginModule required;",
            "unsecuredLoginStringClaim_sub: must say as whom",
        ),
    ],
)
def test_what_a_client_cannot_do_is_told_by_name(option: str, value: str, problem: str) -> None:
    with pytest.raises(BadSetting, match=said(problem)):
        consumer_options({**BASE, option: value})


# The source


def test_defaults_are_those_of_sparks_source() -> None:
    stream, batch = stream_options(TOPIC), batch_options(TOPIC)
    assert (stream.starting, batch.starting) == (AtEnd(LATEST), AtEnd(EARLIEST))
    assert batch.ending == AtEnd(LATEST)
    assert stream.fail_on_data_loss
    assert not stream.headers
    assert (stream.offset_attempts, stream.offset_pause_ms) == (3, 1000)
    assert (stream.max_delay_ms, stream.poll_timeout_ms) == (900_000, 120_000)


def test_a_time_for_all_counts_before_times_before_offsets() -> None:
    options = {
        **TOPIC,
        "startingTimestamp": "5",
        "startingOffsetsByTimestamp": '{"t":{"0":6}}',
        "startingOffsets": '{"t":{"0":7,"1":-2}}',
    }
    assert stream_options(options).starting == AtTime(5)
    del options["startingTimestamp"]
    assert stream_options(options).starting == AtTimes({T0: 6})
    del options["startingOffsetsByTimestamp"]
    assert stream_options(options).starting == AtOffsets({T0: 7, T1: EARLIEST})


def test_topics_are_chosen_in_one_of_three_ways() -> None:
    assert stream_options({**BASE, "subscribe": " a, b ,,a"}).topics.names == ("a", "b")
    assigned = stream_options({**BASE, "assign": '{"t":[0,1]}'}).topics
    assert assigned.partitions == {T0, T1}
    assert assigned.names == ("t",)
    pattern = stream_options({**BASE, "subscribePattern": "t[0-9]"}).topics
    assert pattern.names is None
    # As in Spark, a part of the name is enough.
    assert pattern.wants(TopicPartition("xt1x", 0), is_internal=False)
    assert not pattern.wants(TopicPartition("t1", 0), is_internal=True)
    assert not pattern.wants(TopicPartition("x", 0), is_internal=False)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (BASE, "One of the following options must be specified for Kafka source"),
        ({**TOPIC, "assign": "{}"}, "Only one of the following options can be specified"),
        ({**BASE, "subscribe": " , "}, "No topics to subscribe to"),
        ({**BASE, "subscribePattern": " "}, "Pattern to subscribe is empty"),
        ({**BASE, "subscribePattern": "("}, "is no regular expression"),
        ({**BASE, "assign": "t"}, "No topicpartitions to assign"),
        ({**BASE, "assign": '{"t":0}'}, 'Expected e.g. {"topicA":[0,1],"topicB":[0,1]}, got'),
        ({"subscribe": "t"}, "Option 'kafka.bootstrap.servers' must be specified"),
        ({**TOPIC, "startingOffsets": "first"}, 'Expected e.g. {"topicA":{"0":23,"1":-1}'),
        ({**TOPIC, "startingOffsets": '{"t":{"0":-3}}'}, "Expected e.g."),
        ({**TOPIC, "startingOffsets": '{"t":{"x":1}}'}, "Expected e.g."),
        ({**TOPIC, "startingTimestamp": "now"}, "Expected a single long value, got now"),
        ({**TOPIC, "startingOffsetsByTimestamp": "1"}, "Expected e.g."),
        ({**TOPIC, "startingOffsetsByTimestampStrategy": "x"}, "it is error or latest"),
        ({**TOPIC, "kafka.auto.offset.reset": "earliest"}, "'auto.offset.reset' is not supported."),
        ({**TOPIC, "kafka.key.deserializer": "x"}, "'key.deserializer' is not supported as keys"),
        ({**TOPIC, "kafka.value.deserializer": "x"}, "not supported as values are deserialized"),
        ({**TOPIC, "kafka.enable.auto.commit": "x"}, "'enable.auto.commit' is not supported"),
        ({**TOPIC, "kafka.interceptor.classes": "x"}, "'interceptor.classes' is not supported"),
        ({**TOPIC, "minPartitions": "0"}, "minPartitions must be positive"),
        ({**TOPIC, "maxRecordsPerPartition": "-1"}, "maxRecordsPerPartition must be positive"),
        ({**TOPIC, "maxOffsetsPerTrigger": "many"}, "must be a whole number, got 'many'"),
        ({**TOPIC, "maxTriggerDelay": "5 weeks"}, "such as 15m, got '5 weeks'"),
        ({**TOPIC, "failOnDataLoss": "no"}, "must be true or false, got 'no'"),
        ({**TOPIC, "startingOffset": "earliest"}, "did you mean 'startingOffsets'?"),
        ({**TOPIC, "sasl.password": "x"}, "did you mean 'kafka.sasl.password'?"),
        (
            {**TOPIC, "minOffsetsPerTrigger": "3", "maxOffsetsPerTrigger": "2"},
            "The value of minOffsetPerTrigger(3) is higher than the maxOffsetsPerTrigger(2).",
        ),
        ({**TOPIC, "endingOffsets": "latest"}, "ending offset not valid in streaming queries"),
        ({**TOPIC, "endingTimestamp": "1"}, "ending timestamp not valid in streaming queries"),
        (
            {**TOPIC, "endingOffsetsByTimestamp": "{}"},
            "ending timestamp not valid in streaming queries",
        ),
    ],
)
def test_streams_refuse_what_sparks_source_refuses(options: dict[str, str], problem: str) -> None:
    with pytest.raises(ValueError, match=said(problem)):
        stream_options(options)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"startingOffsets": "latest"}, "starting offset can't be latest for batch queries"),
        ({"startingOffsets": '{"t":{"0":-1}}'}, "startingOffsets for t-0 can't be latest"),
        ({"endingOffsets": "earliest"}, "ending offset can't be earliest for batch queries"),
        ({"endingOffsets": '{"t":{"0":-2}}'}, "ending offset for t-0 can't be earliest"),
        (
            {"startingOffsets": '{"t":{"0":5}}', "endingOffsets": '{"t":{"0":4}}'},
            "The specified start offset 5 is greater than the end offset 4 for topic t partition 0",
        ),
        (
            {"startingOffsets": '{"t":{"0":5}}', "endingOffsets": '{"t":{"1":4}}'},
            "should have the same topic-partitions",
        ),
        (
            {
                "startingOffsetsByTimestamp": '{"t":{"0":5}}',
                "endingOffsetsByTimestamp": '{"t":{"0":4}}',
            },
            "The specified start timestamp 5 is greater than the end timestamp 4",
        ),
    ],
)
def test_tables_refuse_ends_that_make_no_sense(options: dict[str, str], problem: str) -> None:
    with pytest.raises(ValueError, match=said(problem)):
        batch_options({**TOPIC, **options})


def test_what_nobody_knows_is_left_to_others() -> None:
    assert stream_options({**TOPIC, "path": "x", "groupIdPrefix": "p"}).topics.names == ("t",)


def test_durations_have_units() -> None:
    given = {"10": 10, "500ms": 500, "3 s": 3000, "2min": 120_000, "1H": 3_600_000}
    for text, expected in given.items():
        assert stream_options({**TOPIC, "maxTriggerDelay": text}).max_delay_ms == expected


def test_offsets_are_written_in_order_whatever_theirs_was() -> None:
    offsets = {TopicPartition("b", 10): 1, TopicPartition("b", 9): 2, TopicPartition("a", 0): -1}
    written = to_json(offsets)
    assert list(written) == ["a", "b"]
    assert list(written["b"]) == ["9", "10"]
    assert from_json(written) == offsets
