"""Tensors of a GGUF file are put where the model has them."""

import numpy as np
import torch

from inference.model.load.gguf.tensors.added_processors import (
    FalconProcessor,
    Gemma4Processor,
    LlamaProcessor,
    Phi2Processor,
    Qwen2MoeProcessor,
    StablelmProcessor,
)

NUM_HEADS, GROUPS, HEAD_DIM, WIDTH = 6, 2, 3, 4


def test_queries_keys_and_values_of_falcon_are_grouped() -> None:
    """The reverse of llama.cpp's conversion/falcon.py."""
    shape = GROUPS, NUM_HEADS // GROUPS + 2, HEAD_DIM, WIDTH
    grouped = np.random.default_rng(0).normal(size=shape)
    rows = [grouped[:, :-2], grouped[:, [-2]], grouped[:, [-1]]]
    weights = np.concatenate([each.reshape(-1, WIDTH) for each in rows])
    processor = FalconProcessor({"num_attention_heads": NUM_HEADS, "num_kv_heads": GROUPS})
    placed = processor.process(weights, "blk.0.attn_qkv.weight").weights
    np.testing.assert_array_equal(placed, grouped.reshape(-1, WIDTH))
    np.testing.assert_array_equal(processor.process(weights, "blk.0.ffn_up.weight").weights, weights)


def test_queries_keys_and_values_of_phi_2_are_divided() -> None:
    parameters: dict[str, torch.Tensor] = {}
    options = {"parsed_parameters": {"tensors": parameters}}
    for kind, weights in (("weight", np.arange(12.0).reshape(6, 2)), ("bias", np.arange(6.0))):
        assert Phi2Processor().process(weights, f"blk.3.attn_qkv.{kind}", **options).name is None
        for number, matrix in enumerate("qkv"):
            rows = parameters[f"model.layers.3.self_attn.{matrix}_proj.{kind}"].numpy()
            np.testing.assert_array_equal(rows, weights[2 * number : 2 * number + 2])
    assert Phi2Processor().process(np.ones(2), "blk.3.attn_q.bias", **options).name == "blk.3.attn_q.bias"


def test_norms_of_heads_are_split() -> None:
    parameters: dict[str, torch.Tensor] = {}
    weights = np.arange(6, dtype=np.float32).reshape(2, 3)
    options = {"parsed_parameters": {"tensors": parameters}}
    assert StablelmProcessor().process(weights, "blk.1.attn_k_norm.weight", **options).name is None
    name = "model.layers.1.self_attn.k_layernorm.norms"
    assert {key: value.tolist() for key, value in parameters.items()} == {
        f"{name}.0.weight": [0, 1, 2],
        f"{name}.1.weight": [3, 4, 5],
    }


def test_experts_of_mixtral_are_stacked_and_heads_of_llama_are_ordered() -> None:
    parameters: dict[str, torch.Tensor] = {}
    names = {f"blk.0.ffn_{matrix}_exps": "experts" for matrix in ("gate", "up")}
    options = {"parsed_parameters": {"tensors": parameters}, "tensor_key_mapping": names}
    processor = LlamaProcessor({"num_attention_heads": 1, "num_key_value_heads": 1})
    for value, matrix in ((1.0, "gate"), (2.0, "up")):
        processor.process(np.full((2, 3, 4), value), f"blk.0.ffn_{matrix}_exps.weight", **options)
    assert parameters["experts"][:, :, 0].tolist() == [[1, 1, 1, 2, 2, 2]] * 2
    rows = np.arange(4.0)[:, None]
    assert processor.process(rows, "blk.0.attn_q.weight", **options).weights.ravel().tolist() == [0, 2, 1, 3]


def test_the_gate_of_a_shared_expert_is_a_matrix_of_one_row() -> None:
    for shape in ((4,), (1, 4)):
        gate = Qwen2MoeProcessor().process(np.ones(shape), "blk.0.ffn_gate_inp_shexp.weight")
        assert gate.weights.shape == (1, 4)


def test_scales_and_experts_of_gemma_4_have_parameters() -> None:
    names: dict[str, str] = {}
    processor = Gemma4Processor()
    for scale in ("scale", "per_expert_scale"):
        processor.perform_fallback_tensor_mapping(names, "", "model.", f"layers.3.router.{scale}")
    assert names == {
        "blk.3.ffn_gate_inp.scale": "model.layers.3.router.scale",
        "blk.3.ffn_down_exps.scale": "model.layers.3.router.per_expert_scale",
    }
    parameters: dict[str, torch.Tensor] = {}
    options = {
        "parsed_parameters": {"tensors": parameters},
        "tensor_key_mapping": {"blk.3.ffn_down_exps": "e"},
    }
    assert processor.process(np.ones((2, 3)), "blk.3.ffn_down_exps.weight", **options).name is None
    assert parameters["e"].shape == (2, 3)
    scale = processor.process(np.ones(1), "blk.3.layer_output_scale.weight", **options)
    assert scale.name == "blk.3.layer_output_scale"
