"""The user's own documents as filling text: read once, cut at spaces, known by their content.

Files are UTF-8 text, Markdown, or JSONL with a text in each line. A document is cut behind the end of a
sentence where a space follows, and nowhere else, so that joining the pieces with a space gives the text
back; line breaks stay inside pieces. A piece without such a place is cut at a space after 400 characters.
In text of a script without spaces, a space is put behind the end of a sentence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bunny_probe.errors import SuiteError
from bunny_probe.records import Filler, content_hash
from bunny_probe.text import haystack
from bunny_probe.text.fillers import Source, filler

__all__ = ["load_documents", "pieces", "read_documents", "read_jsonl"]

_SUFFIXES = (".txt", ".md", ".markdown", ".jsonl")
_LONG = 400  # characters
_BORDER = re.compile(r"(?<=[.!?:;…\"')\]»”。！？；]) (?=\S)")
_DENSE_END = re.compile(r"(?<=[。！？；])(?=[⺀-鿿])")
_BLOCK = 512

_LOADED: dict[str, tuple[str, ...]] = {}  # digest → pieces; what a `Filler` of kind "documents" names


def load_documents(path: Path, *, field: str = "text", max_bytes: int = 64_000_000) -> str:
    """Reads the documents at `path` and gives the digest under which `Filler.params` name them.

    `path` is a file, a folder (searched through), or a glob. Raises `SuiteError` that names the file for
    one that is binary, too large, empty or damaged, and when there is none.
    """
    texts = [text for _, text in read_documents(path, field=field, max_bytes=max_bytes)]
    cut = tuple(pieces(texts))
    digest = content_hash(cut, length=20)
    _LOADED[digest] = cut
    return digest


def read_documents(path: Path, *, field: str, max_bytes: int) -> list[tuple[str, str]]:
    """(name, text) of each document, in order of name. See `load_documents` for what is refused."""
    found = _files(path)
    if not found:
        kinds = ", ".join(_SUFFIXES)
        raise SuiteError(f"holds no documents; allowed: files ending in {kinds}", file=str(path))
    documents = []
    for file in found:
        text = _text(file, max_bytes)
        if file.suffix == ".jsonl":
            documents += [
                (f"{file.name}:{number}", _member(record, field, file, number))
                for number, record in read_jsonl(file, max_bytes)
            ]
        else:
            documents.append((file.name, text))
    kept = [(name, text) for name, text in documents if text.strip()]
    if not kept:
        raise SuiteError("holds no text", file=str(path))
    return kept


def read_jsonl(file: Path, max_bytes: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """(line number, object) of each line that is not blank. Raises `SuiteError` naming file and line."""
    for number, line in enumerate(_text(file, max_bytes).splitlines(), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError as error:
            raise SuiteError(f"line {number} is not JSON: {error}", file=str(file)) from None
        if not isinstance(record, dict):
            raise SuiteError(f"line {number} is not a JSON object", file=str(file))
        yield number, record


def pieces(texts: Sequence[str]) -> Iterator[str]:
    """The texts cut at spaces; joined with single spaces they are the texts again, one blank line between."""
    whole = "\n\n".join(text.strip() for text in texts)
    whole = re.sub(r"[^\S\n]+", " ", _DENSE_END.sub(" ", whole))
    for piece in _BORDER.split(whole):
        start = 0
        while len(piece) - start > _LONG and (space := piece.find(" ", start + _LONG)) >= 0:
            yield piece[start:space]
            start = space + 1
        yield piece[start:]


@filler("documents")
def _documents(wanted: Filler) -> Source:
    """The loaded documents named by `params["digest"]`, begun at a piece that the seed chooses."""
    digest = str(wanted.params["digest"])
    if digest not in _LOADED:
        raise SuiteError(f"the documents {digest} are not loaded: read the suite again with its files in place")
    cut = _LOADED[digest]
    start = wanted.seed % len(cut)
    turned = [*cut[start:], *cut[:start]]
    blocks = (turned[at : at + _BLOCK] for at in range(0, len(turned), _BLOCK))
    domain = haystack.domains(wanted.language)[0]
    return Source(blocks, haystack.bank(wanted.language, domain).closers)


def _files(path: Path) -> list[Path]:
    found: Iterator[Path]
    if path.is_dir():
        found = path.rglob("*")
    elif path.is_file():
        return [path]
    else:
        parts = path.parts
        magic = next((i for i, part in enumerate(parts) if set("*?[") & set(part)), None)
        if magic is None:
            raise SuiteError("there is no such file or folder", file=str(path))
        root = Path(*parts[:magic])
        found = root.glob(str(Path(*parts[magic:]))) if root.is_dir() else iter(())
    return sorted(file for file in found if file.is_file() and file.suffix in _SUFFIXES)


def _text(file: Path, max_bytes: int) -> str:
    size = file.stat().st_size
    if size > max_bytes:
        raise SuiteError(f"has {size:,} bytes; allowed: up to {max_bytes:,}", file=str(file))
    data = file.read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SuiteError("is not UTF-8 text (a binary file?)", file=str(file)) from None
    if "\0" in text:
        raise SuiteError("is a binary file", file=str(file))
    return text.replace("\r\n", "\n")


def _member(record: dict[str, Any], field: str, file: Path, number: int) -> str:
    if not isinstance(record.get(field), str):
        raise SuiteError(f"line {number} has no text under {field!r}", file=str(file), key=field)
    return str(record[field])
