"""Programs after public reports of memory problems: the measure is what others report.

Each program is one file with a header of comments. The header has the link, the symptom, the cause that the thread
established, and what a first screen must show. A line to blame ends with the comment BLAME. Programs were written
before anybody looked at what the tool says of them. Programs that the tool gets wrong stay in, and count.
"""
