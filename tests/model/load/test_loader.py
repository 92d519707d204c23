"""A folder is loaded as a model or refused with the reason; which dtype, device and context it gets."""

import json
import logging
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import transformers

from inference.errors import BadRequest
from inference.model.load import device_dtype
from inference.model.load import loader as loading
from inference.model.load.architecture import auto_class_of
from settings.groups import ModelSettings
from tests.tiny_models import tiny


def load(folder: Path, **changes: object) -> loading.LoadedModel:
    options = {"dtype": "float32", "device": "cpu"}
    return loading.load(folder, ModelSettings(**(options | changes)))  # type: ignore[arg-type]


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    return tiny.llama(tmp_path / "llama")


def test_a_folder_becomes_a_model_in_the_requested_dtype(llama: Path) -> None:
    loaded = load(llama, dtype="bfloat16")
    assert {weight.dtype for weight in loaded.model.parameters()} == {torch.bfloat16}
    assert not loaded.model.training
    assert (loaded.is_encoder_decoder, loaded.context, loaded.vocab) == (False, 512, 320)


def test_a_chat_template_replaces_the_models(llama: Path) -> None:
    template = "[{{ messages[0].content }}]"
    assert load(llama, chat_template=template).tokenizer.chat_template == template


def test_the_model_computes_the_same_as_in_transformers(llama: Path) -> None:
    ids = torch.tensor([[5, 6, 7, 8]])
    plain = transformers.LlamaForCausalLM.from_pretrained(llama, dtype=torch.float32)
    assert torch.equal(load(llama).model(ids).logits, plain(ids).logits)


def test_scores_with_a_soft_cap_are_computed_by_eager_attention(llama: Path, tmp_path: Path) -> None:
    """transformers' sdpa leaves the cap out."""
    config = transformers.Gemma3TextConfig(**tiny.LLAMA | {"head_dim": 8, "attn_logit_softcapping": 50.0})
    capped = load(tiny.save_model(tmp_path, transformers.Gemma3ForCausalLM, config)).model
    assert capped.config._attn_implementation == "eager"
    assert load(llama).model.config._attn_implementation == "sdpa"


def test_stop_tokens_come_from_the_model_the_tokenizer_and_the_template(llama: Path) -> None:
    tiny.edit(llama / "generation_config.json", eos_token_id=[7, 9])
    assert load(llama).stop_token_ids == {2, 4, 7, 9}


def test_a_stop_token_that_the_model_cannot_write_is_none(llama: Path) -> None:
    tiny.edit(llama / "generation_config.json", eos_token_id=[2, -1, 320])
    assert load(llama).stop_token_ids == {2, 4}


def test_a_turn_end_that_the_template_does_not_use_is_no_stop_token(llama: Path) -> None:
    (llama / "chat_template.jinja").write_text("{{ messages[0].content }}")
    assert load(llama).stop_token_ids == {2}


def refusal(folder: Path) -> str:
    with pytest.raises(BadRequest) as caught:
        load(folder)
    return caught.value.message


def test_a_folder_without_a_config_is_refused(tmp_path: Path) -> None:
    assert "must be a folder with a config.json" in refusal(tmp_path)


def test_an_unknown_architecture_is_refused_with_the_transformers_version(llama: Path) -> None:
    tiny.edit(llama / "config.json", model_type="llama99")
    assert f"'llama99', which transformers {transformers.__version__} does not know" in refusal(llama)


def test_a_model_that_does_not_generate_is_refused(llama: Path) -> None:
    tiny.edit(llama / "config.json", model_type="vit")
    assert "'vit', which reads images" in refusal(llama)


def test_a_model_that_does_not_answer_with_text_is_refused(llama: Path) -> None:
    tiny.edit(llama / "config.json", model_type="musicgen")
    assert "'musicgen', which generates audio codes" in refusal(llama)


@pytest.mark.parametrize(
    ("kind", "encodes", "family"),
    [
        ("llama", False, transformers.AutoModelForCausalLM),
        ("bart", False, transformers.AutoModelForCausalLM),
        ("bart", True, transformers.AutoModelForSeq2SeqLM),
        ("qwen2_audio", False, transformers.AutoModelForSeq2SeqLM),
    ],
)
def test_a_model_is_opened_by_the_class_it_is_registered_with(kind: str, encodes: bool, family: type) -> None:
    assert auto_class_of(SimpleNamespace(model_type=kind, is_encoder_decoder=encodes)) is family


def test_a_models_own_code_is_not_run_by_default(llama: Path) -> None:
    code = {"AutoConfig": "x.C", "AutoModelForCausalLM": "x.M"}
    tiny.edit(llama / "config.json", model_type="own", auto_map=code)
    (llama / "x.py").write_text("raise SystemExit('the code has run')")
    assert "TRUST_REMOTE_CODE = True" in refusal(llama)


def test_a_config_for_other_outputs_still_returns_logits(llama: Path) -> None:
    tiny.edit(llama / "config.json", return_dict=False, output_hidden_states=True, output_attentions=True)
    output = load(llama).model(torch.tensor([[5, 6]]))
    assert output.logits.shape == (1, 2, 320) and output.hidden_states is None and output.attentions is None


def test_a_tokenizer_of_special_tokens_alone_is_refused(llama: Path) -> None:
    """transformers makes it of a class without its files."""
    (llama / "tokenizer.json").unlink()
    (llama / "tokenizer_config.json").write_text('{"tokenizer_class": "LlamaTokenizer"}')
    assert "has no tokenizer that can be read" in (message := refusal(llama)) and "no vocabulary" in message


def test_a_missing_tokenizer_is_refused(llama: Path) -> None:
    for path in llama.glob("tokenizer*"):
        path.unlink()
    assert "has no tokenizer that can be read" in refusal(llama)


DEEP = '{"a":' * 5000 + "1" + "}" * 5000


@pytest.mark.parametrize("text", ["[]", DEEP], ids=["list", "deep"])
@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("config.json", "has a config that cannot be read"),
        ("tokenizer.json", "has no tokenizer that can be read"),
        ("tokenizer_config.json", "has no tokenizer that can be read"),
        ("added_tokens.json", "has no tokenizer that can be read"),
        ("generation_config.json", "has weights that cannot be loaded"),
    ],
)
def test_a_file_with_other_content_is_refused(llama: Path, file: str, message: str, text: str) -> None:
    (llama / file).write_text(text)
    assert message in refusal(llama)


def test_an_inconsistent_vocabulary_is_refused(llama: Path) -> None:
    """The tokenizers library reports it with a bare Exception."""
    broken = {"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["b c"]}, "added_tokens": []}
    (llama / "tokenizer.json").write_text(json.dumps(broken))
    assert "has no tokenizer that can be read" in refusal(llama)


def test_pickled_weights_are_refused_with_the_reason(llama: Path) -> None:
    (llama / "model.safetensors").rename(llama / "pytorch_model.bin")
    assert "has only pytorch_model.bin, a pickle, which can run code" in refusal(llama)


def test_the_logged_size_is_that_of_the_files_that_are_loaded(
    llama: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("model.safetensors", "consolidated.safetensors", "pytorch_model.bin"):
        (llama / name).touch()
        os.truncate(llama / name, 2 * 10**9)  # sparse
    with caplog.at_level(logging.INFO):
        refusal(llama)
    assert "loading size=2.0GB" in caplog.text


def test_a_truncated_file_of_weights_is_refused(llama: Path) -> None:
    weights = llama / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    assert "has weights that cannot be loaded" in refusal(llama)


def test_missing_weights_are_refused_rather_than_initialized(llama: Path) -> None:
    tiny.edit(llama / "config.json", num_hidden_layers=3)
    assert "lacks 9 of its weights, such as model.layers.2." in refusal(llama)


@pytest.mark.parametrize(
    ("setting", "device", "stored", "parameters", "bfloat16", "expected"),
    [
        ("float16", "cpu", "bfloat16", 10**6, True, "float16"),
        ("stored", "cpu", "bfloat16", 10**6, False, "bfloat16"),
        ("stored", "cuda", "float8_e4m3fn", 10**9, True, "float32"),
        ("auto", "cpu", "bfloat16", 10**6, True, "float32"),
        ("auto", "cuda", "bfloat16", 10**6, True, "float32"),
        ("auto", "cpu", "bfloat16", 10**9, True, "bfloat16"),
        ("auto", "cpu", "bfloat16", 10**9, False, "float32"),
        ("auto", "cpu", "float16", 10**9, True, "bfloat16"),
        ("auto", "cuda", "bfloat16", 10**9, True, "bfloat16"),
        ("auto", "cuda", "float16", 10**9, True, "float16"),
        ("auto", "cuda", "bfloat16", 10**9, False, "float16"),
        ("auto", "cuda", "float32", 10**9, True, "bfloat16"),
    ],
)
def test_the_dtype_follows_size_and_hardware(
    setting: str, device: str, stored: str, parameters: int, bfloat16: bool, expected: str
) -> None:
    dtype = device_dtype.resolve_dtype(
        setting, device=device, stored=stored, parameters=parameters, bfloat16=bfloat16
    )
    assert dtype == expected


def test_every_cpu_serves_bfloat16() -> None:
    assert device_dtype.serves_bfloat16("cpu")


def test_a_named_device_is_used_as_it_is() -> None:
    assert device_dtype.resolve_device("cpu") == "cpu"


def config(kind: str, **values: int) -> SimpleNamespace:
    result = SimpleNamespace(model_type=kind, **values)
    result.get_text_config = lambda **_: result
    return result


@pytest.mark.parametrize(
    ("model_config", "limit", "context"),
    [
        (config("llama", max_position_embeddings=8192), 8192, 8192),
        (config("gpt2", n_positions=1024), 1024, 1024),
        (config("bloom", seq_length=2048), None, 2048),
        (config("roberta", max_position_embeddings=514, pad_token_id=1), 512, 512),
        (config("mamba"), None, device_dtype.DEFAULT_CONTEXT),
        (config("xlnet", max_position_embeddings=-1), None, device_dtype.DEFAULT_CONTEXT),
    ],
)
def test_the_context_comes_from_the_config(
    model_config: SimpleNamespace, limit: int | None, context: int
) -> None:
    assert (device_dtype.max_length_of(model_config), device_dtype.default_context(model_config)) == (
        limit,
        context,
    )


def test_kv_memory_is_limited_to_what_is_useful() -> None:
    assert device_dtype.default_kv_memory(10**9, "cuda", useful=100_000) == 100_000


def test_kv_memory_takes_at_most_half_of_the_free_ram() -> None:
    assert device_dtype.default_kv_memory(1000, "cpu", useful=100_000) == 500
