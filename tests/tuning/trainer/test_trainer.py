"""The verbs: sums that add up, runs that do not touch one another, files that peft reads."""

import copy
from pathlib import Path
from random import Random

import peft
import pytest
import torch
from torch import Tensor

from inference.errors import BadRequest, NotFound
from inference.model.quantization.device_matrix import DeviceMatrix
from inference.model.quantization.replace import replace_weights
from inference.native.packed_matrix import PackedMatrix
from settings.groups import ModelSettings
from tests.tuning.trainer.conftest import VOCAB, make_data, weighted_data
from tests.tuning.trainer.warm_runs import STEP, gradients, train, warm
from tuning.trainer.datum import Datum
from tuning.trainer.micro_batches import Layout
from tuning.trainer.model.base_model import BaseModel, load_base, split_model
from tuning.trainer.model.lora import LoraOptions
from tuning.trainer.model.lora_linear import LoraLinear
from tuning.trainer.trainer import Trainer

DATA = weighted_data([9, 4, 12, 7, 5])


def test_a_new_adapter_changes_nothing(base: BaseModel) -> None:
    ids = torch.tensor([DATA[0].token_ids])
    before = base.causal(input_ids=ids, use_cache=False).logits[0].log_softmax(-1)
    trainer = Trainer(base)
    trainer.create_run("a", LoraOptions(rank=4))
    logprobs = trainer.forward("a", DATA[:1], "cross_entropy").logprobs[0]
    expected = before.gather(1, torch.tensor([DATA[0].target_ids]).T)[:, 0]
    is_scored = torch.tensor(DATA[0].inputs["weights"]) > 0
    assert torch.allclose(logprobs[is_scored], expected[is_scored], atol=1e-5)
    assert logprobs[~is_scored].isnan().all()


def test_the_loss_is_a_sum_and_gradients_add_up(base: BaseModel) -> None:
    trainer = warm(Trainer(base))
    together = trainer.forward_backward("a", DATA, "cross_entropy")
    at_once = gradients(trainer, "a")
    trainer.drop_gradients("a")
    singly = [trainer.forward_backward("a", [datum], "cross_entropy").loss for datum in DATA]
    assert sum(singly) == pytest.approx(together.loss, rel=1e-5)
    for name, gradient in gradients(trainer, "a").items():
        assert torch.allclose(gradient, at_once[name], atol=1e-4)


@pytest.mark.parametrize(
    "layout",
    [Layout(packing=True), Layout(max_tokens=1), Layout(max_rows=2), Layout(packing=True, max_rows=3)],
)
def test_the_layout_of_micro_batches_changes_no_result(base: BaseModel, layout: Layout) -> None:
    trainer = warm(Trainer(base))
    padded = trainer.forward_backward("a", DATA, "cross_entropy")
    expected = gradients(trainer, "a")
    trainer.drop_gradients("a")
    trainer.layout = layout
    result = trainer.forward_backward("a", DATA, "cross_entropy")
    assert result.loss == pytest.approx(padded.loss, rel=1e-5)
    assert result.num_scored == padded.num_scored == sum(sum(datum.inputs["weights"]) for datum in DATA)
    for one, other in zip(result.logprobs, padded.logprobs, strict=True):
        assert torch.allclose(one, other, atol=1e-4, equal_nan=True)
    for name, gradient in gradients(trainer, "a").items():
        assert torch.allclose(gradient, expected[name], atol=1e-4)


def test_checkpointing_changes_no_gradient(model_folder: Path) -> None:
    expected: dict[str, Tensor] = {}
    for checkpointing in (False, True):
        base = load_base(model_folder, ModelSettings(dtype="float32", device="cpu"))
        trainer = warm(Trainer(base, checkpointing=checkpointing))
        trainer.forward_backward("a", DATA, "cross_entropy")
        for name, gradient in gradients(trainer, "a").items():
            assert torch.allclose(gradient, expected.setdefault(name, gradient), atol=1e-5)
    names = ("is_activation_checkpointing", "is_gradient_checkpointing")  # the latter in early 5.x
    assert any(getattr(base.causal, name, False) for name in names)


def test_a_loss_that_scores_pairs_keeps_them_together(base: BaseModel) -> None:
    data = make_data([5, 9, 3, 8], weights=lambda random: 1.0, reference_logprobs=lambda random: -5.0)
    trainer = warm(Trainer(base, layout=Layout(max_rows=2)))
    result = trainer.forward_backward("a", data, "dpo_sigmoid", {"scale": 0.5})
    rewards = [float((values + 5).sum()) for values in result.logprobs]
    margins = torch.tensor([rewards[0] - rewards[1], rewards[2] - rewards[3]])
    assert result.loss == pytest.approx(
        -torch.nn.functional.logsigmoid(0.1 * margins).mean().item(), rel=1e-4
    )


def test_two_interleaved_runs_train_as_each_alone(model_folder: Path) -> None:
    def trainer_of(*runs: str) -> Trainer:
        trainer = Trainer(load_base(model_folder, ModelSettings(dtype="float32", device="cpu")))
        options = {
            "a": LoraOptions(rank=4, seed=1),
            "b": LoraOptions(rank=8, seed=2, target_modules=("q_proj",)),
        }
        for run_id in runs:
            trainer.create_run(run_id, options[run_id])
        return trainer

    alone = {run_id: train(trainer_of(run_id), run_id, 4) for run_id in "ab"}
    both = trainer_of("a", "b")
    interleaved: dict[str, list[float]] = {"a": [], "b": []}
    for step in range(4):
        for run_id in "ab":
            interleaved[run_id] += train(both, run_id, 1, first=step)
    assert interleaved["a"] == pytest.approx(alone["a"], rel=1e-5)
    assert interleaved["b"] == pytest.approx(alone["b"], rel=1e-5)
    assert alone["a"] != pytest.approx(alone["b"], rel=1e-4)


def test_the_seed_decides_the_initial_adapter(base: BaseModel) -> None:
    trainer = Trainer(base)
    for run_id, seed in (("a", 1), ("b", 1), ("c", 2)):
        trainer.create_run(run_id, LoraOptions(rank=4, seed=seed))
    losses = {run_id: train(trainer, run_id, 3)[-1] for run_id in "abc"}
    assert losses["a"] == losses["b"] != losses["c"]


def test_a_saved_run_goes_on_with_the_same_losses(base: BaseModel, tmp_path: Path) -> None:
    trainer = warm(Trainer(base))
    trainer.save("a", tmp_path, with_optimizer=True)
    expected = train(trainer, "a", 3)
    trainer.create_run("b", LoraOptions(rank=4, seed=5))
    trainer.load("b", tmp_path, with_optimizer=True)
    assert train(trainer, "b", 3) == pytest.approx(expected, rel=1e-5)
    trainer.load("b", tmp_path, with_optimizer=False)
    assert train(trainer, "b", 3) != pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"use_dora": True},
        {"use_rslora": True, "alpha": 8.0},
        {"train_output": True},
        {"target_modules": ("q_proj", "down_proj"), "train_output": True},
    ],
)
def test_peft_computes_with_a_saved_adapter_what_the_trainer_does(
    base: BaseModel, model_folder: Path, tmp_path: Path, options: dict[str, object]
) -> None:
    trainer = warm(Trainer(base), **options)
    trainer.save("a", tmp_path, with_optimizer=False)
    data = make_data([11], weights=lambda random: 1.0)
    expected = trainer.forward("a", data, "cross_entropy").logprobs[0]
    plain = load_base(model_folder, ModelSettings(dtype="float32", device="cpu"))
    model = peft.PeftModel.from_pretrained(plain.causal, str(tmp_path))
    logits = model(input_ids=torch.tensor([data[0].token_ids]), use_cache=False).logits[0]
    logprobs = logits.log_softmax(-1).gather(1, torch.tensor([data[0].target_ids]).T)[:, 0]
    assert torch.allclose(logprobs, expected, atol=1e-4)


@pytest.mark.parametrize("use_dora", [False, True])
def test_gradients_over_a_quantized_base_are_close_to_those_of_the_plain_one(
    model_folder: Path, use_dora: bool
) -> None:
    directions = []
    for quantize in ("none", "int8"):
        base = load_base(model_folder, ModelSettings(dtype="float32", device="cpu", quantize=quantize))
        trainer = warm(Trainer(base), use_dora=use_dora)
        trainer.forward_backward("a", DATA, "cross_entropy")
        directions.append(torch.cat([gradient.flatten() for gradient in gradients(trainer, "a").values()]))
    assert torch.cosine_similarity(*directions, dim=0) > 0.95


@pytest.mark.parametrize("quantize", ["int8", "int4"])
def test_gradients_over_packed_weights_hardly_depend_on_their_dtype(
    wide_model_folder: Path, quantize: str
) -> None:
    """Over weights in bfloat16, gradients are multiplied with them in bfloat16, the rest in float32."""
    directions, losses = [], []
    for dtype in ("bfloat16", "float32"):
        trainer = Trainer(
            load_base(wide_model_folder, ModelSettings(dtype=dtype, device="cpu", quantize=quantize))
        )
        trainer.create_run("a", LoraOptions(rank=4))
        losses.append(trainer.forward_backward("a", DATA, "cross_entropy").loss)
        directions.append(torch.cat([gradient.flatten() for gradient in gradients(trainer, "a").values()]))
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    assert (directions[0] - directions[1]).norm() < 0.01 * directions[1].norm()


def test_gradients_over_matrices_of_a_device_are_those_of_native_ones(base: BaseModel) -> None:
    directions = []
    for pack in (PackedMatrix.pack, DeviceMatrix.pack):
        causal = copy.deepcopy(base.causal)
        replace_weights(causal, "int4", pack)
        trainer = warm(Trainer(split_model(causal, None, VOCAB, base.context), checkpointing=True))
        trainer.forward_backward("a", DATA, "cross_entropy")
        directions.append(torch.cat([gradient.flatten() for gradient in gradients(trainer, "a").values()]))
    assert torch.cosine_similarity(*directions, dim=0) > 0.95


def test_the_passes_of_a_run_follow_its_adapter(base: BaseModel) -> None:
    trainer = warm(warm(Trainer(base)), "b")
    expected = [trainer.forward(run_id, DATA, "cross_entropy").loss for run_id in ("a", "b")]
    trainer.delete_run("a")
    assert trainer.forward("b", DATA, "cross_entropy").loss == expected[1]


def test_training_goes_on_from_a_saved_adapter(base: BaseModel, tmp_path: Path) -> None:
    trainer = warm(Trainer(base))
    trainer.save("a", tmp_path, with_optimizer=False)
    trainer.create_run_from("b", tmp_path)
    assert (
        trainer.forward("b", DATA, "cross_entropy").loss == trainer.forward("a", DATA, "cross_entropy").loss
    )


def test_an_adapter_of_another_shape_is_refused(base: BaseModel, tmp_path: Path) -> None:
    trainer = warm(Trainer(base))
    trainer.save("a", tmp_path, with_optimizer=False)
    trainer.create_run("b", LoraOptions(rank=8))
    before = trainer.forward("b", DATA, "cross_entropy").loss
    with pytest.raises(
        BadRequest, match=r"does not fit: .* has the shape \(4, 64\), the model needs \(8, 64\)"
    ):
        trainer.load("b", tmp_path, with_optimizer=False)
    assert trainer.forward("b", DATA, "cross_entropy").loss == before


def bad_data() -> list[tuple[Datum, str]]:
    good = DATA[0]
    ids, weights = list(good.token_ids), list(good.inputs["weights"])
    return [
        (Datum([], [], {"weights": []}), r"data\[1\]\.token_ids must have 1 to 512 tokens, got 0"),
        (Datum(ids, ids[1:], {"weights": weights}), r"data\[1\]\.target_ids must have as many tokens"),
        (Datum([*ids[:-1], VOCAB], ids, {"weights": weights}), "must have token ids below 320, got 320"),
        (Datum(ids, [ids, ids], {}), r"data\[1\]\.target_ids must have as many tokens"),
        (Datum(ids, [[]] * len(ids), {}), r"must have one token, or a list of them, a place, got \[9, 0\]"),
        (
            Datum(ids, [[token] for token in ids], {"weights": weights}),
            r"each of the 9 x 1 tokens, got \[9\]",
        ),
        (Datum(ids, ids, {"weights": weights[1:]}), "must have a number for each of the 9 tokens, got 8"),
        (Datum(ids, ids, {"weights": [float("nan"), *weights[1:]]}), "must be finite numbers"),
    ]


@pytest.mark.parametrize(("datum", "message"), bad_data())
def test_a_bad_datum_is_refused_before_the_first_pass(base: BaseModel, datum: Datum, message: str) -> None:
    trainer = warm(Trainer(base))
    with pytest.raises(BadRequest, match=message):
        trainer.forward_backward("a", [DATA[0], datum], "cross_entropy")
    assert not gradients(trainer, "a")


def test_only_losses_of_single_tokens_take_candidates(base: BaseModel) -> None:
    (datum,) = make_data([3], logprobs=lambda random: -1.0, advantages=lambda random: 1.0)
    trainer = warm(Trainer(base))
    with pytest.raises(BadRequest, match=r"data\[0\]\.inputs must have 'logprobs'"):
        trainer.forward("a", DATA, "ppo")
    candidates = Datum(datum.token_ids, [[token] for token in datum.target_ids], datum.inputs)
    with pytest.raises(BadRequest, match=r"must have one token a place, got \[3, 1\]"):
        trainer.forward("a", [candidates], "ppo")


def test_unknown_runs_layers_and_optimizers_are_refused(base: BaseModel) -> None:
    trainer = warm(Trainer(base))
    with pytest.raises(NotFound, match="there is no run 'b'"):
        trainer.optim_step("b", STEP)
    with pytest.raises(BadRequest, match="run_id is taken, got 'a'"):
        trainer.create_run("a", LoraOptions())
    with pytest.raises(BadRequest, match=r"lora_target_modules must be among q_proj, .*got 'w1'"):
        trainer.create_run("b", LoraOptions(target_modules=("w1",)))
    with pytest.raises(BadRequest, match="optimizer must be one of adamw, adam, sgd, got 'lion'"):
        trainer.create_run("b", LoraOptions(), optimizer="lion")
    trainer.create_run("b", LoraOptions())
    trainer.delete_run("b")
    trainer.create_run("b", LoraOptions(seed=Random(0).randrange(9)))


class MidwayFailure:
    """LoraLinear.update_layer that fails at its third layer, as when memory is short."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
        self.update, self.error, self.num_calls = LoraLinear.update_layer, error, 0
        monkeypatch.setattr(LoraLinear, "update_layer", lambda *args, **kwargs: self(*args, **kwargs))

    def __call__(self, layer: LoraLinear, *args: object, **kwargs: object) -> None:
        self.num_calls += 1
        self.update(layer, *args, **kwargs)
        if self.num_calls == 3:
            raise self.error


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("error", [MemoryError(), ValueError("no adapter for this layer")], ids=repr)
def test_an_adapter_that_fails_midway_is_not_there(
    base: BaseModel, monkeypatch: pytest.MonkeyPatch, is_first: bool, error: Exception
) -> None:
    trainer = Trainer(base) if is_first else warm(Trainer(base), target_modules=("q_proj", "up_proj"))
    names = set(dict(base.causal.named_parameters())) if is_first else set(trainer.runs["a"].parameters)
    with monkeypatch.context() as patch, pytest.raises((MemoryError, BadRequest)):
        MidwayFailure(patch, error)
        trainer.create_run("b", LoraOptions(rank=8))
    if is_first:
        assert set(dict(base.causal.named_parameters())) == names and "b" not in trainer.runs
    else:
        trainer.runs["a"].weights.activate()
        assert set(trainer.runs["a"].weights.parameters()) == names
    trainer.create_run("b", LoraOptions(rank=4, target_modules=("q_proj",)))
    assert all("q_proj" in name for name in trainer.runs["b"].parameters)
    assert not [name for name, weight in base.causal.named_parameters() if weight.shape[0] == 8], "of rank 8"


def test_a_run_whose_optimizer_fails_leaves_no_adapter(
    base: BaseModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = Trainer(base)

    def fail(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch, pytest.raises(MemoryError):
        patch.setattr("tuning.trainer.trainer.create_optimizer", fail)
        trainer.create_run("a", LoraOptions(rank=4))
    assert not [name for name, _ in base.causal.named_parameters() if "lora" in name] and not trainer.runs
    assert train(warm(trainer), "a", 2)


def test_a_run_that_cannot_read_its_weights_is_not_there(base: BaseModel, tmp_path: Path) -> None:
    trainer = warm(Trainer(base))
    trainer.save("a", tmp_path, with_optimizer=False)
    (tmp_path / "adapter_model.safetensors").unlink()
    with pytest.raises(FileNotFoundError):
        trainer.create_run_from("b", tmp_path)
    assert set(trainer.runs) == {"a"}
