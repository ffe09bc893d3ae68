"""Helpers of the tests: building target programs, running them under the tool, reading what was recorded."""
