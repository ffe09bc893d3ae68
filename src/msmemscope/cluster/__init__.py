"""One answer about the captures of a whole job: `analyze_rank` per capture, a merge in any order, one answer.

The parts:

- `rank_analysis` makes a summary of a capture, of at most `summary.MOST_BYTES`, on any machine.
- `merging` puts summaries together.
- `answer` is worked out from all of them.
- `local_pool` and `ray_pool` only schedule: both lead to the same answer.
"""
