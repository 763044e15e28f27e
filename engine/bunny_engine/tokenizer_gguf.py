"""A tokenizer built from GGUF metadata: byte-level BPE with the pre-tokeniser it names, or SentencePiece."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Backend

from bunny_engine.errors import DamagedWeights, UnsupportedModel
from bunny_engine.gguf_file import GgufFile
from bunny_engine.tokenizer import TokenizerFacts, byte_letters
from bunny_engine.tokenizer_spm import spm_backend

__all__ = ["from_gguf"]

_CONTROL, _USER_DEFINED = 3, 4  # ggml's token types
_ENDINGS = {
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<|endoftext|>",
    "<|end|>",
    "</s>",
    "<end_of_turn>",
}

# How text is cut before merging, by the name that the file gives.
_DIGITS = ("smollm",)
_PATTERNS = {
    "llama-bpe": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
    "qwen2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
}
_PLAIN = ("gpt-2", "default")


def from_gguf(path: Path) -> tuple[str, TokenizerFacts]:
    """The text of a tokenizer.json, and the facts beside it. Raises DamagedWeights, UnsupportedModel."""
    with GgufFile(path) as file:
        metadata = file.metadata
    model = metadata.get("tokenizer.ggml.model")
    if model not in ("gpt2", "llama"):
        raise UnsupportedModel(
            f"{path}: tokenizer {model!r}; 'gpt2' (byte-level BPE) and 'llama' (SentencePiece) are read. "
            "A Hugging Face folder with tokenizer.json works for the others."
        )
    tokens = _listed(path, metadata, "tokenizer.ggml.tokens", str)
    kinds = _listed(path, metadata, "tokenizer.ggml.token_type", int)
    controls = [index for index, kind in enumerate(kinds) if kind == _CONTROL and index < len(tokens)]
    facts = _facts(path, metadata, tokens, controls, byte_level=model == "gpt2")
    if model == "llama":
        scores = _listed(path, metadata, "tokenizer.ggml.scores", float)
        prefix = bool(metadata.get("tokenizer.ggml.add_space_prefix", True))
        unknown = facts.variables.get("unk_token", "<unk>")
        backend = spm_backend(path, tokens, scores, kinds, prefix=prefix, unknown=unknown)
        return backend.to_str(), facts
    merges = [tuple(line.split(" ")) for line in _listed(path, metadata, "tokenizer.ggml.merges", str)]
    vocab = {token: index for index, token in enumerate(tokens)}
    if len(vocab) != len(tokens) or len(kinds) != len(tokens):
        raise DamagedWeights(
            f"{path}: {len(tokens)} tokens, {len(vocab)} of them distinct, {len(kinds)} token types"
        )
    # Some vocabularies, SmolLM2's among them, lack a few bytes that their training text never held.
    if missing := set(byte_letters()[32:127]) - vocab.keys():
        raise DamagedWeights(f"{path}: no token for {len(missing)} of the ASCII characters")
    if any(len(pair) != 2 or pair[0] not in vocab or pair[1] not in vocab for pair in merges):
        raise DamagedWeights(f"{path}: a merge joins what is not among the tokens")
    try:
        backend = Backend(models.BPE(vocab=vocab, merges=merges, fuse_unk=False, byte_fallback=False))
    except Exception as error:  # the binding raises bare Exception
        raise DamagedWeights(f"{path}: the tokens and merges do not fit together ({error})") from None
    backend.pre_tokenizer = _pre_tokenizer(path, metadata)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(
        [AddedToken(tokens[index], special=True, normalized=False) for index in controls]
    )
    backend.add_tokens(
        [
            AddedToken(tokens[i], special=False, normalized=False)
            for i, k in enumerate(kinds)
            if k == _USER_DEFINED
        ]
    )
    return backend.to_str(), facts


def _facts(
    path: Path, metadata: dict[str, Any], tokens: list[str], controls: list[int], *, byte_level: bool
) -> TokenizerFacts:
    def token_id(name: str) -> int | None:
        value = metadata.get(f"tokenizer.ggml.{name}_token_id")
        if value is not None and (not isinstance(value, int) or not 0 <= value < len(tokens)):
            raise DamagedWeights(f"{path}: {name}_token_id is {value!r} of {len(tokens)} tokens")
        return value

    ends = {end for name in ("eos", "eot", "eom") if (end := token_id(name)) is not None}
    ends |= {index for index in controls if tokens[index] in _ENDINGS}
    if not ends:
        raise DamagedWeights(f"{path}: no end token is named")
    bos = token_id("bos")
    template = metadata.get("tokenizer.chat_template")
    if template is not None and not isinstance(template, str):
        raise DamagedWeights(f"{path}: tokenizer.chat_template is not text")
    variables = {
        f"{n}_token": tokens[i] for n in ("bos", "eos", "unknown", "padding") if (i := token_id(n)) is not None
    }
    for ours, theirs in (("unk_token", "unknown_token"), ("pad_token", "padding_token")):
        if theirs in variables:
            variables[ours] = variables.pop(theirs)
    return TokenizerFacts(
        eos_ids=sorted(ends),
        control=dict(sorted((tokens[index], index) for index in controls)),
        byte_level=byte_level,
        bos_id=bos if metadata.get("tokenizer.ggml.add_bos_token", not byte_level) else None,
        chat_template=template,
        variables=variables,
    )


def _pre_tokenizer(path: Path, metadata: dict[str, Any]) -> Any:
    name = metadata.get("tokenizer.ggml.pre", "default")
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    if name in _PLAIN:
        return byte_level
    if name in _DIGITS:
        return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level])
    if name in _PATTERNS:
        split = pre_tokenizers.Split(Regex(_PATTERNS[name]), behavior="isolated")
        return pre_tokenizers.Sequence(
            [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
        )
    known = ", ".join(sorted((*_PLAIN, *_DIGITS, *_PATTERNS)))
    raise UnsupportedModel(f"{path}: pre-tokeniser {name!r}; these are known: {known}")


def _listed(path: Path, metadata: dict[str, Any], key: str, kind: type) -> list[Any]:
    values = metadata.get(key)
    if not isinstance(values, list) or not values or any(type(value) is not kind for value in values):
        raise DamagedWeights(f"{path}: metadata {key} is missing or not a list of {kind.__name__}")
    return values
