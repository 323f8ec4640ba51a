"""How often Python collects garbage in a leader.

A leader makes many short-lived tuples and keeps many rows. None of them can be part of a cycle, so
looking for cycles after every 700 of them finds nothing and takes a fifth of the time of a large
batch. A process that has set higher thresholds itself keeps them.
"""

import gc

OFTEN_ENOUGH = (50_000, 20, 100)


def look_for_cycles_less_often() -> None:
    """Raise the thresholds of the cyclic garbage collector, never lower them."""
    current = gc.get_threshold()
    if 0 < current[0] < OFTEN_ENOUGH[0]:
        gc.set_threshold(*OFTEN_ENOUGH)
