"""Hooks in training and inference frameworks: labels for the memory of their phases, and snapshots around them.

Which functions of which versions: `targets` and the files of the frameworks beside it. How a function of somebody else
is wrapped and given back: `patching` and `places`. `automatic` is what happens by itself. The public part stands above
this folder, in `capture/framework_hooks.py`, because snapshots of a program begin a session.
"""
