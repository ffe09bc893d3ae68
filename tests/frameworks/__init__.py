"""Programs that train with packages of others and know who owns each of their tensors: tiny random models, no network.

`catalogue` lists them, `run_program` runs one, `measure` holds its recording against what it says. They speak as those of
`tests.owner_truths` do.
"""
