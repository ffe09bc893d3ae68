"""The answer about a job, from the merged summaries of its ranks: tables in, typed tables out, nothing read or printed."""
