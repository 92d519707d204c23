"""Models of many families train, and what cannot be done with one is refused instead of done wrongly."""

import pytest
import torch
from transformers import AutoModelForCausalLM, CTRLConfig

from inference.errors import BadRequest, Unavailable
from tests.tiny_models.families import CONTEXT, VOCAB, tiny
from tests.tuning.trainer.conftest import job_spec, make_data
from tuning.trainer.memory.memory_plan import plan_memory
from tuning.trainer.micro_batches import Layout
from tuning.trainer.model.base_model import BaseModel, disable_dropout, split_model
from tuning.trainer.model.linear_layers import find_linear_names
from tuning.trainer.model.lora import LoraOptions
from tuning.trainer.optimizers import AdamParams
from tuning.trainer.trainer import Trainer

PACKABLE = ("llama", "qwen3", "mistral", "gemma2", "phi", "gpt2", "gpt_neox", "mixtral", "cohere")
NOT_PACKABLE = ("bloom", "falcon", "mpt", "opt", "lfm2")


def base_of(name: str) -> BaseModel:
    model = tiny(name).requires_grad_(False)
    disable_dropout(model)
    return split_model(model, None, VOCAB, CONTEXT)


@pytest.mark.parametrize("name", [*PACKABLE, *NOT_PACKABLE])
def test_a_family_learns_and_padding_changes_nothing(name: str) -> None:
    trainer = Trainer(base_of(name))
    data = make_data([9, 4, 12], vocab_size=VOCAB, weights=lambda random: float(random.random() < 0.7))
    trainer.create_run("a", LoraOptions(rank=4))
    losses = []
    for _ in range(6):
        losses.append(trainer.forward_backward("a", data, "cross_entropy").loss)
        trainer.optim_step("a", AdamParams(learning_rate=1e-2))
    assert losses[-1] < losses[0]
    padded = trainer.forward("a", data, "cross_entropy").loss
    trainer.layout = Layout(max_rows=1)
    assert trainer.forward("a", data, "cross_entropy").loss == pytest.approx(padded, abs=1e-3)


@pytest.mark.parametrize("name", PACKABLE)
def test_packed_sequences_stay_apart(name: str) -> None:
    data = make_data([9, 4, 12], vocab_size=VOCAB, weights=lambda random: 1.0)
    losses = []
    for layout in (Layout(), Layout(packing=True)):
        trainer = Trainer(base_of(name), layout=layout)
        trainer.create_run("a", LoraOptions(rank=4))
        losses.append(trainer.forward("a", data, "cross_entropy").loss)
    assert losses[0] == pytest.approx(losses[1], abs=1e-2)


@pytest.mark.parametrize("name", NOT_PACKABLE)
def test_packing_is_refused_where_sequences_would_mix(name: str) -> None:
    with pytest.raises(BadRequest, match="packing must be false: "):
        Trainer(base_of(name), layout=Layout(packing=True))


@pytest.mark.parametrize("name", [*PACKABLE, *NOT_PACKABLE, "deepseek_v3"])
def test_a_family_has_a_memory_plan(name: str) -> None:
    config = tiny(name).config.to_dict()
    few, many = (plan_memory(config, job_spec(), count) for count in (512, 1024))
    assert few.weights > 0 < few.step < many.step


@pytest.mark.parametrize(
    ("name", "layers"),
    [
        # The weights of out_proj and dt_proj are read without a call of the layers.
        ("mamba", ("in_proj", "x_proj")),
        ("jamba", ("in_proj", "x_proj", "out_proj", "q_proj", "k_proj", "v_proj", "o_proj")),
        # An image passes fc1 and fc2, a text does not.
        ("gemma3", ("k_proj", "v_proj", "q_proj", "o_proj", "gate_proj", "up_proj", "down_proj")),
    ],
)
def test_the_layers_that_texts_pass_get_an_adapter(name: str, layers: tuple[str, ...]) -> None:
    trainer = Trainer(base_of(name))
    chosen = trainer.adapters.new_config(LoraOptions()).target_modules
    assert set(layers) <= set(chosen) and not {"out_proj", "dt_proj", "fc1"} - set(layers) & set(chosen)
    trainer.create_run("a", LoraOptions(rank=4))
    with pytest.raises(BadRequest, match=r"lora_target_modules must be among .*, got 'fc1'"):
        trainer.create_run("b", LoraOptions(target_modules=("fc1",)))


def test_a_model_that_reads_later_tokens_is_refused() -> None:
    """It would read what it shall predict, and the padding behind it."""
    with pytest.raises(Unavailable, match="xlnet cannot be fine-tuned here: it reads the tokens"):
        base_of("xlnet")


def test_the_backbone_of_llama_4_is_its_model() -> None:
    """Its base_model and its decoder are the causal model itself."""
    base = base_of("llama4_text")
    assert base.backbone is base.causal.model is not base.causal.get_decoder()


def test_a_name_that_other_modules_have_is_no_layers_name() -> None:
    """CTRL's MLPs are called 0 and 2, as its first and third layers are."""
    model = AutoModelForCausalLM.from_config(
        CTRLConfig(vocab_size=97, n_positions=64, n_embd=32, dff=64, n_layer=3, n_head=4)
    )
    assert find_linear_names(model).layers == ("Wq", "Wk", "Wv", "dense")


def test_adapters_of_a_bfloat16_base_are_float32() -> None:
    model = tiny("llama").to(torch.bfloat16).requires_grad_(False)
    trainer = Trainer(split_model(model, None, VOCAB, CONTEXT))
    trainer.create_run("a", LoraOptions(rank=4))
    assert {weight.dtype for weight in trainer.runs["a"].parameters.values()} == {torch.float32}
    data = make_data([9, 4], vocab_size=VOCAB, weights=lambda random: 1.0)
    before = trainer.forward_backward("a", data, "cross_entropy").loss
    trainer.optim_step("a", AdamParams(learning_rate=1e-2))
    assert trainer.forward("a", data, "cross_entropy").loss < before
