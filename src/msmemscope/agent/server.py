"""The tools over the Model Context Protocol: the only module that needs its SDK."""

from __future__ import annotations

import anyio
import anyio.to_thread
import mcp_types
from mcp.server import Server
from mcp.server.stdio import stdio_server

from msmemscope import __version__
from msmemscope.agent.toolbox import INSTRUCTIONS, Toolbox

_READS = mcp_types.ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)


def serve() -> None:
    """Serve over stdin and stdout until stdin ends; the SDK sends all other output to stderr."""
    anyio.run(_serve)


async def _serve() -> None:
    server = made_server(Toolbox())
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


def made_server(toolbox: Toolbox) -> Server:
    """Return a server of some tools, for any transport."""
    # Tables of gigabytes are in use during a call: two at once would be twice that.
    one_at_a_time = anyio.CapacityLimiter(1)

    async def tools(context: object, request: object) -> mcp_types.ListToolsResult:
        del context, request
        listed = [
            mcp_types.Tool(name=tool.name, description=tool.description, input_schema=tool.schema, annotations=_READS)
            for tool in toolbox.tools.values()
        ]
        return mcp_types.ListToolsResult(tools=listed)

    async def call(context: object, request: mcp_types.CallToolRequestParams) -> mcp_types.CallToolResult:
        del context
        reply = await anyio.to_thread.run_sync(
            toolbox.call, request.name, request.arguments or {}, limiter=one_at_a_time
        )
        text = mcp_types.TextContent(type="text", text=reply.text)
        return mcp_types.CallToolResult(content=[text], is_error=reply.is_error)

    return Server("msmemscope", version=__version__, instructions=INSTRUCTIONS, on_list_tools=tools, on_call_tool=call)
