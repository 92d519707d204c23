"""A folder becomes a model, or a refusal that says why; and where it goes."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import transformers

from inference.errors import BadRequest
from inference.model import load as loading
from inference.model import place
from inference.model.architecture import family_of
from tests import tiny


def load(folder: Path, **changes: object) -> loading.Loaded:
    options = {"dtype": "float32", "device": "cpu", "trust_remote_code": False}
    return loading.load(folder, **(options | changes))  # type: ignore[arg-type]


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    return tiny.llama(tmp_path / "llama")


def test_a_folder_becomes_a_model_in_the_dtype_asked_for(llama: Path) -> None:
    loaded = load(llama, dtype="bfloat16")
    assert {weight.dtype for weight in loaded.model.parameters()} == {torch.bfloat16}
    assert not loaded.model.training
    assert (loaded.encodes, loaded.context, loaded.vocab) == (False, 512, 320)


def test_the_model_computes_what_transformers_own_copy_does(llama: Path) -> None:
    ids = torch.tensor([[5, 6, 7, 8]])
    plain = transformers.LlamaForCausalLM.from_pretrained(llama, dtype=torch.float32)
    assert torch.equal(load(llama).model(ids).logits, plain(ids).logits)


def test_the_answers_ends_are_the_models_the_tokenizers_and_the_templates(llama: Path) -> None:
    tiny.edit(llama / "generation_config.json", eos_token_id=[7, 9])
    assert load(llama).ends == {2, 4, 7, 9}


def test_a_turn_end_that_the_template_does_not_use_is_no_end(llama: Path) -> None:
    (llama / "chat_template.jinja").write_text("{{ messages[0].content }}")
    assert load(llama).ends == {2}


def test_an_encoder_decoder_model_tells_how_its_answers_start(tmp_path: Path) -> None:
    config = transformers.T5Config(
        vocab_size=320, d_model=32, d_ff=64, d_kv=8, num_layers=1, num_heads=4, decoder_start_token_id=0
    )
    loaded = load(tiny.saved(tmp_path, transformers.T5ForConditionalGeneration, config))
    assert (loaded.encodes, loaded.start_ids) == (True, (0,))


def test_a_forced_first_token_belongs_to_the_start(tmp_path: Path) -> None:
    config = transformers.BartConfig(
        vocab_size=320,
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        max_position_embeddings=128,
        decoder_start_token_id=2,
    )
    folder = tiny.saved(tmp_path, transformers.BartForConditionalGeneration, config)
    tiny.edit(folder / "generation_config.json", forced_bos_token_id=1)
    assert load(folder).start_ids == (2, 1)


def refusal(folder: Path) -> str:
    with pytest.raises(BadRequest) as caught:
        load(folder)
    return caught.value.message


def test_a_folder_without_a_config_is_refused(tmp_path: Path) -> None:
    assert "must be a folder with a config.json" in refusal(tmp_path)


def test_an_unknown_architecture_names_the_transformers_that_does_not_know_it(llama: Path) -> None:
    tiny.edit(llama / "config.json", model_type="llama99")
    assert f"'llama99', which transformers {transformers.__version__} does not know" in refusal(llama)


def test_a_model_that_does_not_generate_is_refused(llama: Path) -> None:
    tiny.edit(llama / "config.json", model_type="vit")
    assert "'vit', which does not generate text" in refusal(llama)


def test_a_model_made_for_something_else_than_text_is_refused(llama: Path) -> None:
    tiny.edit(llama / "config.json", model_type="musicgen")
    assert "'musicgen', which answers with the codes of sounds" in refusal(llama)


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
    assert family_of(SimpleNamespace(model_type=kind, is_encoder_decoder=encodes)) is family


def test_a_models_own_code_is_not_run_unasked(llama: Path) -> None:
    code = {"AutoConfig": "x.C", "AutoModelForCausalLM": "x.M"}
    tiny.edit(llama / "config.json", model_type="own", auto_map=code)
    (llama / "x.py").write_text("raise SystemExit('the code has run')")
    assert "TRUST_REMOTE_CODE = True" in refusal(llama)


def test_a_missing_tokenizer_is_refused(llama: Path) -> None:
    for path in llama.glob("tokenizer*"):
        path.unlink()
    assert "has no tokenizer that can be read" in refusal(llama)


DEEP = '{"a":' * 5000 + "1" + "}" * 5000


@pytest.mark.parametrize("text", ["[]", DEEP], ids=["list", "deep"])
@pytest.mark.parametrize(
    ("file", "told"),
    [
        ("config.json", "has a config that cannot be read"),
        ("tokenizer.json", "has no tokenizer that can be read"),
        ("tokenizer_config.json", "has no tokenizer that can be read"),
        ("added_tokens.json", "has no tokenizer that can be read"),
        ("generation_config.json", "has weights that cannot be loaded"),
    ],
)
def test_a_file_that_holds_something_else_is_refused(llama: Path, file: str, told: str, text: str) -> None:
    (llama / file).write_text(text)
    assert told in refusal(llama)


def test_a_vocabulary_that_does_not_hold_together_is_refused(llama: Path) -> None:
    """Of which the tokenizers library says so by an exception of no kind."""
    broken = {"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["b c"]}, "added_tokens": []}
    (llama / "tokenizer.json").write_text(json.dumps(broken))
    assert "has no tokenizer that can be read" in refusal(llama)


def test_pickled_weights_are_refused_with_the_reason(llama: Path) -> None:
    (llama / "model.safetensors").rename(llama / "pytorch_model.bin")
    assert "has only pytorch_model.bin, a pickle, which can run code" in refusal(llama)


def test_a_truncated_file_of_weights_is_refused(llama: Path) -> None:
    weights = llama / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    assert "has weights that cannot be loaded" in refusal(llama)


def test_missing_weights_are_refused_rather_than_made_up(llama: Path) -> None:
    tiny.edit(llama / "config.json", num_hidden_layers=3)
    assert "lacks 9 of its weights, such as model.layers.2." in refusal(llama)


@pytest.mark.parametrize(
    ("asked", "device", "stored", "parameters", "bfloat16", "expected"),
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
    asked: str, device: str, stored: str, parameters: int, bfloat16: bool, expected: str
) -> None:
    chosen = place.dtype_of(asked, device=device, stored=stored, parameters=parameters, bfloat16=bfloat16)
    assert chosen == expected


def test_a_named_device_is_taken_as_it_is() -> None:
    assert place.device_of("cpu") == "cpu"


def config(kind: str, **values: int) -> SimpleNamespace:
    made = SimpleNamespace(model_type=kind, **values)
    made.get_text_config = lambda **_: made
    return made


@pytest.mark.parametrize(
    ("made", "limit", "context"),
    [
        (config("llama", max_position_embeddings=8192), 8192, 8192),
        (config("gpt2", n_positions=1024), 1024, 1024),
        (config("bloom", seq_length=2048), None, 2048),
        (config("roberta", max_position_embeddings=514, pad_token_id=1), 512, 512),
        (config("mamba"), None, place.OPEN_ENDED),
        (config("xlnet", max_position_embeddings=-1), None, place.OPEN_ENDED),
    ],
)
def test_the_context_is_what_the_config_says_it_is(
    made: SimpleNamespace, limit: int | None, context: int
) -> None:
    assert (place.limit_of(made), place.context_of(made)) == (limit, context)


def test_kv_takes_no_more_than_is_useful() -> None:
    assert place.kv_bytes(10**9, "cuda", useful=100_000) == 100_000


def test_kv_leaves_other_programs_half_of_the_ram_that_is_free() -> None:
    assert place.kv_bytes(1000, "cpu", useful=100_000) == 500
