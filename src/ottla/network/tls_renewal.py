"""The rules for a certificate that takes the place of another while a node runs.

As in Kafka, it is to be of the same holder: a wrong file would otherwise change the name by which
other nodes and their ACLs know this one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.runtime.tls.socket import BadTlsFile
from ottla.security.certificates import BadCertificate, Certificate, java_name, parse_certificate

if TYPE_CHECKING:
    from ottla.runtime.tls.material import TlsMaterial


def check_renewal(now: TlsMaterial, then: TlsMaterial) -> None:
    """Raise `BadTlsFile` if the new certificate has another subject, or lacks alternative names of
    the old one, and the settings do not allow that."""
    if not now.certificate or now.certificate == then.certificate:
        return
    settings = then.settings
    if settings.identity is None:
        raise BadTlsFile("a listener cannot lose its certificate while the node runs")
    before, after = (_parsed(str(settings.identity), one.certificate) for one in (now, then))
    if before.subject != after.subject and not settings.may_change_subject:
        raise BadTlsFile(
            f"{settings.identity}: the new certificate is for {java_name(after.subject)}, that in "
            f"use for {java_name(before.subject)}; ssl.allow.dn.changes=true allows that"
        )
    if (
        not after.alternative_names >= before.alternative_names
        and not settings.may_change_alternative_names
    ):
        raise BadTlsFile(
            f"{settings.identity}: the new certificate lacks names (subjectAltName) that the one "
            "in use has; ssl.allow.san.changes=true allows that"
        )


def _parsed(origin: str, certificate: bytes) -> Certificate:
    try:
        return parse_certificate(certificate)
    except BadCertificate as error:
        raise BadTlsFile(f"{origin}: {error}") from error
