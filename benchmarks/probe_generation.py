"""Probes of exact length: is the length true, what does it cost, and is the text varied?

    python benchmarks/probe_generation.py [--quick] [--json]

The peer is one batch encoding, by `tokenizers`, of the very texts that were built: whoever wants to know
a prompt's length must pay that much. (`encode_batch_fast`, which gives no offsets, is shown beside it.)
Two tokenizers: the bundled model's (byte-level BPE), and one in SentencePiece's style (metaspace, byte
fallback) that is trained here on our own text. Lengths are checked by encoding each finished prompt whole,
apart from the code under test. Exits 0 only if every bar holds.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

from bunny_probe.records import Expectation, Filler, Insertion, Message, Probe, Recipe
from bunny_probe.text import FileCounter, domains, languages, render
from bunny_probe.text.haystack import sentences

CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
K = 1024
LONG = 1024 * K
SPAN = 50  # tokens of which no series may stand twice

Bar = dict[str, Any]


def probe(length: int, language: str, domain: str, seed: int) -> Probe:
    """Five facts in a document and a question about one of them."""
    depths = (0.1, 0.3, 0.5, 0.7, 0.9)
    texts = tuple(Insertion(f"The access code for Door {i} is 48{i}13.", d) for i, d in enumerate(depths))
    recipe = Recipe(
        "Read the document below. A question about it follows at the end.\n\n",
        "\n\nQuestion: What is the access code for Door 2? Reply with the code only.",
        Filler("haystack", language, domain, seed),
        texts,
    )
    return Probe("position", "single", recipe, Expectation("anchor", ("48213",)), length)


def whole(messages: tuple[Message, ...]) -> str:
    """The request as the chat template writes it, written here by hand."""
    turns = "".join(f"<|im_start|>{m.role}\n{m.content}<|im_end|>\n" for m in messages)
    return f"{turns}<|im_start|>assistant\n"


def bundled(folder: Path) -> Path:
    """The default model's tokenizer, lifted out of its file."""
    from bunny_engine.fetch import resolve
    from bunny_engine.tokenizer_gguf import from_gguf

    path = folder / "bundled.json"
    path.write_text(from_gguf(resolve("smollm2-135m-instruct").path)[0], "utf-8")
    return path


def sentencepiece_style(folder: Path) -> Path:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

    def corpus() -> Iterator[str]:
        for language in languages():
            for domain in domains(language):
                for block in islice(sentences(Filler("haystack", language, domain, 99)), 1):
                    yield " ".join(block)

    made = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    made.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="never")
    special = ["<unk>", "<|im_start|>", "<|im_end|>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=4000, special_tokens=special, show_progress=False)
    made.train_from_iterator(corpus(), trainer)
    path = folder / "sentencepiece.json"
    made.save(str(path))
    return path


# ── what is measured ────────────────────────────────────────────────────────────────────────────────


def exactness(name: str, path: Path, lengths: list[int], samples: int, rows: list[list[str]]) -> list[Bar]:
    """Every prompt encoded whole by the tokenizer itself; and the tokens that building it took."""
    from tokenizers import Tokenizer

    judge = Tokenizer.from_file(str(path))
    counter = FileCounter(path, template=CHATML)
    bars = []
    for length in lengths:
        wrong, spent, delivered = 0, 0, 0
        for seed in range(samples if length < 100 * K else 1):
            for language in languages() if length < LONG else ["en"]:
                domain = domains(language)[seed % len(domains(language))]
                rendered = render(
                    probe(length, language, domain, 10 * length + seed), counter
                )  # no document twice
                counted = len(judge.encode_batch_fast([whole(rendered.messages)], add_special_tokens=False)[0])
                wrong += counted != length
                spent += rendered.tokenised
                delivered += length
        ratio = spent / delivered
        prompts = delivered // length
        rows.append(
            [name, f"{length:,}", f"{prompts - wrong} of {prompts} exact", f"{ratio:.3f} tokenised a token"]
        )
        bars.append(bar(f"{name}, {length:,} tokens: prompts of another length", wrong, 0))
        bars.append(bar(f"{name}, {length:,} tokens: tokenised per token delivered", ratio, 1.1))
    return bars


def speed(name: str, path: Path, rounds: int, count: int, rows: list[list[str]]) -> Bar:
    """Building prompts of 131,072 tokens against encoding the finished texts in one batch."""
    from tokenizers import Tokenizer

    peer = Tokenizer.from_file(str(path))
    counter = FileCounter(path, template=CHATML)
    render(probe(K, "en", "contract", 0), counter)  # the counter learns its border, once for its life
    for language in languages():
        render(probe(2 * K, language, "contract", 0), counter)
    ours: list[float] = []
    theirs: dict[str, list[float]] = {"encode_batch": [], "encode_batch_fast": []}
    for round_ in range(rounds):
        asked = [
            probe(128 * K, languages()[i % 2], domains("en")[i % 4], 1000 * round_ + i) for i in range(count)
        ]
        start = time.perf_counter()
        texts = [whole(render(one, counter).messages) for one in asked]
        ours.append(time.perf_counter() - start)
        for method, times in theirs.items():
            start = time.perf_counter()
            getattr(peer, method)(texts, add_special_tokens=False)
            times.append(time.perf_counter() - start)
    for method, times in theirs.items():
        ratio = median(a / b for a, b in zip(ours, times, strict=True))
        took = f"{median(ours):.2f} s against {median(times):.2f} s"
        rows.append([name, f"{count} x 131,072", took, f"{ratio:.2f} times one {method}"])
    ratio = median(a / b for a, b in zip(ours, theirs["encode_batch"], strict=True))
    return bar(f"{name}: time for {count} prompts of 131,072 tokens over one encode_batch", ratio, 1.5)


def memory(name: str, path: Path, length: int, rows: list[list[str]]) -> Bar:
    """Peak resident memory above what the imports take, in a process of its own."""
    call = [sys.executable, __file__, "--memory-of", str(path), str(length)]
    used = float(subprocess.run(call, check=True, capture_output=True, text=True).stdout)
    rows.append([name, f"{length:,}", f"{used:.0f} MB above import", ""])
    return bar(f"{name}, {length:,} tokens: peak memory above import, MB", used, 300)


def memory_of(path: str, length: int) -> float:
    import tokenizers  # noqa: F401 (part of the imports, not of the work)

    base = peak()
    render(probe(length, "en", "operations", 1), FileCounter(path, template=CHATML))
    return (peak() - base) / 1024


def peak() -> int:
    """This process's own peak in KiB. Linux's `ru_maxrss` would still hold the parent's, from before exec."""
    status = Path("/proc/self/status")
    if status.is_file():
        return int(
            next(line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        )
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def variety(path: Path, tokens: int, rows: list[list[str]], cells: list[tuple[str, str]]) -> list[Bar]:
    """The filling text alone, as much of it as `tokens` take: repeats, and what deflate makes of it."""
    from tokenizers import Tokenizer

    judge = Tokenizer.from_file(str(path))
    bars = []
    for language, domain in cells:
        texts: list[str] = []
        ids: list[int] = []
        for block in sentences(Filler("haystack", language, domain, 7)):
            texts += block
            for encoding in judge.encode_batch_fast([" " + text for text in block], add_special_tokens=False):
                ids += encoding.ids
            if len(ids) >= tokens:
                break
        distinct = len(set(texts)) / len(texts)
        twice = repeated_spans(ids, SPAN)
        raw = " ".join(texts).encode()
        ratio = len(raw) / len(zlib.compress(raw, 9))
        what = f"{language} {domain}"
        found = f"{distinct:.2%} distinct, {twice} repeated spans, deflate {ratio:.2f} times"
        rows.append([what, f"{len(ids):,}", found, f"{len(texts):,} sentences"])
        bars.append(bar(f"{what}: sentences that repeat another, share", 1 - distinct, 0.01))
        bars.append(bar(f"{what}: spans of {SPAN} tokens that stand twice", twice, 0))
        bars.append(bar(f"{what}: deflate at level 9, times smaller", ratio, 4.5))
    return bars


def repeated_spans(ids: list[int], span: int) -> int:
    """How many series of `span` ids begin at more than one place (rolling hash modulo 2**61 - 1)."""
    modulus, base = (1 << 61) - 1, 1_000_003
    top = pow(base, span - 1, modulus)
    value, seen, twice = 0, set(), 0
    for index, one in enumerate(ids):
        if index >= span:
            value = (value - ids[index - span] * top) % modulus
        value = (value * base + one + 1) % modulus if index < span else (value * base + one) % modulus
        if index >= span - 1:
            twice += value in seen
            seen.add(value)
    return twice


def bar(name: str, value: float, limit: float) -> Bar:
    return {"name": name, "value": round(value, 4), "limit": limit, "holds": value <= limit}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="under a minute on two cores")
    parser.add_argument("--json", action="store_true", help="print JSON in place of tables")
    parser.add_argument("--memory-of", nargs=2, metavar=("TOKENIZER", "LENGTH"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory_of:
        print(memory_of(options.memory_of[0], int(options.memory_of[1])))
        return 0
    rows: list[list[str]] = []
    bars: list[Bar] = []
    cells = [(language, domain) for language in languages() for domain in domains(language)]
    with tempfile.TemporaryDirectory() as folder:
        made = {"bundled": bundled(Path(folder)), "sentencepiece style": sentencepiece_style(Path(folder))}
        lengths = [K, 8 * K, 128 * K] + ([] if options.quick else [LONG])
        for name, path in made.items():
            bars += exactness(name, path, lengths, 8, rows)
            bars.append(speed(name, path, 1 if options.quick else 3, 4 if options.quick else 10, rows))
        for name, path in list(made.items())[: 1 if options.quick else 2]:
            bars.append(memory(name, path, LONG, rows))
        chosen = [("en", "medical"), ("zh", "medical")] if options.quick else cells
        bars += variety(made["bundled"], LONG // 4 if options.quick else LONG, rows, chosen)
    if options.json:
        print(json.dumps({"benchmark": "probe_generation", "quick": options.quick, "rows": rows, "bars": bars}))
    else:
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        for row in rows:
            print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
        print()
        for one in bars:
            sign = "holds" if one["holds"] else "FAILS"
            print(f"{sign}  {one['name']}: {one['value']:,} (at most {one['limit']:,})")
    return 0 if all(one["holds"] for one in bars) else 1


if __name__ == "__main__":
    sys.exit(main())
