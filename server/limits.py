"""Limits of this process and of the machine: told as what they are, wherever they are met.

A file that cannot be opened because too many are open is neither missing nor broken.
"""

import errno
import os

_OUT_OF_FILES = (errno.EMFILE, errno.ENFILE)


def limit_met(error: BaseException | None) -> str:
    """Which limit `error` is about, in words; nothing for another fault.

    The dynamic linker and libraries that are not Python's give the text alone.
    """
    if error is None:
        return ""
    if _is_of_files(error):
        return "no more files can be opened"
    if isinstance(error, RuntimeError) and "can't start new thread" in str(error):
        return "no more threads can be started"
    return limit_met(error.__cause__)


def _is_of_files(error: BaseException) -> bool:
    number = error.errno if isinstance(error, OSError) else None
    if number is not None:  # then the text may be a name's
        return number in _OUT_OF_FILES
    return any(os.strerror(number) in str(error) for number in _OUT_OF_FILES)


def pass_on_limit(error: BaseException) -> None:
    """Raise `error` where it is about a limit: the end of the boot tells it (SD613)."""
    if limit_met(error):
        raise error
