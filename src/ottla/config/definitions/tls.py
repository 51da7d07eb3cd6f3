"""Keys of TLS."""

from typing import Final

from ottla.config.keys import declare

KEYS: Final = declare("""
medium string ssl.keystore.location
    File with this broker's key and certificate.
medium string ssl.keystore.type = JKS
    Format of that file.
medium password ssl.keystore.password
    Password of that file.
medium password ssl.keystore.key
    This broker's private key as PEM text.
medium password ssl.keystore.certificate.chain
    This broker's certificates as PEM text.
medium password ssl.key.password
    Password of the private key.
medium string ssl.truststore.location
    File with the trusted certificates.
medium string ssl.truststore.type = JKS
    Format of that file.
medium password ssl.truststore.password
    Password of that file.
medium password ssl.truststore.certificates
    The trusted certificates as PEM text.
medium string ssl.client.auth = none (one of required, requested, none)
    Whether clients must show a certificate.
medium string ssl.protocol = TLSv1.3
    TLS version preferred.
medium list ssl.enabled.protocols = TLSv1.2,TLSv1.3 (list)
    TLS versions allowed.
medium list ssl.cipher.suites = (list)
    Cipher suites allowed; empty for the usual ones.
low string ssl.endpoint.identification.algorithm = https
    How a server's name is checked.
low string ssl.principal.mapping.rules = DEFAULT
    Rules from certificate name to user.
low boolean ssl.allow.dn.changes = false
    Whether a new certificate may have another name.
low boolean ssl.allow.san.changes = false
    Whether a new certificate may have other alternative names.
low class ssl.engine.factory.class
    Class that makes TLS engines.
medium string ssl.keymanager.algorithm = SunX509
    Key manager of the JVM.
medium string ssl.trustmanager.algorithm = PKIX
    Trust manager of the JVM.
medium string ssl.provider
    Security provider of the JVM.
low string ssl.secure.random.implementation
    Random numbers of the JVM.
low string security.providers
    Security providers of the JVM.
""")
