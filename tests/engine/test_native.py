"""The compiled decode step against the eager one and against transformers, on small random models."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import tiny_models
import torch
from bunny_engine.errors import OptionError
from bunny_engine.fetch import Source
from bunny_engine.loading import has_four_bits, open_engine, open_model
from bunny_engine.memory import DenseMemory, Memory
from bunny_engine.memory_choice import Tally
from bunny_engine.model import Model
from bunny_engine.native import build
from bunny_engine.policies import Policy
from bunny_engine.types import SamplingParams

needs_compiler = pytest.mark.skipif(
    not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="no C compiler is here"
)
ANSWER = 6


@pytest.fixture(scope="module", autouse=True)
def one_cache(tmp_path_factory: pytest.TempPathFactory) -> object:
    """One folder for what is compiled, so that it is compiled once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


def opened(path: Path, dtype: str = "float32", weights: str = "auto", *, compiled: bool = True) -> Model:
    kind = "hf" if path.is_dir() else "gguf"
    source = Source(path.stem, path, kind)  # type: ignore[arg-type]
    return open_model(source, device="cpu", dtype=dtype, weights=weights, compiled=compiled)[0]  # type: ignore[arg-type]


def some_ids(count: int, seed: int = 0) -> list[int]:
    return torch.randint(0, tiny_models.VOCAB, (count,), generator=torch.Generator().manual_seed(seed)).tolist()


def read(model: Model, ids: list[int]) -> DenseMemory:
    memory = DenseMemory(model.config, 700, model.dtype, model.device)
    for start in range(0, len(ids), 256):
        model.chunk(torch.tensor(ids[start : start + 256]), memory)
    return memory


def written(model: Model, ids: list[int], prompt: int, reader: Model | None = None) -> torch.Tensor:
    """Logits of the tokens after the prompt, written one by one; `reader` reads the prompt."""
    with torch.inference_mode():
        memory = read(reader or model, ids[:prompt])
        return torch.cat([model.tokens([token], [memory]) for token in ids[prompt:]])


@needs_compiler
@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3", "gemma3"])
def test_logits_are_those_of_transformers(tmp_path: Path, architecture: str) -> None:
    """Biases, head norms, sliding windows: token by token, over the border of a piece of 256 tokens."""
    tiny = tiny_models.build(
        tmp_path, architecture, seed=7, max_position_embeddings=512, tie_word_embeddings=architecture != "qwen2"
    )
    ids = some_ids(254 + ANSWER, seed=2)
    model = opened(tiny.folder, weights="half")
    assert model.decoder is not None
    with torch.inference_mode():
        for parameter in tiny.reference.parameters():
            if parameter.dim() == 2:
                parameter.copy_(parameter.half())
        want = tiny.reference(torch.tensor([ids])).logits[0, 254:]
    torch.testing.assert_close(written(model, ids, 254), want, atol=2e-4, rtol=0)


@needs_compiler
@pytest.mark.parametrize("weights", ["int4", "int6", "int8", "hybrid"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_each_form_gives_what_it_stands_for(tmp_path: Path, weights: str, dtype: str) -> None:
    """Few bits are read as they are kept, beside keys and values of either type."""
    tiny = tiny_models.build(tmp_path, "llama", seed=5)
    ids, source = some_ids(40 + ANSWER, seed=3), Source("tiny", tiny.folder, "hf")
    checkpoint = open_model(source, dtype="float32", weights=weights)[1]
    tensors = {name: each.dense().half().float() for name, each in checkpoint.matrices.items()}
    plain = Model(checkpoint.config, tensors | checkpoint.vectors, dtype=torch.float32)
    found = written(opened(tiny.folder, dtype, weights), ids, 40, None if dtype == "bfloat16" else plain)
    # int8 has a scale in float32 that float16 rounds; bfloat16 rounds all that flows through the prompt
    tolerance = {"float32": 4e-3, "bfloat16": 5e-2}[dtype] * float(found.abs().max())
    torch.testing.assert_close(found, written(plain, ids, 40), atol=tolerance, rtol=0)


@needs_compiler
def test_a_row_has_its_bits_in_any_company_and_with_any_threads(tiny: tiny_models.TinyModel) -> None:
    """Alone, among others of other lengths, on one thread or three: the same logits, bit by bit."""
    model = opened(tiny.gguf)
    prompts = [some_ids(count, seed=count) for count in (3, 70, 1, 129, 20)]
    before = torch.get_num_threads()
    with torch.inference_mode():
        alone = [model.tokens([5], [read(model, ids)])[0] for ids in prompts]
        try:
            for threads in (1, 3):
                torch.set_num_threads(threads)
                together = model.tokens([5] * len(prompts), [read(model, ids) for ids in prompts])
                assert all(torch.equal(a, b) for a, b in zip(alone, together, strict=True))
        finally:
            torch.set_num_threads(before)


@needs_compiler
def test_a_window_of_blocks_is_read(tiny: tiny_models.TinyModel) -> None:
    """The window policy drops blocks behind the step's back: still the eager step's logits."""
    found = []
    for compiled in (True, False):
        model = opened(tiny.gguf, weights="half", compiled=compiled)
        policy = Policy(name="window", block=64, resident=1)
        memory: Memory = policy.new(model, 256, tally=Tally())
        with torch.inference_mode():
            for start in range(0, 192, 64):
                model.chunk(torch.tensor(some_ids(64, seed=start)), memory)
            found.append(torch.cat([model.tokens([token], [memory]) for token in some_ids(30, seed=8)]))
    torch.testing.assert_close(*found, atol=2e-3, rtol=0)


@needs_compiler
async def test_an_engine_writes_the_eager_engines_greedy_text(tiny: tiny_models.TinyModel) -> None:
    """From the option to the text, through scheduler and sampler."""
    texts = []
    for compiled in (True, False):
        engine, _ = open_engine(Source("tiny", tiny.gguf, "gguf"), weights="half", compiled=compiled)
        try:
            params = SamplingParams(max_tokens=16, temperature=0.0, ignore_eos=True)
            texts.append([item async for item in engine.generate(some_ids(30), params)][1:])
        finally:
            engine.close()
    assert texts[0] == texts[1]


@needs_compiler
def test_what_is_no_number_shows(tiny: tiny_models.TinyModel) -> None:
    """A key that is not finite makes logits that are not, so that the sampler can tell."""
    model = opened(tiny.gguf)
    with torch.inference_mode():
        memory = read(model, some_ids(20))
        memory._k[0, 0, 7, 3] = torch.nan
        assert not bool(model.tokens([5], [memory]).isfinite().all())


def test_a_file_in_four_bits_is_known(tmp_path: Path, tiny: tiny_models.TinyModel) -> None:
    """Only where every matrix of the layers is in Q4_0 or Q4_1."""
    assert not has_four_bits(Source("tiny", tiny.gguf, "gguf"))
    assert not has_four_bits(Source("tiny", tiny.folder, "hf"))


@pytest.mark.parametrize(
    "named", ["no-such-compiler", "false", "true", '"cc', "", pytest.param("cc -E", marks=needs_compiler)]
)
def test_without_a_compiler_the_error_names_the_way_out(
    tiny: tiny_models.TinyModel, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, named: str
) -> None:
    """A compiler that is not there, that fails, makes nothing or no library; half a name; none at all."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CC", named)
    if not named:
        monkeypatch.setattr(shutil, "which", lambda command: None)
    with pytest.raises(OptionError, match="leave --compile out"):
        opened(tiny.gguf)
    assert not list(tmp_path.rglob("*.so"))  # what is of no use is not kept for the next start


def test_a_cache_that_takes_nothing_is_named(
    tiny: tiny_models.TinyModel, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A file where a folder should be, as a full or a locked disk: a sentence with the way out."""
    (tmp_path / "cache").write_text("no folder", "utf-8")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(OptionError, match=r"nothing can be kept in the cache.*XDG_CACHE_HOME"):
        opened(tiny.gguf, compiled=False)


@needs_compiler
def test_sealed_blocks_are_refused(tiny: tiny_models.TinyModel) -> None:
    """The step reads dense keys and values: a policy that seals them is named, with the way out."""
    from bunny_engine.engine import EngineOptions

    with pytest.raises(OptionError, match="--memory bsr"):
        open_engine(
            Source("tiny", tiny.gguf, "gguf"),
            compiled=True,
            options=lambda context: EngineOptions(context=context, policy=Policy(name="bsr"), chunk=64),
        )


@needs_compiler
def test_the_step_is_compiled_without_a_warning(tmp_path: Path) -> None:
    """What a careful compiler says is a fault of ours."""
    source = Path(build.__file__).with_name("step.c")
    command = [*build.compiler(), "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Wconversion", "-Wno-psabi", "-c"]
    made = subprocess.run(
        [*command, str(source), "-o", str(tmp_path / "step.o")], capture_output=True, text=True, check=False
    )
    assert (made.returncode, made.stderr) == (0, "")
