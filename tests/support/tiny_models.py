"""Small random checkpoints, written as transformers writes them and as llama.cpp's converter writes them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
import transformers
from bunny_engine.tokenizer import byte_letters

LETTERS = byte_letters()
MERGES = ["h e", "l l", "he ll", "hell o", "Ġ w", "Ġw o", "r l", "Ġwo rl", "Ġworl d", "Ġ t"]
MARKERS = ["<|im_start|>", "<|im_end|>", "<|endoftext|>"]
TOKENS = [*MARKERS, *LETTERS, *(merge.replace(" ", "") for merge in MERGES)]
VOCAB = len(TOKENS)
TEMPLATE = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"


@dataclass(frozen=True)
class TinyModel:
    folder: Path
    gguf: Path
    reference: Any  # transformers' model, float32, in evaluation mode


def build(root: Path, architecture: str, seed: int = 0, **changes: Any) -> TinyModel:
    """`architecture`: llama, qwen2, qwen3 or gemma3."""
    torch.manual_seed(seed)
    if architecture == "gemma3":  # a period of three layers instead of six, and a window that a chunk outgrows
        ropes = {"sliding_attention": 10_000.0, "full_attention": 1_000_000.0}
        changes = {
            "num_hidden_layers": 5,
            "layer_types": ["sliding_attention", "sliding_attention", "full_attention"] * 2,
            "sliding_window": 24,
            "query_pre_attn_scalar": 16,
            "hidden_activation": "gelu_pytorch_tanh",
            "rope_parameters": {
                kind: {"rope_type": "default", "rope_theta": base} for kind, base in ropes.items()
            },
            **changes,
        }
        changes["layer_types"] = changes["layer_types"][: changes["num_hidden_layers"]]
    sizes: dict[str, Any] = {
        "vocab_size": VOCAB,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "max_position_embeddings": 256,
        "rms_norm_eps": 1e-5,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0},
        "tie_word_embeddings": True,
        "initializer_range": 0.3,
        "bos_token_id": 0,
        "eos_token_id": 1,
        **changes,
    }
    names = {"llama": "Llama", "qwen2": "Qwen2", "qwen3": "Qwen3", "gemma3": "Gemma3"}
    suffix = "TextConfig" if architecture == "gemma3" else "Config"
    config = getattr(transformers, names[architecture] + suffix)(**sizes)
    reference = getattr(transformers, f"{names[architecture]}ForCausalLM")(config).eval().float()
    with torch.no_grad():
        for name, parameter in reference.named_parameters():
            if "norm" in name:
                middle = 0 if architecture == "gemma3" else 1  # Gemma keeps what is added to 1
                parameter.copy_(middle + 0.2 * torch.randn_like(parameter))
            elif name.endswith("bias"):
                parameter.copy_(0.3 * torch.randn_like(parameter))
    folder = root / f"{architecture}-folder"
    reference.save_pretrained(folder)
    write_tokenizer(folder)
    path = root / f"{architecture}.gguf"
    write_gguf(path, architecture, reference, config)
    return TinyModel(folder, path, reference)


def write_tokenizer(folder: Path) -> None:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    vocab = {token: index for index, token in enumerate(TOKENS)}
    merges = [tuple(merge.split(" ")) for merge in MERGES]
    backend = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(marker, special=True, normalized=False) for marker in MARKERS])
    backend.save(str(folder / "tokenizer.json"))
    about = {"bos_token": MARKERS[0], "eos_token": MARKERS[1], "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(about))


def interleaved(weight: np.ndarray, heads: int) -> np.ndarray:
    """Q and K rows in the order that llama.cpp's converter stores them in."""
    rows, columns = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(weight.shape)


def write_gguf(path: Path, architecture: str, reference: Any, config: Any, kind: str = "F32") -> None:
    """`kind`: F32, F16 or Q8_0 for the matrices."""
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_rope_dimension_count(config.head_dim)
    if architecture == "gemma3":
        writer.add_rope_freq_base(config.rope_parameters["full_attention"]["rope_theta"])
        writer.add_sliding_window(config.sliding_window)
        writer.add_sliding_window_pattern(config.layer_types.index("full_attention") + 1)
    else:
        writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(TOKENS)
    kinds = [gguf.TokenType.CONTROL] * len(MARKERS) + [gguf.TokenType.NORMAL] * (VOCAB - len(MARKERS))
    writer.add_token_types(kinds)
    writer.add_token_merges(MERGES)
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_chat_template(TEMPLATE)
    names = gguf.get_tensor_name_map(getattr(gguf.MODEL_ARCH, architecture.upper()), config.num_hidden_layers)
    stored = gguf.GGMLQuantizationType[kind]
    for name, tensor in reference.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        value = tensor.float().numpy()
        if architecture == "llama" and ("q_proj" in name or "k_proj" in name):
            value = interleaved(
                value, config.num_attention_heads if "q_proj" in name else config.num_key_value_heads
            )
        if architecture == "gemma3" and "norm" in name:
            value = value + 1  # as llama.cpp's converter does
        target = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert target, name
        if value.ndim > 1 and stored != gguf.GGMLQuantizationType.F32:
            writer.add_tensor(target, gguf.quants.quantize(value, stored), raw_dtype=stored)
        else:
            writer.add_tensor(target, np.ascontiguousarray(value))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
