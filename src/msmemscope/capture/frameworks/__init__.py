"""Hooks in training and inference frameworks: labels for the memory of their phases, and snapshots around them.

`targets` and the files of the frameworks beside it name the hooked functions of each version. `patching` and
`places` wrap a function of somebody else and give it back. `automatic` has the hooks that need no call. The public part
stands above this folder, in `capture/framework_hooks.py`, because snapshots of a program begin a session.
"""
