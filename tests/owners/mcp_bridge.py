"""A server of MCP on standard input and output, offered over streamable HTTP: `python mcp_bridge.py PORT COMMAND …`.
Runs in an environment of its own, with fastmcp."""

import os
import sys

from fastmcp.client.transports import StdioTransport
from fastmcp.server import create_proxy

port, command, *arguments = sys.argv[1:]
server = create_proxy(StdioTransport(command, arguments, env=dict(os.environ)), name="bridge")
server.run(transport="http", host="127.0.0.1", port=int(port), show_banner=False)
