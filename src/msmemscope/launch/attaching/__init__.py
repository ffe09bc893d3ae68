"""Attaching to a Python process that nobody prepared: a debugger loads a small library, which runs Python code of ours."""
