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
    named = shlex.split(os.environ.get("CC", ""))
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
            if made.returncode:
                said = (made.stderr.strip() or "no reason given").splitlines()[0]
                raise OptionError(f"--compile: {command[0]} failed: {said}; {_WAY_OUT}")
        if progress:
            progress(f"compiled the decode step in {time.monotonic() - begun:.1f} s, once: {path}")
    try:
        made_of = ctypes.CDLL(str(path))
    except OSError as error:
        raise OptionError(
            f"--compile: {path} cannot be loaded ({error}); delete it and it is made anew"
        ) from None
    made_of.step.restype, made_of.work_floats.restype = None, ctypes.c_long
    return made_of


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
