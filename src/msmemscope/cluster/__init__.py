"""One answer about the captures of a whole job: `analyze_rank` per capture, a merge in any order, one answer.

`rank_analysis` makes a summary of at most `summary.MOST_BYTES` of a capture, on whatever machine; `merging` puts summaries
together; `answer` is worked out from all of them. `local_pool` and `ray_pool` only schedule: which of both did it changes
nothing of the answer.
"""
