"""`python -m bench.client_child CLIENT CORE JOB`: one client, one method, one core, one process.

Prints its figures as JSON on the last line. Each client has its own process, because peak memory,
imported modules and the heap of one client would otherwise be part of the next one's figures.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from dataclasses import asdict

from bench.client_job import Job, Watch


def main() -> int:
    client, core, text = sys.argv[1:]
    os.sched_setaffinity(0, {int(core)})
    job = Job(**json.loads(text))
    method = importlib.import_module(f"bench.client_{client}").METHODS[job.method]
    measured = method(job, Watch(job))
    print(json.dumps(asdict(measured)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
