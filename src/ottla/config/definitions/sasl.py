"""Keys of authentication and authorization."""

from typing import Final

from ottla.config.keys import declare

KEYS: Final = declare("""
low string authorizer.class.name =
    Class that decides who may do what.
medium class principal.builder.class = \
org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder
    Class that names the user of a connection.
medium long connections.max.reauth.ms = 0
    Time after which a client must authenticate again, 0 for never.
medium password delegation.token.secret.key
    Secret that signs delegation tokens.
medium long delegation.token.expiry.time.ms = 86400000 (at least 1)
    Life of a token before it is renewed.
medium long delegation.token.max.lifetime.ms = 604800000 (at least 1)
    Life of a token in all.
low long delegation.token.expiry.check.interval.ms = 3600000 (at least 1)
    How often expired tokens are removed.
medium list sasl.enabled.mechanisms = GSSAPI (list)
    SASL mechanisms served.
medium password sasl.jaas.config
    Login settings.
medium string sasl.mechanism.inter.broker.protocol = GSSAPI
    Mechanism between brokers.
high string sasl.mechanism.controller.protocol = GSSAPI
    Mechanism with controllers.
medium class sasl.client.callback.handler.class
    Class for the client's side of a login.
medium class sasl.server.callback.handler.class
    Class for the server's side of a login.
medium int sasl.server.max.receive.size = 524288
    Largest message of a login.
medium class sasl.login.callback.handler.class
    Class that answers login questions.
medium class sasl.login.class
    Class that logs in.
low int sasl.login.connect.timeout.ms
    Time to connect to the identity provider.
low int sasl.login.read.timeout.ms
    Time to read from the identity provider.
medium short sasl.login.refresh.buffer.seconds = 300
    Rest of a token's life kept in reserve.
medium short sasl.login.refresh.min.period.seconds = 60
    Least time between two refreshes.
medium double sasl.login.refresh.window.factor = 0.8
    Share of a token's life before it is refreshed.
medium double sasl.login.refresh.window.jitter = 0.05
    Random part of that share.
low long sasl.login.retry.backoff.ms = 100
    Pause after a failed login.
low long sasl.login.retry.backoff.max.ms = 10000
    Longest such pause.
medium string sasl.kerberos.service.name
    Kerberos service.
medium string sasl.kerberos.kinit.cmd = /usr/bin/kinit
    Path of kinit.
medium long sasl.kerberos.min.time.before.relogin = 60000
    Least time between two logins.
medium list sasl.kerberos.principal.to.local.rules = DEFAULT (list)
    Rules from principal to user.
medium double sasl.kerberos.ticket.renew.jitter = 0.05
    Random part of the renewal time.
medium double sasl.kerberos.ticket.renew.window.factor = 0.8
    Share of a ticket's life before it is renewed.
medium string sasl.oauthbearer.jwks.endpoint.url
    Where the keys of the identity provider are.
low long sasl.oauthbearer.jwks.endpoint.refresh.ms = 3600000
    How often those keys are read.
low long sasl.oauthbearer.jwks.endpoint.retry.backoff.ms = 100
    Pause after a failed read.
low long sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms = 10000
    Longest such pause.
medium string sasl.oauthbearer.token.endpoint.url
    Where tokens are had.
low list sasl.oauthbearer.expected.audience = (list)
    Audiences a token may have.
low string sasl.oauthbearer.expected.issuer
    Issuer a token must have.
low int sasl.oauthbearer.clock.skew.seconds = 30
    Difference between clocks allowed.
medium string sasl.oauthbearer.scope
    Scope asked for.
low string sasl.oauthbearer.scope.claim.name = scope
    Claim with the scope.
low string sasl.oauthbearer.sub.claim.name = sub
    Claim with the user.
medium class sasl.oauthbearer.jwt.retriever.class = \
org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever
    Class that gets tokens.
medium class sasl.oauthbearer.jwt.validator.class = \
org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator
    Class that checks tokens.
medium string sasl.oauthbearer.client.credentials.client.id
    Client id for the identity provider.
medium password sasl.oauthbearer.client.credentials.client.secret
    Client secret for the identity provider.
medium string sasl.oauthbearer.assertion.file
    File with a ready assertion.
medium string sasl.oauthbearer.assertion.template.file
    File with a template of an assertion.
medium string sasl.oauthbearer.assertion.private.key.file
    Key that signs the assertion.
medium password sasl.oauthbearer.assertion.private.key.passphrase
    Passphrase of that key.
medium string sasl.oauthbearer.assertion.algorithm = RS256 (any case of ES256, RS256)
    Algorithm that signs the assertion.
medium string sasl.oauthbearer.assertion.claim.aud
    Audience of the assertion.
low int sasl.oauthbearer.assertion.claim.exp.seconds = 300 (0 to 86400)
    Life of the assertion.
medium string sasl.oauthbearer.assertion.claim.iss
    Issuer of the assertion.
medium boolean sasl.oauthbearer.assertion.claim.jti.include = false
    Whether the assertion gets an id.
low int sasl.oauthbearer.assertion.claim.nbf.seconds = 60 (0 to 3600)
    How long before now the assertion is valid.
medium string sasl.oauthbearer.assertion.claim.sub
    Subject of the assertion.
""")
