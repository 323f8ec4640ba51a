"""What a failing disk means to the caller.

Every `OSError` that leaves the local store passes through here, once, with the one thing only the
store knows: whether the write can have reached the point where others see it.
"""

import errno

from servo.errors import Invalid, ServoError, Unavailable

_REMEDIES = {
    errno.ENOSPC: "free space on the filesystem of {root} and try again",
    errno.EDQUOT: "raise or free the disk quota on the filesystem of {root} and try again",
    errno.EROFS: "mount the filesystem of {root} for writing and try again",
    errno.EMFILE: "raise the limit of open files (ulimit -n) and try again",
    errno.ENFILE: "close files or raise the system's limit of open files and try again",
    errno.ENOMEM: "free memory and try again",
    errno.EIO: "check the disk under {root}: it failed to read or write",
}
_NO_HARD_LINKS = {errno.EXDEV, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}

# The kernel answers these before it changes anything, even from link(2) and rename(2).
_REFUSED_BEFORE = {
    *_NO_HARD_LINKS, *_REMEDIES, errno.EACCES, errno.EPERM, errno.ENOENT
} - {errno.EIO}  # fmt: skip


class Disk:
    """Translates what the disk of one store refuses: `with disk("write", key): …`.

    A class, not a generator, and a verb and a key, not a sentence: creating an object enters
    three of these, and on the way that does not fail they should cost nothing.
    """

    __slots__ = ("_root",)

    def __init__(self, root: str) -> None:
        self._root = root

    def __call__(self, verb: str, key: str, *, may_have_applied: bool | None = False) -> "_Attempt":
        """`may_have_applied=None` around the call that applies the write: its error decides."""
        return _Attempt(self._root, verb, key, may_have_applied)


class _Attempt:
    __slots__ = ("_key", "_may_have_applied", "_root", "_verb")

    def __init__(self, root: str, verb: str, key: str, may_have_applied: bool | None) -> None:
        self._root = root
        self._verb = verb
        self._key = key
        self._may_have_applied = may_have_applied

    def __enter__(self) -> None:
        return

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, OSError):
            applied = self._may_have_applied
            if applied is None:
                applied = error.errno not in _REFUSED_BEFORE
            doing = f"{self._verb} {self._key!r}"
            raise _translated(error, self._root, doing, may_have_applied=applied) from error


def _translated(error: OSError, root: str, doing: str, *, may_have_applied: bool) -> ServoError:
    message = f"could not {doing}: {error.strerror or error}"
    if not may_have_applied and error.errno in {errno.EACCES, errno.EPERM}:
        return Invalid(message, remedy=f"give this user permission to write and link in {root}")
    if not may_have_applied and error.errno in _NO_HARD_LINKS:
        return Invalid(message, remedy=f"keep {root} on one filesystem that has hard links")
    remedy = _REMEDIES.get(error.errno or 0, "check {root} and try again").format(root=root)
    return Unavailable(message, remedy=remedy, may_have_applied=may_have_applied)
