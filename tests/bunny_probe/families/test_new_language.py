"""A language and a domain are added by files under data/ and probes/ alone."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from bunny_probe import resources, suites
from bunny_probe.families import length_links, plan
from bunny_probe.records import Message
from bunny_probe.text import domains, haystack, languages, render, wording

DOMAIN = """
title = "a ship's log"
forms = [
  "{person} saw {thing} off {city} at {time}, {count} miles out.",
  "Wind {count}, {thing} in sight of {city}.",
]
[words]
thing = ["a whale", "a buoy", "two sails", "a reef", "the pilot boat"]
"""


class Letters:
    """A counter that is right by inspection: every character is a token."""

    fingerprint = "letters"
    exact = True
    additive = True
    verify_below = 0
    guard = 0

    def counts(self, texts: list[str]) -> list[int]:
        return [len(text) for text in texts]

    def following(self, texts: list[str]) -> list[int]:
        return [1 + len(text) for text in texts]

    def chat(self, messages: tuple[Message, ...]) -> int:
        return 9 + sum(len(m.content) for m in messages)


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The bundled files in a folder of their own, from which everything is read."""
    for name in ("data", "probes"):
        shutil.copytree(resources.resource_dir(name), tmp_path / name)
    for module in (haystack, wording, length_links):
        monkeypatch.setattr(module, "resource_dir", lambda name: tmp_path / name)
    caches = (
        haystack.bank,
        haystack._tables,
        wording.wording,
        wording.anchor_words,
        wording._toml,
        length_links._hops,
    )
    for cache in caches:
        cache.cache_clear()
    yield tmp_path
    for cache in caches:
        cache.cache_clear()


def rendered(text: str) -> list[str]:
    contents = []
    for trial in plan(suites.parse(text, Path("mine.toml"))):
        made = render(trial.probe, Letters())
        assert Letters().chat(made.messages) == trial.probe.length_tokens
        contents.append(made.messages[-1].content)
    return contents


def test_a_domain_is_one_file(copy: Path) -> None:
    """A new domain file is found, asked for by name, and written with."""
    (copy / "data/haystack/en/ship.toml").write_text(DOMAIN, "utf-8")
    assert "ship" in domains("en")
    text = '[[probe]]\nfamily = "position"\ntask = "single"\nlengths = [3000]\ndomains = ["ship"]\n'
    for content in rendered(text):
        assert content.startswith("Read a ship's log below.")
        assert " off " in content


def test_a_language_is_a_folder_and_two_files(copy: Path) -> None:
    """With a haystack, key words and templates, every length and position task speaks the language."""
    shutil.copytree(copy / "data/haystack/en", copy / "data/haystack/xx")
    shutil.copy(copy / "data/anchors/en.toml", copy / "data/anchors/xx.toml")
    template = (copy / "probes/templates/en.toml").read_text("utf-8").replace("Question:", "Domanda:")
    (copy / "probes/templates/xx.toml").write_text(template, "utf-8")
    hops = copy / "data/latent_hops.toml"
    english = hops.read_text("utf-8")
    body = english[english.index("[en]") : english.index("[zh]")].replace("[en]", "[xx]")
    hops.write_text(f"{english}\n{body}", "utf-8")
    assert "xx" in languages()
    from bunny_probe.families import TASKS

    for family, name in TASKS:
        if family in ("length", "position"):
            text = f'[[probe]]\nfamily = "{family}"\ntask = "{name}"\nlengths = [6000]\nlanguages = ["xx"]\n'
            assert all("Domanda:" in content for content in rendered(text)), name
