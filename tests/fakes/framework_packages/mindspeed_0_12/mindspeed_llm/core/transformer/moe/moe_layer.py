"""Functions that replace parts of Megatron, whose class it imports by name."""

from __future__ import annotations

from importlib import import_module

MoELayer = import_module("megatron.core.transformer.moe.moe_layer").MoELayer
