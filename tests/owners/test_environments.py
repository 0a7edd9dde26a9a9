"""Environments of owners are built once, whole, and by one process at a time."""

import threading
from pathlib import Path

import pytest

from tests.owners import environments


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(environments, "_ROOT", tmp_path)
    return tmp_path


def made() -> int:
    """Makes it if need be; when that was."""
    bin_ = environments.python_environment(name="owner", requirements=("six==1.17.0",))
    assert (bin_ / "python").exists()
    return (bin_.parent / "finished").stat().st_mtime_ns


def test_many_at_once_build_one() -> None:
    seen: list[int] = []
    threads = [threading.Thread(target=lambda: seen.append(made())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(seen) == 3
    assert len(set(seen)) == 1


def test_one_that_was_interrupted_is_built_again(root: Path) -> None:
    made()
    (root / "owner" / "finished").unlink()
    (root / "owner" / "half").touch()
    made()
    assert not (root / "owner" / "half").exists()


def test_another_recipe_is_another_environment(root: Path) -> None:
    made()
    (root / "owner" / "finished").write_text("of older requirements")
    (root / "owner" / "older").touch()
    made()
    assert not (root / "owner" / "older").exists()
