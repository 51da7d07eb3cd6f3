"""A node of a cluster that is formatted as an administrator would."""

from __future__ import annotations

import subprocess
import time

from bench.brokers import Ottla

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"


class FormattedNode(Ottla):
    """Several of them, with the same voters, are a cluster."""

    format_options: tuple[str, ...] = ()

    def command(self) -> list[str]:
        line = [str(self._program), "start", "--data", str(self.data), "--log-level", "info"]
        for key, value in self.options.items():
            line += ["-o", f"{key}={value}"]
        return line

    def prepare(self) -> None:
        properties = self.folder / "server.properties"
        settings = {"log.dirs": str(self.data), **self.options}
        properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        subprocess.run(
            [
                *(str(self._program), "storage", "format"),
                *("-t", CLUSTER_ID, "-c", str(properties), "-g", *self.format_options),
            ],
            check=True,
            capture_output=True,
            timeout=60,
        )

    def _await_answer(self, deadline: float) -> None:
        """Do not wait: a node is ready only when the others run, too."""

    @property
    def is_ready(self) -> bool:
        return "ready in" in self.output[self._start_mark :]

    def await_ready(self) -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not self.is_ready:
            assert self.running, self.tail()
            time.sleep(0.05)
        assert self.is_ready, self.tail()
