"""What a release ran in: packages, commit, machine, what the endpoint says it is. No name, no path, no key."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections import Counter
from importlib import metadata
from pathlib import Path
from typing import Any

__all__ = ["environment", "reported_models"]


def environment(checkout: Path | None = None) -> dict[str, Any]:
    """The lock of this process's surroundings, as JSON values. `checkout`: where to look for a commit."""
    packages = {
        (dist.metadata["Name"] or "").lower().replace("_", "-"): dist.version
        for dist in metadata.distributions()
    }
    return {
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "packages": dict(sorted(item for item in packages.items() if item[0])),
        "git": _commit(checkout or Path.cwd()),
        "machine": {
            "system": platform.system(),
            "kernel": platform.release(),
            "architecture": platform.machine(),
            "processor": _processor(),
            "cores": os.cpu_count(),
            "memory_bytes": _memory(),
        },
    }


def reported_models(run_path: Path) -> dict[str, int]:
    """What the endpoint called the model in its answers → how often. Empty: it did not say."""
    from bunny_probe.runs import Store

    with Store(run_path, write=False) as store:
        names = Counter(
            observation.attempt.reported_model
            for _, observation in store.observations()
            if observation.attempt.reported_model
        )
    return dict(names.most_common())


def _commit(folder: Path) -> dict[str, Any] | None:
    """The commit that `folder` is at and whether it was changed since; None outside a repository."""
    try:
        head = _git(folder, "rev-parse", "HEAD")
        return {"commit": head, "changed": bool(_git(folder, "status", "--porcelain", "--untracked-files=no"))}
    except (OSError, subprocess.SubprocessError):
        return None


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=20, check=True
    )
    return done.stdout.strip()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _memory() -> int | None:
    if sys.platform == "win32":
        return None
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return None
