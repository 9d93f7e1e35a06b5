"""What a sanitizer has found in a program that a test runs in the background.

The program is ended by it (sanitizer.c), but that alone may fail no test: many end their servers anyhow, clients come
again until they are answered, and a job whose worker is gone is given to the next one. So tests look here, too."""

import re

STATUS = 66
REPORT = re.compile(rf"WARNING: ThreadSanitizer|ERROR: \w+Sanitizer|: runtime error: |worker ended .* {STATUS}\n")


def check(status, log):
    """Fails if something was found in the server that ended so and wrote this log, or in an image worker of it."""
    if status == STATUS or REPORT.search(log):
        raise AssertionError(f"a sanitizer has found something; the log, if it was told there:\n{log}")
