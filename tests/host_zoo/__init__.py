"""Programs whose host memory grows for one known reason each, and healthy ones that look like them.

Each program is one file with a header of comments: the kind, the cause, what grows, the holder and the amount. Most that
grow are healthy with the argument `fixed`; the header says why. A line to blame ends with the comment BLAME. At its end
each program prints how much it keeps by its own counting, and how much its resident memory grew. No program was changed
for what the tool says of it.
"""
