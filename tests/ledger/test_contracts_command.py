"""`manage.py contracts`: what is wrong is said with file, line and path; nothing is published unless all can be."""

import io
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from ledger.database import execute
from tests.conftest import Bench, Database, make_bench

GOOD = """\
contract: notes.add
title: Add a note
effect: write
owner: notebook
idempotency: {guarantee: none, field: "header:Idempotency-Key"}
success: "status == 201"
lookup:
  - by: status
    http: {method: GET, path: "/notes/{idempotency_key}"}
    found: "status == 200"
    no_match: "status == 404"
    authoritative: true
    sees: all
    lag: 2s
"""
WRONG = [
    (GOOD.replace("owner: notebook", "owner: notebook\nretires: 3"), 5, "retires", "an unknown key"),
    (GOOD.replace("    sees: all", "    sees: all\n    colour: red"), 14, "lookup[0].colour", "an unknown key inside"),
    (GOOD.replace('"status == 200"', '"status == "'), 10, "lookup[0].found", "a condition that is cut off"),
    (GOOD.replace('"status == 200"', '"open(status)"'), 10, "lookup[0].found", "a function that is not allowed"),
    (GOOD.replace('"status == 201"', '"status in [201].map(x, x)"'), 6, "success", "a comprehension"),
    (GOOD.replace("    lag: 2s\n", ""), 11, "lookup[0].no_match", "absence without a lag"),
    (GOOD.replace("lag: 2s", "lag: soon"), 14, "lookup[0].lag", "a time in words"),
    (GOOD.replace("effect: write", "effect: maybe"), 3, "effect", "an unknown effect"),
    (GOOD.replace("title: Add a note\n", "title: a\ntitle: b\n"), 3, "title", "a key twice"),
    (GOOD.replace("by: status", "by: sql"), 8, "lookup[0].by", "what this release cannot carry out"),
    (GOOD + "  - : [\n", 15, "the document", "no YAML"),
    (GOOD.replace("notebook", "&a notebook").replace("Add a note", "*a"), None, "the document", "an alias"),
    ("", None, "the document", "an empty file"),
    ("- a\n- b\n", 1, "the document", "a list"),
]


def run(*args: str) -> tuple[str, str, str]:
    """What was printed, what was complained of, and the error that ended it."""
    out, err = io.StringIO(), io.StringIO()
    try:
        call_command("contracts", *args, stdout=out, stderr=err)
    except CommandError as error:
        return out.getvalue(), err.getvalue(), str(error)
    return out.getvalue(), err.getvalue(), ""


@pytest.mark.parametrize(("text", "line", "path", "why"), WRONG, ids=[why for *_, why in WRONG])
def test_what_is_wrong_is_named_by_line_and_path(
    text: str, line: int | None, path: str, why: str, tmp_path: Path
) -> None:
    file = tmp_path / "notes.yaml"
    file.write_text(text)
    _, complained, error = run("check", str(file))
    assert "1 of 1 files cannot be taken" in error, why
    where = f"{file}:{line}: {path}" if line else f"{file}:"
    assert where in complained, complained


def test_a_good_file_needs_no_database(tmp_path: Path) -> None:
    file = tmp_path / "notes.yaml"
    file.write_text(GOOD)
    assert run("check", str(file)) == (f"{file}: notes.add can be published.\n", "", "")


def test_the_demos_contracts_can_be_taken() -> None:
    files = sorted((Path(__file__).parents[2] / "recovery" / "demo" / "contracts").glob("*.yaml"))
    out, complained, error = run("check", *map(str, files))
    assert (complained, error) == ("", "")
    assert out.count("can be published") == len(files) > 0


def published(bench: Bench) -> list[tuple[str, int, str, str]]:
    return execute(  # type: ignore[return-value]
        "SELECT t.name, cv.number, o.name, o.base_url FROM tool t JOIN contract_version cv ON cv.id = t.current_id "
        "JOIN owner o ON o.id = t.owner_id WHERE t.workspace_id = %s ORDER BY t.name",
        [bench.id],
    )


def test_import_publishes_and_makes_the_owner(database: Database, tmp_path: Path) -> None:
    bench = make_bench()
    file = tmp_path / "notes.yaml"
    file.write_text(GOOD)
    command = ["import", str(file), "--workspace", bench.slug, "--owner-url", "http://127.0.0.1:9"]
    out, _, error = run(*command)
    assert error == ""
    assert f"notes.add@1 holds in {bench.slug}" in out
    assert published(bench) == [("notes.add", 1, "notebook", "http://127.0.0.1:9")]
    run(*command)
    assert published(bench)[0][1] == 1, "the same document again publishes nothing"
    file.write_text(GOOD.replace("Add a note", "Add one note"))
    run(*command[:-1], "http://127.0.0.1:10")
    assert published(bench) == [("notes.add", 2, "notebook", "http://127.0.0.1:10")]


def test_one_wrong_file_keeps_all_from_being_published(database: Database, tmp_path: Path) -> None:
    bench = make_bench()
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(GOOD)
    bad.write_text(GOOD.replace("effect: write", "effect: maybe"))
    _, complained, error = run(
        "import", str(good), str(bad), "--workspace", bench.slug, "--owner-url", "http://127.0.0.1:9"
    )
    assert "1 of 2 files" in error
    assert "bad.yaml:3: effect" in complained
    assert published(bench) == []


CALLS = [
    (["--owner-url", "http://h"], "import needs --workspace SLUG and --owner-url URL", "no workspace"),
    (["--workspace", "w"], "import needs", "no address"),
    (["--workspace", "no-such", "--owner-url", "http://h"], "There is no workspace no-such", "an unknown workspace"),
    (["--workspace", "w", "--owner-url", "ftp://h"], "is not an address", "another protocol"),
    (["--workspace", "w", "--owner-url", "helpdesk"], "is not an address", "a name"),
]


@pytest.mark.parametrize(("more", "says", "why"), CALLS, ids=[why for *_, why in CALLS])
def test_calls_that_make_no_sense(more: list[str], says: str, why: str, database: Database, tmp_path: Path) -> None:
    file = tmp_path / "notes.yaml"
    file.write_text(GOOD)
    assert says in run("import", str(file), *more)[2], why


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    _, complained, error = run("check", str(tmp_path / "nowhere.yaml"), str(binary), str(tmp_path))
    assert "3 of 3 files" in error
    assert complained.count("cannot be read") == 3
