"""Memory snapshots of torch and torch_npu."""
