"""A Kerberos server of our own, where its programs are installed, in a folder and at a port of its
own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest
from bench.brokers import HOST, free_port

REALM = "TEST.LOCAL"
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"


def skip_without_kerberos() -> None:
    """Skip the tests of a module if something is missing."""
    pytest.importorskip("gssapi", reason="needs the extra gssapi: pip install ottla[gssapi]")
    for program in ("krb5kdc", "kadmin.local", "kdb5_util", "kinit"):
        if shutil.which(program, path=_PATH) is None:
            pytest.skip(f"no {program}: install krb5-kdc and krb5-user", allow_module_level=True)


class Kdc:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.config = folder / "krb5.conf"
        profile = folder / "kdc.conf"
        self.environment = {
            "KRB5_CONFIG": str(self.config),
            "KRB5_KDC_PROFILE": str(profile),
            "KRB5CCNAME": f"FILE:{folder}/tickets",
        }
        self.config.write_text(
            f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n"
            " dns_lookup_realm = false\n rdns = false\n dns_canonicalize_hostname = false\n"
            " udp_preference_limit = 1\n"
            f"[realms]\n {REALM} = {{\n  kdc = {HOST}:{self.port}\n }}\n"
            f" OTHER.LOCAL = {{\n  kdc = {HOST}:{self.port}\n }}\n"
        )
        profile.write_text(
            f"[kdcdefaults]\n kdc_listen = {HOST}:{self.port}\n"
            f" kdc_tcp_listen = {HOST}:{self.port}\n"
            f"[realms]\n {REALM} = {{\n  database_name = {folder}/principal\n"
            f"  key_stash_file = {folder}/stash\n  acl_file = {folder}/acl\n }}\n"
            f"[logging]\n kdc = FILE:{folder}/kdc.log\n"
        )
        self._run("kdb5_util", "create", "-r", REALM, "-s", "-P", "master")
        self._server = subprocess.Popen(
            [str(shutil.which("krb5kdc", path=_PATH)), "-n", "-r", REALM],
            env=os.environ | self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 20
        while True:
            try:
                socket.create_connection((HOST, self.port), 1).close()
                return
            except OSError:
                assert time.monotonic() < deadline
                time.sleep(0.05)

    def close(self) -> None:
        self._server.kill()
        self._server.wait()

    def keytab(self, *principals: str) -> str:
        """Add principals; return a file with their keys."""
        path = self.folder / f"{principals[0].replace('/', '-')}.keytab"
        for principal in principals:
            self._run("kadmin.local", "-r", REALM, "addprinc", "-randkey", principal)
            self._run("kadmin.local", "-r", REALM, "ktadd", "-k", str(path), principal)
        return str(path)

    def kinit(self, principal: str, keytab: str) -> None:
        self._run("kinit", "-k", "-t", keytab, principal)

    def _run(self, program: str, *arguments: str) -> None:
        line = [str(shutil.which(program, path=_PATH)), *arguments]
        done = subprocess.run(
            line, env=os.environ | self.environment, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, f"{line}: {done.stdout} {done.stderr}"
