"""Memory that stays in use while a program has put its device memory to sleep."""
