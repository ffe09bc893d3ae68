"""Helpers for the places where programs run: trainers, notebooks, tests.

Nothing here is imported by the rest of the package, and no foreign package is imported before it is used.
"""
