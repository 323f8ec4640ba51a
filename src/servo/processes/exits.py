"""How a process ended, in words."""

import signal


def exit_in_words(code: int) -> str:
    """The exit code, or the signal that ended the process."""
    try:
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"
    except ValueError:
        return f"signal {-code}"


def often_because(code: int) -> str:
    """Why a process often ends so, to go on after how it ended."""
    return "; the system does that when memory runs out" if -code == signal.SIGKILL else ""
