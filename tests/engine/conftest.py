"""Fixtures of the engine's tests: tiny random models on disk, and a cache of their own."""

from __future__ import annotations

import os

import pytest

os.environ.setdefault("TRITON_INTERPRET", "1")  # kernels run on the CPU; read when triton is imported
os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # as `bunny-engine serve` does; before torch is imported
import tiny_models
import torch

torch.set_num_threads(1)  # tiny products only wait for each other on more


@pytest.fixture(autouse=True)
def own_cache(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Conversions of the tests go to a folder of theirs; tests of the real model share the user's cache."""
    if request.node.get_closest_marker("model") is None:
        factory = request.getfixturevalue("tmp_path_factory")
        root = factory.getbasetemp() / "xdg-cache"
        monkeypatch.setenv("XDG_CACHE_HOME", str(root))


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> tiny_models.TinyModel:
    """A random Llama with grouped queries, as a Hugging Face folder and as GGUF."""
    return tiny_models.build(tmp_path_factory.mktemp("tiny"), "llama")
