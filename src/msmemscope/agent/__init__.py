"""The questions as tools for coding agents, through the Model Context Protocol: `msmemscope mcp`.

`toolbox` has all tools, as plain functions with a description and the parameters that they take; nothing of it knows the
protocol. `server` speaks it, and is the only module here that needs the SDK.

Three rules hold for every tool. It only reads. Its answer is bounded, and names the parts that were left out and the
way to them (`bounded_answer`). Texts of the observed program are data: control characters are replaced.
"""
