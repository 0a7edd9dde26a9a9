"""Folders that several processes need at the same moment."""

import threading
from pathlib import Path

from recovery.local.places import Place


def test_processes_that_begin_together_get_one_folder(tmp_path: Path) -> None:
    where = Place(root=tmp_path, state=tmp_path, account=None)
    start = threading.Barrier(16)
    wrong: list[Exception] = []

    def make(number: int) -> None:
        start.wait()
        try:
            (where.make("temporary", "inner") / f"file-{number}").write_text("kept")
        except OSError as error:
            wrong.append(error)

    threads = [threading.Thread(target=make, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(list((tmp_path / "temporary" / "inner").iterdir())) == 16
    assert [one.name for one in tmp_path.iterdir()] == ["temporary"], "nothing half-made is left"
