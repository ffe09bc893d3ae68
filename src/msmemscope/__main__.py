"""`python -m msmemscope`: the same as the `msmemscope` command."""

from __future__ import annotations

from msmemscope.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
