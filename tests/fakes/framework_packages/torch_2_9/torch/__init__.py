"""The shape of PyTorch 2.9, of what is hooked in it."""

__version__ = "2.9.1+cpu"
