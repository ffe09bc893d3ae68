"""Looking at a program while it runs: its event log is read as it grows, and nothing is asked of the program.

`followed_capture` reads and sums up, `snapshot` has the values to show, `screen` is the terminal on top of it.
"""
