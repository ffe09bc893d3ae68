"""Functions that replace parts of Megatron, whose class it imports by name."""

from __future__ import annotations

from importlib import import_module

TopKRouter = import_module("megatron.core.transformer.moe.router").TopKRouter
