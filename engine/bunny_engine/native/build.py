"""The C source beside this file, compiled by the machine's own compiler, once, and kept in the cache."""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from bunny_engine.conversions import written
from bunny_engine.errors import OptionError
from bunny_engine.fetch import cache_dir

__all__ = ["compiler", "library"]

_WAY_OUT = (
    "install a C compiler (gcc or clang), name one in the environment variable CC, or leave --compile out"
)


def compiler() -> list[str]:
    """The command of a C compiler: what CC says, else the first that is there. Raises OptionError."""
    said = os.environ.get("CC", "")
    try:
        named = shlex.split(said)
    except ValueError as error:
        raise OptionError(f"--compile: the environment variable CC is {said!r} ({error}): {_WAY_OUT}") from None
    for command in [named] if named else [["cc"], ["gcc"], ["clang"]]:
        if found := shutil.which(command[0]):
            return [found, *command[1:]]
    missing = f"the C compiler {named[0]} (named by CC) is not there" if named else "no C compiler is there"
    raise OptionError(f"--compile: {missing}: {_WAY_OUT}")


def library(progress: Callable[[str], None] | None = None) -> ctypes.CDLL:
    """The decode step as a library for this very processor, with its functions' types. Raises OptionError."""
    source = Path(__file__).with_name("step.c")
    tune = "-march=native" if platform.machine() in ("x86_64", "AMD64") else "-mcpu=native"
    command = [*compiler(), "-std=gnu11", "-O3", tune, "-ffp-contract=fast", "-shared", "-fPIC", "-pthread"]
    version = _run([command[0], "--version"]).stdout
    parts = (source.read_text("utf-8"), " ".join(command), version, _processor())
    path = cache_dir() / "native" / f"step-{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:16]}.so"
    if not path.is_file():
        begun = time.monotonic()
        with written(path) as part:
            made = _run([*command, str(source), "-o", str(part), "-lm"])
            if made.returncode or not part.is_file():
                raise OptionError(f"--compile: {shlex.join(compiler())} failed: {_reason(made)}; {_WAY_OUT}")
            _loaded(part)  # what cannot be loaded is not kept
        if progress:
            progress(f"compiled the decode step in {time.monotonic() - begun:.1f} s, once: {path}")
    made_of = _loaded(path)
    made_of.step.restype, made_of.work_floats.restype = None, ctypes.c_long
    return made_of


def _loaded(path: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise OptionError(
            f"--compile: what {shlex.join(compiler())} made cannot be loaded ({error}). If the compiler is not "
            f"to blame, {path} is damaged (delete it and it is made anew) or lies on a disk that runs nothing "
            f"(name another in XDG_CACHE_HOME). Or {_WAY_OUT}"
        ) from None


def _reason(made: subprocess.CompletedProcess[str]) -> str:
    """The compiler's first complaint, past the lines that say only where it was."""
    lines = made.stderr.strip().splitlines() or ["it gave no reason and made no file"]
    return next((line for line in lines if "error:" in line), lines[0])


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise OptionError(f"--compile: {command[0]} does not run ({error}): {_WAY_OUT}") from None


def _processor() -> str:
    """What the processor can do: a library made for one may hold instructions that another has not."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.platform()
    return next((line for line in lines if line.startswith(("flags", "Features"))), platform.processor())
