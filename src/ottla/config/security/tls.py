"""The `ssl.*` keys of one listener, read together."""

from collections.abc import Callable, Iterator
from typing import Final

from ottla.config.errors import ConfigError, Problem
from ottla.config.security.cipher_suites import TLS_1_3, openssl_name
from ottla.config.security.listener_keys import ListenerKeys
from ottla.runtime.tls.settings import Pem, TlsSettings
from ottla.security.principal_rules import BadRule, PrincipalRules

_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")
_HIDDEN: Final = "[hidden]"
_STORE_KEYS: Final = {
    "keystore": ("ssl.keystore.type", "ssl.keystore.location", "ssl.keystore.password"),
    "truststore": ("ssl.truststore.type", "ssl.truststore.location", "ssl.truststore.password"),
}
_OF_JAVA: Final = ("JKS", "PKCS12")
"""Types whose files are Java's stores. What a file really is shows when it is read: since Java 9
`keytool` writes PKCS12 unless it is told otherwise."""


def tls_settings(keys: ListenerKeys, *, is_server: bool) -> TlsSettings:
    """Return the TLS of a listener; raises `ConfigError` with every problem. A server must have a
    certificate."""
    problems: list[Problem] = []
    identity = _checked(_identity, keys, problems)
    trusted = _checked(_trusted, keys, problems)
    if identity is None and is_server and not problems:
        expected = (
            "an SSL listener needs a private key and a certificate chain: set ssl.keystore.type=PEM"
            " and give their file"
        )
        problems.append(Problem(keys.name("ssl.keystore.location"), None, expected))
    problems += _refused(keys)
    if problems:
        raise ConfigError(problems)
    suites = keys["ssl.cipher.suites"] or ()
    return TlsSettings(
        identity=identity,
        key_password=keys["ssl.key.password"] or "",
        key_password_setting=keys.name("ssl.key.password"),
        trusted=trusted,
        client_auth=keys["ssl.client.auth"],
        versions=_versions(keys),
        cipher_suites=tuple(filter(None, map(openssl_name, suites))),
        checks_hostname=keys["ssl.endpoint.identification.algorithm"].lower() == "https",
        may_change_subject=keys["ssl.allow.dn.changes"],
        may_change_alternative_names=keys["ssl.allow.san.changes"],
        principal_rules=keys["ssl.principal.mapping.rules"],
    )


def _checked(
    read: Callable[[ListenerKeys], Pem | None], keys: ListenerKeys, problems: list[Problem]
) -> Pem | None:
    try:
        return read(keys)
    except ConfigError as error:
        problems += (problem for problem in error.problems if isinstance(problem, Problem))
        return None


def _identity(keys: ListenerKeys) -> Pem | None:
    chain, key = "ssl.keystore.certificate.chain", "ssl.keystore.key"
    if not (keys[chain] or keys[key]):
        return _from_file(keys, "keystore")
    _check_is_pem(keys, "keystore", inline=True)
    for one, other in ((chain, key), (key, chain)):
        if not keys[other]:
            raise ConfigError.of(keys.name(other), None, f"must be set too, with {keys.name(one)}")
    return Pem(keys.name(key), text=f"{keys[key]}\n{keys[chain]}\n")


def _trusted(keys: ListenerKeys) -> Pem | None:
    inline = "ssl.truststore.certificates"
    if not keys[inline]:
        return _from_file(keys, "truststore")
    _check_is_pem(keys, "truststore", inline=True)
    return Pem(keys.name(inline), text=keys[inline])


def _from_file(keys: ListenerKeys, store: str) -> Pem | None:
    kind, location, password = _STORE_KEYS[store]
    if not keys[location]:
        return None
    given = keys[kind].upper()
    if given in _OF_JAVA:
        if store == "keystore" and not keys[password]:
            raise ConfigError.of(keys.name(password), None, f"must be set for {keys[location]}")
        return Pem(keys.name(location), path=keys[location], store_password=keys[password] or "")
    _check_is_pem(keys, store, inline=False)
    return Pem(keys.name(location), path=keys[location])


def _check_is_pem(keys: ListenerKeys, store: str, *, inline: bool) -> None:
    kind, location, password = _STORE_KEYS[store]
    if inline and keys[location]:
        expected = "give either this file or the PEM text, not both"
        raise ConfigError.of(keys.name(location), keys[location], expected)
    if keys[kind].upper() != "PEM":
        expected = f"PEM text needs {keys.name(kind)}=PEM" if inline else "expected PEM or PKCS12"
        raise ConfigError.of(keys.name(kind), keys[kind], expected)
    if keys[password]:
        expected = "a PEM file has none; for an encrypted private key set ssl.key.password"
        raise ConfigError.of(keys.name(password), _HIDDEN, expected)


def _versions(keys: ListenerKeys) -> frozenset[str]:
    """Return the allowed versions of TLS: those that also have a cipher suite, as in Java."""
    allowed = frozenset(keys["ssl.enabled.protocols"])
    if suites := keys["ssl.cipher.suites"]:
        with_suites = {"TLSv1.3" if suite in TLS_1_3 else "TLSv1.2" for suite in suites}
        allowed &= with_suites
    return allowed


def _refused(keys: ListenerKeys) -> Iterator[Problem]:
    protocols, suites = "ssl.enabled.protocols", "ssl.cipher.suites"
    for version in keys[protocols]:
        if version not in _VERSIONS:
            yield Problem(keys.name(protocols), version, f"expected {' or '.join(_VERSIONS)}")
    unknown = [
        suite
        for suite in keys[suites] or ()
        if suite not in TLS_1_3 and openssl_name(suite) is None
    ]
    for suite in unknown:
        expected = "expected Java's name of a suite, such as TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
        yield Problem(keys.name(suites), suite, expected)
    if not unknown and not _versions(keys) and set(keys[protocols]) <= set(_VERSIONS):
        expected = f"none of these suites is for {' or '.join(keys[protocols]) or 'no version'}"
        yield Problem(keys.name(suites), ",".join(keys[suites] or ()), expected)
    listed = TLS_1_3 & set(keys[suites] or ())
    if listed and listed != TLS_1_3:
        expected = (
            "the suites of TLS 1.3 cannot be chosen one by one here: name all three "
            f"({', '.join(sorted(TLS_1_3))}) or none, which turns TLS 1.3 off"
        )
        yield Problem(keys.name(suites), ",".join(sorted(listed)), expected)
    algorithm = "ssl.endpoint.identification.algorithm"
    if keys[algorithm].lower() not in ("", "https"):
        yield Problem(keys.name(algorithm), keys[algorithm], "expected https, or nothing")
    if keys["ssl.engine.factory.class"]:
        expected = "classes of Java cannot be used: delete the line"
        yield Problem(
            keys.name("ssl.engine.factory.class"), keys["ssl.engine.factory.class"], expected
        )
    rules = "ssl.principal.mapping.rules"
    try:
        PrincipalRules.parse(keys[rules])
    except BadRule as error:
        yield Problem(keys.name(rules), keys[rules], str(error))
