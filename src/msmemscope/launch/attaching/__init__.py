"""Attaching to a Python process that nobody prepared: it loads a small library, which runs Python code of ours."""
