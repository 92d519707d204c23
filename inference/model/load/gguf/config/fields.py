"""Fields of a config that follow from several settings of a GGUF file, or from its tensors.

transformers has them from the defaults of its config classes, which are those of one model. llama.cpp derives
them in src/models/, in `load_arch_hparams` of each architecture.
"""

from collections.abc import Callable, Mapping
from typing import Any

from inference.model.load.gguf.config.gemma4 import gemma4_fields
from inference.model.load.gguf.file.header import GgufHeader
from inference.model.load.gguf.tokenizer.vocabulary import DEFAULT_IDS, PREFIX

Fields = dict[str, Any]
ENDS = ("eos", "eot", "eom")
OUTPUT = "output.weight"
LAYERS_OF_27B = {"gemma2": 46, "gemma3": 62}  # whose attention has a scale of its own


def fields_of(header: GgufHeader) -> Fields:
    """The fields by their names in a config, for those that transformers reads wrongly or not at all."""
    derive = FIELDS.get(header.architecture)
    return end_fields(header) | (derive(header) if derive else {})


def end_fields(header: GgufHeader) -> Fields:
    """The tokens that end a text, a turn or a message; a file has each of them in a setting of its own."""
    default = DEFAULT_IDS.get(header.texts.get(f"{PREFIX}model", ""), {}).get("eos")
    stated = (header.numbers.get(f"{PREFIX}{name}_token_id") for name in ENDS)
    ids = list(dict.fromkeys(token_id for token_id in stated if token_id is not None))
    if header.tensors is None and not ids:  # the header was not read to its end
        return {}
    ids = ids or [default]
    return {"eos_token_id": ids if len(ids) > 1 else ids[0]}


def llama_fields(header: GgufHeader) -> Fields:
    """A file with experts is a Mixtral. One named "mistral" is a Llama, whose attention has no window."""
    experts = header.number("expert_count")
    if not experts:
        return {"model_type": "llama"}
    return {
        "model_type": "mixtral",
        "num_local_experts": experts,
        "num_experts_per_tok": header.number("expert_used_count"),
    }


def mamba_fields(header: GgufHeader) -> Fields:
    return {"model_type": "falcon_mamba"} if header.number("ssm.dt_b_c_rms") else {}


def phi2_fields(header: GgufHeader) -> Fields:
    """llama.cpp's name for Phi 1, 1.5 and 2."""
    return {"model_type": "phi"}


def phi3_fields(header: GgufHeader) -> Fields:
    """A window of 0 is none. llama.cpp leaves windows out, with a warning (src/models/phi3.cpp)."""
    return {"sliding_window": header.number("attention.sliding_window") or None}


def falcon_fields(header: GgufHeader) -> Fields:
    """Falcon 40B has two norms for attention and MLP, Falcon 2 one; both have several heads of keys."""
    num_kv_heads = header.number("attention.head_count_kv", 1)
    fields = {"num_kv_heads": num_kv_heads, "multi_query": num_kv_heads == 1} | tied_fields(header)
    if num_kv_heads == 1:
        return fields
    has_two_norms = header.tensors is None or header.has_tensor(".attn_norm_2.")
    return fields | {"new_decoder_architecture": True, "num_ln_in_parallel_attn": 1 + has_two_norms}


def tied_fields(header: GgufHeader) -> Fields:
    """transformers takes these heads for the embeddings, even where the file has its own."""
    is_tied = not any(tensor.name == OUTPUT for tensor in header.tensors or ())
    return {"tie_word_embeddings": is_tied}


def stablelm_fields(header: GgufHeader) -> Fields:
    return {"qk_layernorm": header.has_tensor(".attn_q_norm.")}


def gemma_fields(header: GgufHeader) -> Fields:
    """The scale of attention: of the width of a head, in a 27B of the hidden size divided among the heads."""
    num_heads, width = header.number("attention.head_count"), header.number("embedding_length")
    is_27b = header.number("block_count") == LAYERS_OF_27B[header.architecture]
    head_dim = header.number("attention.key_length", width // num_heads)
    return {"query_pre_attn_scalar": width // num_heads if is_27b else head_dim}


FIELDS: Mapping[str, Callable[[GgufHeader], Fields]] = {
    "bloom": tied_fields,
    "falcon": falcon_fields,
    "gemma2": gemma_fields,
    "gemma3": gemma_fields,
    "gemma4": gemma4_fields,
    "llama": llama_fields,
    "mamba": mamba_fields,
    "phi2": phi2_fields,
    "phi3": phi3_fields,
    "stablelm": stablelm_fields,
}
