"""A line on stderr where the native core is not there to write it."""

import os
import stat


def write_line(text: str) -> None:
    """Write "msmemscope: text", or nothing where that would block or nobody reads. Never raises."""
    line = f"msmemscope: {text}\n".encode("utf-8", "replace")
    try:
        if stat.S_ISREG(os.fstat(2).st_mode):
            os.write(2, line)
            return
        # Whether writing may block is a flag of the open file, which the program shares: so it is opened anew.
        own = os.open("/proc/self/fd/2", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            os.write(own, line)
        finally:
            os.close(own)
    except OSError:
        pass  # closed, full, nobody reads: the program goes on without our words
