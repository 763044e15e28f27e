"""Results are never written over a run, over their own source, or where they cannot lie."""

from __future__ import annotations

from pathlib import Path

import pytest

from bunny_probe.errors import UsageError
from bunny_probe.outfile import check_outfile
from bunny_probe.runs import Store, to_parquet


@pytest.fixture
def run(tmp_path: Path) -> Path:
    path = tmp_path / "a.db"
    Store(path).close()
    return path


def test_a_run_is_never_written_over(run: Path, tmp_path: Path) -> None:
    """Neither the source itself, nor another run, nor a link to one; what was there is still whole."""
    link, other = tmp_path / "link.parquet", tmp_path / "b.db"
    link.symlink_to(run)
    Store(other).close()
    before = run.read_bytes(), other.read_bytes()
    for out in (run, link, other):
        with pytest.raises(UsageError, match="another file"):
            to_parquet([run], out)
    assert (run.read_bytes(), other.read_bytes()) == before


@pytest.mark.parametrize("where", ["folder", "file/below.parquet"])
def test_a_place_that_cannot_hold_it_is_named(run: Path, tmp_path: Path, where: str) -> None:
    """A folder, or a path through a file: a sentence with the path, before anything is done."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=where):
        to_parquet([run], tmp_path / where)


def test_a_missing_folder_is_made_and_nothing_is_left_beside(run: Path, tmp_path: Path) -> None:
    """The file appears in a new folder, alone."""
    assert to_parquet([run], tmp_path / "new" / "x.parquet") == 0
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["x.parquet"]
    assert check_outfile(tmp_path / "new" / "x.parquet").name == "x.parquet"
