"""How Hypothesis searches, and what Ctrl-C does, for every test.

On a developer's machine each run looks at new examples. In CI (`CI` is set) the examples are a
function of the test, so a change is never refused for a fault that was there before it. Neither
has a deadline: tests share two cores with their neighbours, and a slow example is not a wrong one.

A shell that runs tests in the background has them ignore Ctrl-C, and processes inherit that. Those
that tests interrupt must not.
"""

import os
import signal

from hypothesis import settings

settings.register_profile("search", deadline=None)
settings.register_profile("repeat", deadline=None, derandomize=True, database=None, print_blob=True)
# Hundreds of processes are started, and none should compile everything again.
_ = os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

settings.load_profile("repeat" if "CI" in os.environ else "search")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
