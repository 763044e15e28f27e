"""The haystack: endless, varied, readable, and the same everywhere."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zlib
from itertools import islice

import pytest

from bunny_probe.errors import SuiteError
from bunny_probe.records import Filler
from bunny_probe.text import domains, languages, source
from bunny_probe.text.haystack import bank, sentences
from bunny_probe.text.wording import anchor_words

CELLS = [(language, domain) for language in languages() for domain in domains(language)]


def written(language: str, domain: str, seed: int = 1, blocks: int = 12) -> list[str]:
    stream = sentences(Filler("haystack", language, domain, seed))
    return [text for block in islice(stream, blocks) for text in block]


def test_four_domains_in_both_languages() -> None:
    """English and Chinese have the contract, the medical record, the operations log and the minutes."""
    assert languages() == ["en", "zh"]
    for language in languages():
        assert {"contract", "medical", "operations", "meeting"} <= set(domains(language))


@pytest.mark.parametrize(("language", "domain"), CELLS)
def test_text_is_varied(language: str, domain: str) -> None:
    """Hardly a sentence stands twice, and deflate finds little to save."""
    texts = written(language, domain)
    assert len(set(texts)) >= 0.99 * len(texts)
    raw = " ".join(texts).encode()
    assert len(raw) / len(zlib.compress(raw, 9)) <= 4.5


@pytest.mark.parametrize(("language", "domain"), CELLS)
def test_sentences_are_whole(language: str, domain: str) -> None:
    """Each is one line that begins with a capital or a digit, ends in a stop, and has no slot left open."""
    for text in written(language, domain, blocks=4):
        assert text == text.strip()
        assert text[-1] in ".。"
        assert not set("{}#^@%\n") & set(
            text.replace("%", "") if domain == "operations" or language == "zh" else text
        )
        assert "  " not in text
        assert language == "zh" or text[0].upper() == text[0]


def test_what_is_planted_never_stands_in_the_haystack() -> None:
    """No key or value word of an anchor can come up in the filling text by chance."""
    for language, domain in CELLS:
        text = " ".join(written(language, domain, blocks=2))
        words = anchor_words(language)
        keys = [a + words["gap"] + b for a in words["key_first"] for b in words["key_second"]]
        names = [a + words["gap"] + b for a in words["person_first"] for b in words["person_last"]]
        for planted in (*keys, *names, *words["words"], *words["places"]):
            assert planted not in text, (language, domain, planted)


def test_streams_differ_by_seed_and_repeat_by_it() -> None:
    """A seed gives one stream for ever; another gives another."""
    assert written("en", "meeting", 3) == written("en", "meeting", 3)
    assert not set(written("en", "meeting", 3)[:50]) & set(written("en", "meeting", 4)[:50])


def test_the_stream_is_the_same_in_every_process() -> None:
    """Hash randomisation of the interpreter does not reach the text."""
    code = (
        "import hashlib;from itertools import islice;from bunny_probe.records import Filler;"
        "from bunny_probe.text import source;"
        "s=source(Filler('haystack','zh','medical',8));"
        "print(hashlib.sha256(repr(list(islice(s.blocks,2))).encode()).hexdigest())"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("0", "1234")
    }
    here = list(islice(source(Filler("haystack", "zh", "medical", 8)).blocks, 2))
    assert seen == {hashlib.sha256(repr(here).encode()).hexdigest()}


def test_unknown_language_domain_and_kind_list_the_choices() -> None:
    """A typing slip is answered with what there is."""
    with pytest.raises(SuiteError, match="Choices: en, zh"):
        bank("fr", "contract")
    with pytest.raises(SuiteError, match="Did you mean 'contract'"):
        bank("en", "contracts")
    with pytest.raises(SuiteError, match=r"Choices: .*haystack"):
        source(Filler("hay", "en", "contract", 1))
