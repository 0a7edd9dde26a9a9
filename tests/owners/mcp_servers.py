"""Three MCP servers of others' making as owners on loopback: git, a memory of things, and one that shows everything.

| server            | an effect                         | kept in          | its tools answer                     | a lost call is found again by     |
| ----------------- | --------------------------------- | ---------------- | ------------------------------------ | --------------------------------- |
| git               | a branch named as the operation   | a repository     | text; a missing branch is an isError | `git_show`, never as absent       |
| server-memory     | an entity named as the operation  | a file           | structured results                   | `open_nodes`, absence too         |
| server-everything | a task                            | its own memory   | with a task, of 2025-11-25           | nothing, once its id is lost      |

The first two speak on standard input and output only; mcp_bridge.py offers them over HTTP.
"""

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.owners.environments import NodeEnvironment, node_environment, python_environment
from tests.owners.harness import McpHarness
from tests.owners.running import Program, free_port, started

GIT_VERSION, NODE_VERSION = "2026.10.19", "2026.8.31"
_BRIDGE = Path(__file__).with_name("mcp_bridge.py")
_PYTHON = (f"mcp-server-git=={GIT_VERSION}", "fastmcp==4.1.4")

GIT_CONTRACT = """\
contract: branches.create
effect: write
owner: helpdesk
preset: mcp-readonly-tool
with:
  tool: git_show
  arguments: {repo_path: REPOSITORY, revision: "{operation_id}"}
  found: "body.startsWith('commit ')"
"""
MEMORY_CONTRACT = """\
contract: entities.create
effect: write
owner: helpdesk
lookup:
  - by: mcp_tool
    # Through the bridge, the server's tools are listed in the handshake's era only.
    mcp: {tool: open_nodes, arguments: {names: ["{operation_id}"]}, mode: legacy}
    items: body.entities
    match: "item.name == operation_id"
    same: {title: "body.observations[0]"}
    authoritative: true
    sees: all
    lag: 0s
"""
TASK_CONTRACT = """\
contract: research.begin
effect: write
owner: helpdesk
preset: mcp-task
receipt: {session: request.session_id}
lookup:
  # This server shows a task in the session that began it, and there alone.
  - {by: mcp_task, task: "{receipt.task}", mcp: {mode: legacy, session: "{receipt.session}"}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServer:
    """A running server."""

    port: int
    home: Path
    """Where what it holds lies."""
    program: Program = field(repr=False)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"


def branches(server: McpServer, named: str) -> int:
    """How many branches have this name, asked of git itself."""
    listed = subprocess.run(
        ["git", "-C", server.home, "branch", "--list", named, "--format", "%(refname:short)"],
        check=True,
        capture_output=True,
        text=True,
    )
    return listed.stdout.split().count(named)


def entities(server: McpServer, named: str) -> int:
    """How many entities have this name, read from the server's own file."""
    memory = server.home / "memory.json"
    lines = memory.read_text().splitlines() if memory.exists() else []
    return sum(json.loads(line).get("name") == named for line in lines if line.strip())


@contextmanager
def git(folder: Path) -> Iterator[McpServer]:
    """mcp-server-git before a repository with one commit."""
    home = folder / "repository"
    subprocess.run(["git", "init", "--quiet", "--initial-branch=main", home], check=True)
    who = ("-c", "user.name=tests", "-c", "user.email=tests@localhost")
    subprocess.run(
        ["git", "-C", home, *who, "commit", "--quiet", "--allow-empty", "-m", "First"],
        check=True,
    )
    bin_ = python_environment(name=f"mcp-server-git-{GIT_VERSION}", requirements=_PYTHON)
    with _bridged("git", [bin_ / "mcp-server-git", "--repository", home], folder, home) as server:
        yield server


@contextmanager
def memory(folder: Path) -> Iterator[McpServer]:
    """server-memory with a file of its own."""
    command = _node().command("mcp-server-memory")
    environ = ["env", f"MEMORY_FILE_PATH={folder / 'memory.json'}"]
    with _bridged("memory", [*environ, *command], folder, folder) as server:
        yield server


@contextmanager
def everything(folder: Path) -> Iterator[McpServer]:
    """server-everything, which speaks HTTP itself."""
    port = free_port()
    command = [*_node().command("mcp-server-everything"), "streamableHttp"]
    with _run("everything", command, folder, folder, port=port, environ={"PORT": str(port)}) as server:
        yield server


def _node() -> NodeEnvironment:
    servers = ("server-everything", "server-memory")
    packages = tuple(f"@modelcontextprotocol/{name}@{NODE_VERSION}" for name in servers)
    return node_environment(name=f"mcp-{NODE_VERSION}", packages=packages)


@contextmanager
def _bridged(name: str, command: Sequence[str | Path], folder: Path, home: Path) -> Iterator[McpServer]:
    port = free_port()
    python = python_environment(name=f"mcp-server-git-{GIT_VERSION}", requirements=_PYTHON) / "python"
    with _run(name, [python, _BRIDGE, str(port), *command], folder, home, port=port) as server:
        yield server


@contextmanager
def _run(
    name: str,
    command: Sequence[str | Path],
    folder: Path,
    home: Path,
    *,
    port: int,
    environ: dict[str, str] | None = None,
) -> Iterator[McpServer]:
    server = McpServer(
        port=port,
        home=home,
        program=Program(
            name=name, command=command, folder=folder, environ=environ, is_up=lambda: _lists_its_tools(server)
        ),
    )
    with started(server.program):
        yield server


def _lists_its_tools(server: McpServer) -> None:
    """A bridge is up before the server behind it.

    Raises:
        OSError: not yet.
    """
    harness = McpHarness(server.url)
    harness.open()
    if harness.try_to_ask("tools/list", {}) is None:
        raise ConnectionError("the server lists no tools")
