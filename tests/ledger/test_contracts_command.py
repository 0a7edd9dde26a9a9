"""`manage.py contracts`: what is wrong is said with file, line and path; nothing is published unless all can be."""

import io
import json
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
    (GOOD + "approval: {role: approver}\n", 15, "approval", "what this release cannot carry out"),
    (
        GOOD.replace("{guarantee: none", "{guarantee: key, key: '" + "k" * 120 + "{operation_id}'"),
        5,
        "idempotency.key",
        "a key longer than the ledger keeps",
    ),
    (GOOD + "  - : [\n", 15, "the document", "no YAML"),
    (GOOD.replace("notebook", "&a notebook").replace("Add a note", "*a"), None, "the document", "an alias"),
    (
        GOOD.partition("lookup:")[0] + "preset: stripe-v1\n",
        7,
        "with.collection",
        "what only the contract can say for its preset",
    ),
    (GOOD + "preset: strip-v1\n", 15, "preset", "an unknown preset"),
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


def test_all_that_is_wrong_is_named_at_once(tmp_path: Path) -> None:
    file = tmp_path / "notes.yaml"
    wrong = GOOD.replace("lag: 2s", "lag: 2s\n    same: {title: bdy.title}") + "timeout: 0s\napproval: {}\n"
    file.write_text(wrong.replace('"status == 201"', '"stats == 201"'))
    _, complained, _ = run("check", str(file))
    assert [
        line.split(": ")[0].removeprefix(str(file)) + " " + line.split(": ")[1] for line in complained.splitlines()
    ] == [
        ":6 success",
        ":15 lookup[0].same.title",
        ":16 timeout",
        ":17 approval",
    ]


def test_a_preset_and_a_few_lines(tmp_path: Path) -> None:
    file = tmp_path / "refunds.yaml"
    lines = "contract: refunds.create\neffect: write\nowner: stripe\npreset: stripe-v1\n"
    file.write_text(lines + "with: {collection: refunds, credential: env:STRIPE_READ_KEY}\n")
    assert run("check", str(file)) == (f"{file}: refunds.create can be published.\n", "", "")
    file.write_text(lines + "with: {collection: refunds}\n")
    out, complained, error = run("check", str(file))
    assert (complained, error) == ("", "")
    assert f"note: {file}:5: with.credential: Where the worker finds the API key" in out, "what it gives up is said"


def test_a_good_file_needs_no_database(tmp_path: Path) -> None:
    file = tmp_path / "notes.yaml"
    file.write_text(GOOD)
    assert run("check", str(file)) == (f"{file}: notes.add can be published.\n", "", "")


def test_the_demos_contracts_can_be_taken() -> None:
    files = sorted((Path(__file__).parents[2] / "recovery" / "demo" / "contracts").glob("*.yaml"))
    out, complained, error = run("check", *map(str, files))
    assert (complained, error) == ("", "")
    assert out.count("can be published") == len(files) > 0
    assert "note:" not in out, "examples leave nothing to add"


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


def owner_record(bench: Bench) -> tuple[object, ...]:
    [row] = execute(
        "SELECT hosts, private_hosts, most_at_once, per_second FROM owner WHERE workspace_id = %s AND name = 'notebook'",
        [bench.id],
    )
    return row


def test_import_states_where_the_owner_may_be_asked_and_how_often(database: Database, tmp_path: Path) -> None:
    bench = make_bench()
    file = tmp_path / "notes.yaml"
    file.write_text(GOOD)
    command = ["import", str(file), "--workspace", bench.slug, "--owner-url", "https://notes.example"]
    limits = ["--owner-host", "Jobs.Notes.example", "--owner-host", "[::1]", "--owner-private-host", "10.0.0.7"]
    out, _, error = run(*command, *limits, "--most-at-once", "2", "--per-second", "0.5")
    assert error == ""
    assert owner_record(bench) == (["jobs.notes.example", "::1"], ["10.0.0.7"], 2, 0.5)
    said = "further hosts: jobs.notes.example, ::1; hosts that may be private: 10.0.0.7; 2 at once, 0.5 a second."
    assert said in out
    out, _, _ = run(*command)
    assert owner_record(bench) == ([], [], 4, None)
    assert "further hosts: none; hosts that may be private: none; 4 at once, not limited." in out, "nothing silently"


BAD_LIMITS = [
    ("--owner-host", "https://x", "not a host", "an address"),
    ("--owner-host", "x.example:80", "not a host", "a port"),
    ("--owner-host", "", "not a host", "nothing"),
    ("--owner-private-host", "10.0.0.0/8", "not a host", "a network: hosts are named one by one"),
    ("--most-at-once", "0", "whole number", "none at a time"),
    ("--most-at-once", "two", "whole number", "a word"),
    ("--per-second", "0", "above 0", "never"),
    ("--per-second", "nan", "above 0", "no number"),
    ("--per-second", "inf", "above 0", "without end: leave it out"),
]


@pytest.mark.parametrize(("option", "value", "says", "why"), BAD_LIMITS, ids=[why for *_, why in BAD_LIMITS])
def test_limits_that_make_no_sense(option: str, value: str, says: str, why: str, tmp_path: Path) -> None:
    file = tmp_path / "notes.yaml"
    file.write_text(GOOD)
    where = ["--workspace", "w", "--owner-url", "https://h"]
    assert says in run("import", str(file), *where, f"{option}={value}")[2], why


def test_two_files_of_one_tool(database: Database, tmp_path: Path) -> None:
    bench = make_bench()
    files = [tmp_path / "a.yaml", tmp_path / "b.yaml"]
    for file in files:
        file.write_text(GOOD)
    where = ["--workspace", bench.slug, "--owner-url", "https://h"]
    assert "both contracts of notes.add" in run("import", *map(str, files), *where)[2]
    assert published(bench) == []


def digest_of(bench: Bench, tool: str) -> list[tuple[int, bytes]]:
    return execute(  # type: ignore[return-value]
        "SELECT cv.number, cv.digest FROM contract_version cv JOIN tool t ON t.id = cv.tool_id "
        "WHERE t.workspace_id = %s AND t.name = %s ORDER BY cv.number",
        [bench.id, tool],
    )


STRIPE = """\
contract: shop/refunds.create
effect: write
owner: stripe
preset: stripe-v1
with: {collection: refunds}
title: "yes"
"""


def test_what_is_exported_imports_to_the_same_digest(database: Database, tmp_path: Path) -> None:
    bench, other = make_bench(), make_bench()
    good, stripe = tmp_path / "good.yaml", tmp_path / "stripe.yaml"
    good.write_text(GOOD)
    stripe.write_text(STRIPE)
    run("import", str(good), str(stripe), "--workspace", bench.slug, "--owner-url", "https://h")
    folder = tmp_path / "kept" / "here"
    out, _, error = run("export", "--workspace", bench.slug, "--to", str(folder))
    assert error == ""
    files = sorted(folder.iterdir())
    assert [file.name for file in files] == ["notes.add.yaml", "shop%2Frefunds.create.yaml"]
    assert "shop/refunds.create@1" in out
    assert "preset: stripe-v1@2026-11-30" in files[1].read_text(), "where it came from is kept"
    assert "with:" not in files[1].read_text(), "and the rest is written out"
    run("import", *map(str, files), "--workspace", other.slug, "--owner-url", "https://h")
    for tool in ("notes.add", "shop/refunds.create"):
        assert digest_of(other, tool) == digest_of(bench, tool)
    run("import", *map(str, files), "--workspace", bench.slug, "--owner-url", "https://h")
    assert len(digest_of(bench, "notes.add")) == 1, "the same document is no new version"


def test_a_tool_or_a_version_goes_to_standard_output(database: Database, tmp_path: Path) -> None:
    bench = make_bench()
    file = tmp_path / "notes.yaml"
    for title in ("Add a note", "Add one note"):
        file.write_text(GOOD.replace("Add a note", title))
        run("import", str(file), "--workspace", bench.slug, "--owner-url", "https://h")
    now, _, _ = run("export", "notes.add", "--workspace", bench.slug)
    first, _, _ = run("export", "notes.add", "--workspace", bench.slug, "--version", "1")
    assert now.startswith("# notes.add@2, sha256:")
    assert "title: Add one note" in now
    assert first.startswith("# notes.add@1, sha256:")
    assert "title: Add a note" in first


EXPORTS = [
    ([], "go into files", "all of them to standard output"),
    (["--version", "1"], "name the tool", "a version of nothing"),
    (["no.such.tool"], "no published contract no.such.tool", "an unknown tool"),
    (["notes.add", "--version", "9"], "no published contract notes.add@9", "an unknown version"),
    (["--to", "/dev/null/x"], "cannot be written", "no folder"),
]


@pytest.mark.parametrize(("more", "says", "why"), EXPORTS, ids=[why for *_, why in EXPORTS])
def test_exports_that_make_no_sense(more: list[str], says: str, why: str, database: Database, tmp_path: Path) -> None:
    bench = make_bench()
    file = tmp_path / "notes.yaml"
    file.write_text(GOOD)
    run("import", str(file), "--workspace", bench.slug, "--owner-url", "https://h")
    assert says in run("export", "--workspace", bench.slug, *more)[2], why


def test_another_workspace_exports_nothing_of_this_one(bench: Bench, other_bench: Bench, tmp_path: Path) -> None:
    empty = make_bench()
    assert "no published contract tickets.create" in run("export", "tickets.create", "--workspace", empty.slug)[2]
    assert "There is no workspace nowhere" in run("export", "x", "--workspace", "nowhere")[2]


def test_the_schema_is_printed() -> None:
    out, _, error = run("schema")
    assert error == ""
    assert json.loads(out)["required"] == ["contract", "owner", "effect"]


def test_presets_are_listed_and_printed() -> None:
    out, _, _ = run("presets")
    rows = out.splitlines()
    assert len(rows) == 26
    stripe = next(row for row in rows if row.startswith("| `stripe-v1`"))
    assert "| 2026-11-30 | no | `with.collection`, (`with.credential`) | https://docs.stripe.com" in stripe
    assert run("presets", "stripe-v1")[0].startswith("preset: stripe-v1\n")
    assert "There is no preset stripe." in run("presets", "stripe")[2]


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
