"""Ten slow assets, and one that depends on all of them."""

import time

from servo import asset


def slow(number: int):
    @asset(name=f"part_{number}")
    def part() -> int:
        print("making part", number)
        time.sleep(1)
        return number

    return part


parts = [slow(number) for number in range(10)]


@asset(deps=parts)
def whole() -> str:
    """Runs after all parts."""
    return "ten parts"
