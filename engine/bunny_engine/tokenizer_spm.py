"""A SentencePiece vocabulary of GGUF as byte-pair merges: pieces with scores, bytes where no piece fits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tokenizers import AddedToken, decoders, models, normalizers
from tokenizers import Tokenizer as Backend

from bunny_engine.errors import DamagedWeights

__all__ = ["spm_backend"]

_NORMAL, _CONTROL, _USER_DEFINED = 1, 3, 4  # ggml's token types
_LONGEST = 512  # characters of a piece; a longer one would take its square of time


def spm_backend(
    path: Path,
    tokens: Sequence[str],
    scores: Sequence[float],
    kinds: Sequence[int],
    *,
    prefix: bool,
    unknown: str,
) -> Backend:
    """`prefix`: whether a text is read as if it began with a space. Raises DamagedWeights.

    SentencePiece's BPE joins the neighbours whose union has the best score. As merges: every way to cut a piece
    in two pieces, those of the best piece first.
    """
    vocab = {token: index for index, token in enumerate(tokens)}
    if not len(vocab) == len(tokens) == len(scores) == len(kinds):
        raise DamagedWeights(
            f"{path}: {len(tokens)} tokens, {len(vocab)} of them distinct, "
            f"{len(scores)} scores, {len(kinds)} token types"
        )
    if unknown not in vocab or any(len(token) > _LONGEST for token in tokens):
        raise DamagedWeights(f"{path}: no token for what is unknown, or one of over {_LONGEST} characters")
    pieces = sorted((i for i, kind in enumerate(kinds) if kind == _NORMAL), key=lambda i: (-scores[i], i))
    merges = []
    for index in pieces:
        piece = tokens[index]
        cuts = ((piece[:at], piece[at:]) for at in range(1, len(piece)))
        found = [(vocab[a], vocab[b], a, b) for a, b in cuts if a in vocab and b in vocab]
        merges += [(a, b) for _, _, a, b in sorted(found)]
    backend = Backend(
        models.BPE(vocab=vocab, merges=merges, unk_token=unknown, fuse_unk=True, byte_fallback=True)
    )
    spaces = normalizers.Replace(" ", "\u2581")
    backend.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), spaces]) if prefix else spaces
    backend.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    for kind, special in ((_CONTROL, True), (_USER_DEFINED, False)):
        added = [
            AddedToken(t, special=special, normalized=False)
            for t, k in zip(tokens, kinds, strict=True)
            if k == kind
        ]
        backend.add_special_tokens(added) if special else backend.add_tokens(added)
    return backend
