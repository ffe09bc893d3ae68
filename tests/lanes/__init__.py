"""Version lanes: the tests that a user of another torch_npu depends on, run with that version's torch and torch_npu."""
