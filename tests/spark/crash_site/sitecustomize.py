"""Read by every Python that has this folder on its path: Spark's workers, in the crash stories."""

import os

if "OTTLA_CRASH_FOLDER" in os.environ:
    import crash_points

    crash_points.install()
