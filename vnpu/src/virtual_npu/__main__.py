"""``python -m virtual_npu`` is ``vnpu``."""

from __future__ import annotations

from .command_line import main

if __name__ == "__main__":
    main()
