"""Names of TLS clients: the subject as Java prints it, and `ssl.principal.mapping.rules`.

The expected values are what Java's `X500Principal.getName` and Kafka's mapper returned.
"""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from ottla.security.certificates import BadCertificate, java_name, parse_certificate
from ottla.security.principal_rules import BadRule, NoRuleMatches, PrincipalRules
from tls_files import Authority

DUKE = "CN=Duke,OU=ServiceUsers,O=Org,C=US"
JAVA_NAMES = [
    (
        "305f310b30090603550406130244453110300e06035504080c0742617661726961310f300d060355"
        "04070c064d756e696368310e300c060355040a0c054f74746c61310d300b060355040b0c04436f72"
        "65310e300c06035504030c05616c696365",
        "CN=alice,OU=Core,O=Ottla,L=Munich,ST=Bavaria,C=DE",
    ),
    (
        "305631133011060a0992268993f22c64011916036f726731173015060a0992268993f22c64011916"
        "076578616d706c6531123010060a0992268993f22c6401010c0275313112301006035504090c094d"
        "61696e2053742031",
        "STREET=Main St 1,UID=u1,DC=example,DC=org",
    ),
    (
        "301f311d301b060355040a0c14412c20422b433d443c453e4623473b4822495c4a",
        'O=A\\, B\\+C\\=D\\<E\\>F\\#G\\;H\\"I\\\\J',
    ),
    ("3010310e300c06035504030c05236c656164", "CN=\\#lead"),
    ("3011310f300d06035504030c06202073702020", "CN=\\ \\ sp\\ \\ "),
    ("300c310a300806035504030c0120", "CN=\\ "),
    (
        "302d311f300c06035504030c05616c696365300f060a0992268993f22c6401010c0137310a300806"
        "0355040a0c0178",
        "O=x,CN=alice+UID=7",
    ),
    (
        "302d310a3008060355040a0c0178311f300f060a0992268993f22c6401010c0137300c0603550403"
        "0c05616c696365",
        "UID=7+CN=alice,O=x",
    ),
    (
        "3022310a300806035504030c01613114301206092a864886f70d01090116056140622e63",
        "1.2.840.113549.1.9.1=#16056140622e63,CN=a",
    ),
    (
        "3046310c300a06035504040c03737572310b3009060355040c13024472310c300a06035504051303"
        "313233310b300906032a03040c027a7a310e300c060355042a0c05676976656e",
        "2.5.4.42=#0c05676976656e,1.2.3.4=#0c027a7a,2.5.4.5=#1303313233,2.5.4.12=#13024472,2.5.4.4=#0c03737572",
    ),
    (
        "301b3119301706035504030c105a6fc3ab20e6bca2e5ad9720f09f9880",
        "CN=Zo\xeb \u6f22\u5b57 \U0001f600",
    ),
    ("3011310f300d06035504031e06005a006f00eb", "CN=\\00Z\\00o\\00\ufffd"),
    ("300e310c300a060355040314035a6feb", "CN=Zo\ufffd"),
    ("30173115301306035504031c0c0000005a0000006f000000eb", "CN=#1c0c0000005a0000006f000000eb"),
    ("300e310c300a06035504031b0367656e", "CN=gen"),
    ("300f310d300b0603550403120431322033", "CN=#120431322033"),
    ("30123110300e06035504030c07610a620d630964", "CN=a\nb\rc\td"),
    ("300e310c300a06035504030c030d610d", "CN=\\\ra\\\r"),
    ("300e310c300a06035504030c03610062", "CN=a\\00b"),
    ("300b3109300706035504030c00", "CN="),
    ("3000", ""),
    (
        "30233121301f06035504030c18612f623a632a3f2124252628295b5d7b7d7e5e7c405f6027",
        "CN=a/b:c*?!$%&()[]{}~^|@_`'",
    ),
    ("30143112301006035504030c0962616420ff20757466", "CN=bad \ufffd utf"),
    ("301a311830160603550403130f7072696e7461626c65204020626164", "CN=printable @ bad"),
    ("300d310b300906035504030c025c2c", "CN=\\\\\\,"),
    ("300e310c300a06035504030c03097809", "CN=\tx\t"),
]


@pytest.mark.parametrize(("subject", "name"), JAVA_NAMES)
def test_a_subject_is_printed_as_java_prints_it(subject: str, name: str) -> None:
    assert java_name(bytes.fromhex(subject)) == name


@pytest.mark.parametrize(
    ("rules", "subject", "name"),
    [
        ("DEFAULT", DUKE, DUKE),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", DUKE, "Duke"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L", DUKE, "duke"),
        ("RULE:^CN=(.*?),OU=(.*?),O=(.*?),C=(.*?)$/$1@$2/U", DUKE, "DUKE@SERVICEUSERS"),
        ("RULE:^CN=x$/a/, RULE:^CN=(.*?),(.*)$/$2/L  ,  DEFAULT", DUKE, DUKE[8:].lower()),
        ("RULE:^CN=x$/a/,DEFAULT", DUKE, DUKE),
        ("RULE:^CN=(.*?)$/$1@$9/", "CN=a", "a@$9"),
        ("RULE:CN=(.*)/$10/", "CN=b", "b0"),
        ("RULE:(.*)/$1x/", "abc", "abcxx"),
        (r"RULE:CN=(.*)\/(.*)/$1\/$2/", "CN=a/b", "a/b"),
        (r"RULE:CN=(.*)/\$1-$1/", "CN=a", "$1-a"),
        ("RULE:CN=(a)?(.*)/[$1$2]/", "CN=b", "[b]"),
        ("RULE:CN=(?<who>.*)/$1/", "CN=a", "a"),
    ],
)
def test_rules_give_the_names_that_kafkas_mapper_gives(rules: str, subject: str, name: str) -> None:
    assert PrincipalRules.parse(rules).name_of(subject) == name


@pytest.mark.parametrize(
    "rules", ["DEFAUL", "RULE:a/b", "RULE:^CN=([^,]*).*$/$1/X", "RULE:(/a/", "DEFAULT,what"]
)
def test_what_is_no_rule_is_refused(rules: str) -> None:
    with pytest.raises(BadRule):
        PrincipalRules.parse(rules)


@pytest.mark.parametrize("rules", ["", "RULE:^CN=x$/a/"])
def test_a_subject_that_no_rule_matches_has_no_name(rules: str) -> None:
    with pytest.raises(NoRuleMatches):
        PrincipalRules.parse(rules).name_of(DUKE)


def test_subject_and_alternative_names_are_found_in_a_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    one, same, other, bare = (
        parse_certificate(ssl.PEM_cert_to_DER_cert(made.certificate.read_text()))
        for made in (
            authority.sign("one", "DNS:a.example,IP:127.0.0.1"),
            authority.sign("same", "IP:127.0.0.1,DNS:a.example"),
            authority.sign("other", "DNS:b.example"),
            authority.sign("bare"),
        )
    )
    assert java_name(one.subject) == "CN=one"
    assert one.alternative_names == same.alternative_names
    assert len(one.alternative_names) == 2
    assert one.alternative_names != other.alternative_names
    assert bare.alternative_names == frozenset()


def test_bytes_that_are_no_certificate_are_refused_wherever_they_end(tmp_path: Path) -> None:
    certificate = Authority(tmp_path).certificate.read_text()
    der = ssl.PEM_cert_to_DER_cert(certificate)
    for end in range(len(der)):
        with pytest.raises(BadCertificate):
            parse_certificate(der[:end])
    for garbage in (b"", b"\x30\x80", b"\x30\x85" + b"\xff" * 9, b"what", b"\x30\x00"):
        with pytest.raises(BadCertificate):
            parse_certificate(garbage)
