"""The command line: launching a program under observation, and the verbs."""
