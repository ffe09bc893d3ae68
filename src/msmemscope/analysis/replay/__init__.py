"""The allocations of a recording through a model of the caching allocator, under its settings or others."""
