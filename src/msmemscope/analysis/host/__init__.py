"""The memory of the host that a process has resident: samples of its allocations, and the ledger of its parts."""
