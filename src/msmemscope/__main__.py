"""`python -m msmemscope`: the same as the `msmemscope` command."""

from __future__ import annotations

from msmemscope.cli.main import command

if __name__ == "__main__":
    command()
