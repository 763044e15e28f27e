"""Counters from a tokenizer file: what they count, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from bunny_probe.errors import UsageError
from bunny_probe.records import Message
from bunny_probe.text import ChatOverhead, FileCounter
from bunny_probe.text.counting import bank_texts

TEXTS = ["One sentence.", "And 12 more, 'quoted'.", "合同第3条。"]
CHAT = [Message("system", "Be brief."), Message("user", "What is 1 + 1?")]


@pytest.fixture
def folder(counter: FileCounter, tmp_path: Path) -> Path:
    counter._tokenizer.save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def test_counts_are_the_tokenizers_own(counter: FileCounter, folder: Path) -> None:
    """A count is the number of ids that the file's tokenizer gives, without markers."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert counter.counts(TEXTS) == [len(tokenizer.encode(t, add_special_tokens=False).ids) for t in TEXTS]
    assert counter.counts([]) == []


def test_counts_add_up_on_the_whole_bank(counter: FileCounter) -> None:
    """Additivity is found by trying, and then holds for every language."""
    assert counter.additive
    for group in bank_texts():
        whole = counter.counts([" ".join(group)])[0]
        assert counter.counts(group[:1])[0] + sum(counter.following(group[1:])) == whole


def test_the_chat_count_holds_the_template(counter: FileCounter, folder: Path) -> None:
    """A request counts the rendered template with the generation prompt."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    text = (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nWhat is 1 + 1?<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    assert counter.chat(CHAT) == len(tokenizer.encode(text, add_special_tokens=False).ids)


def test_the_template_beside_the_file_is_found(folder: Path) -> None:
    """chat_template.jinja and tokenizer_config.json are read, special tokens too."""
    config = {"bos_token": {"content": "<s>"}, "chat_template": "{{ bos_token }}{{ messages[0].content }}"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config), "utf-8")
    from_config = FileCounter(folder)
    assert from_config.chat(CHAT) == from_config.counts(["<s>Be brief."])[0]
    (folder / "chat_template.jinja").write_text("{{ messages[-1].content }}", "utf-8")
    assert FileCounter(folder).chat(CHAT) == from_config.counts(["What is 1 + 1?"])[0]


def test_a_measured_overhead_stands_in_for_a_template(folder: Path) -> None:
    """Tokens a request and a message are added to those of the contents."""
    counter = FileCounter(folder, overhead=ChatOverhead(request=7, message=4))
    assert counter.chat(CHAT) == 7 + 2 * 4 + sum(counter.counts([m.content for m in CHAT]))


def test_fingerprints_name_tokenizer_and_template(folder: Path) -> None:
    """Equal files and templates have equal fingerprints; another template has another."""
    one, same, other = (FileCounter(folder, template=t) for t in ("{{ 1 }}", "{{ 1 }}", "{{ 2 }}"))
    assert one.fingerprint == same.fingerprint != other.fingerprint


def test_what_cannot_be_read_is_refused_by_name(folder: Path, tmp_path: Path) -> None:
    """A missing or damaged file and a missing or broken template are usage errors."""
    with pytest.raises(UsageError, match="no chat template beside"):
        FileCounter(folder)
    with pytest.raises(UsageError, match="not valid Jinja"):
        FileCounter(folder, template="{% if %}")
    with pytest.raises(UsageError, match=r"nowhere.json is not a tokenizer.json"):
        FileCounter(tmp_path / "nowhere.json", template="x")
    (tmp_path / "bad.json").write_text("{}", "utf-8")
    with pytest.raises(UsageError, match=r"bad.json is not a tokenizer.json"):
        FileCounter(tmp_path / "bad.json", template="x")


def test_a_template_cannot_reach_the_machine(folder: Path) -> None:
    """Templates run in a sandbox: one that reaches for Python's insides is stopped."""
    counter = FileCounter(folder, template="{{ messages.__class__.__mro__[1].__subclasses__() }}")
    with pytest.raises(UsageError, match="chat template"):
        counter.chat(CHAT)
