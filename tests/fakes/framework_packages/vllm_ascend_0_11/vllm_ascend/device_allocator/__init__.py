"""The allocator of memory that can sleep."""
