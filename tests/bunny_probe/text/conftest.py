"""Tokenizers of both families, trained here on our own text: nothing is downloaded."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from bunny_probe.records import Filler
from bunny_probe.text import FileCounter, domains, languages
from bunny_probe.text.haystack import sentences

CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
SPECIAL = ["<unk>", "<|im_start|>", "<|im_end|>"]


def corpus() -> Iterator[str]:
    for language in languages():
        for domain in domains(language):
            for block in islice(sentences(Filler("haystack", language, domain, 5)), 1):
                yield " ".join(block[:150])


def byte_level() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=1500, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def metaspace(*, split: bool) -> Tokenizer:
    """SentencePiece's way: spaces become a mark that is put before the text too; only spaces split."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="never")
    fallback = [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=1800, special_tokens=[*SPECIAL, *fallback], show_progress=False)
    tokenizer.train_from_iterator(corpus(), trainer)
    if not split:  # as Llama 2's file: the merges alone keep pieces apart
        tokenizer.pre_tokenizer = None
    return tokenizer


def gluing() -> Tokenizer:
    """A tokenizer whose counts do not add up: it has pieces that reach over the end of a sentence."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    trainer = trainers.BpeTrainer(vocab_size=4000, special_tokens=SPECIAL, show_progress=False)
    short = (" ".join(text.split()[:120]) for text in corpus())
    tokenizer.train_from_iterator(short, trainer)
    return tokenizer


@pytest.fixture(scope="session", params=["byte-level", "metaspace", "llama"])
def counter(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> FileCounter:
    """Counters whose counts add up, one of each kind of tokenizer."""
    made = {
        "byte-level": byte_level,
        "metaspace": lambda: metaspace(split=True),
        "llama": lambda: metaspace(split=False),
    }[request.param]()
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    made.save(str(path))
    return FileCounter(path, template=CHATML)


@pytest.fixture(scope="session")
def stubborn(tmp_path_factory: pytest.TempPathFactory) -> FileCounter:
    """A counter whose counts do not add up."""
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    gluing().save(str(path))
    return FileCounter(path, template=CHATML)
