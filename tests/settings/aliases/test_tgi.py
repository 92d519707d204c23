"""Every flag of TGI's launcher and of Neodim's is accepted in every spelling, warned of, or refused."""

from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

from settings.aliases import ALIASES, EVERYWHERE, UNSUPPORTED, h2ogpt
from settings.flags import parse
from settings.schema import NAMES, TYPES, BadSetting, Settings
from settings.sources import Source, read_config_file, read_env_file, read_environment, resolve, warnings
from tests.settings.conftest import CONFIG, Complaint, Resolved

ROOT = Path(__file__).parents[3]

# Flags that have a meaning here: the flag and its value, the setting and its value.
UNDERSTOOD: list[tuple[str, str, str, Any]] = [
    # Text Generation Inference
    ("model-id", "acme/tiny", "model_name", "acme/tiny"),
    ("revision", "refs/pr/1", "model_revision", "refs/pr/1"),
    ("validation-workers", "2", "validation_workers", 2),
    ("dtype", "float16", "dtype", "float16"),
    ("dtype", "bfloat16", "dtype", "bfloat16"),
    ("dtype", "float32", "dtype", "float32"),
    ("trust-remote-code", "true", "trust_remote_code", True),
    ("max-concurrent-requests", "4", "max_concurrent_requests", 4),
    ("max-best-of", "3", "max_best_of", 3),
    ("max-stop-sequences", "6", "max_stop_sequences", 6),
    ("max-top-n-tokens", "7", "max_top_n_tokens", 7),
    ("max-input-tokens", "100", "max_input_tokens", 100),
    ("max-input-length", "100", "max_input_tokens", 100),
    ("max-total-tokens", "200", "context", 200),
    ("waiting-served-ratio", "1.2", "waiting_served_ratio", 1.2),
    ("max-batch-prefill-tokens", "1024", "max_batch_tokens", 1024),
    ("quantize", "bitsandbytes", "quantize", "int8"),
    ("quantize", "eetq", "quantize", "int8"),
    ("quantize", "fp8", "quantize", "int8"),
    ("quantize", "bitsandbytes-nf4", "quantize", "int4"),
    ("quantize", "bitsandbytes-fp4", "quantize", "int4"),
    ("quantize", "awq", "quantize", "awq"),
    ("quantize", "gptq", "quantize", "gptq"),
    ("prefix-caching", "off", "prefix_caching", False),
    ("speculate", "2", "speculate", 2),
    ("sharded", "false", "num_shard", 1),
    ("sharded", "true", "num_shard", 0),
    ("num-shard", "2", "num_shard", 2),
    ("max-batch-total-tokens", "32000", "max_batch_total_tokens", 32000),
    ("max-waiting-tokens", "10", "max_waiting_tokens", 10),
    ("max-batch-size", "8", "max_sequences", 8),
    ("hostname", "0.0.0.0", "host", "0.0.0.0"),
    ("port", "3000", "port", 3000),
    ("prometheus-port", "9000", "prometheus_port", 9000),
    ("huggingface-hub-cache", "/data", "cache_dir", "/data"),
    ("weights-cache-override", "/weights", "cache_dir", "/weights"),
    ("cuda-memory-fraction", "0.5", "cuda_memory_fraction", 0.5),
    ("rope-scaling", "linear", "rope_scaling", "linear"),
    ("rope-scaling", "dynamic", "rope_scaling", "dynamic"),
    ("rope-factor", "2.0", "rope_factor", 2.0),
    ("json-output", "true", "json_output", True),
    ("cors-allow-origin", "https://a.example", "cors_origins", ("https://a.example",)),
    ("api-key", "sesame", "api_keys", ("sesame",)),
    ("watermark-gamma", "0.25", "watermark_gamma", 0.25),
    ("watermark-delta", "3", "watermark_delta", 3.0),
    ("tokenizer-config-path", "mine.json", "tokenizer_config_path", "mine.json"),
    ("disable-grammar-support", "true", "disable_grammar_support", True),
    ("max-client-batch-size", "9", "max_client_batch_size", 9),
    ("payload-limit", "2000000", "max_body_mb", 2.0),
    ("enable-prefill-logprobs", "false", "enable_prefill_logprobs", False),
    ("graceful-termination-timeout", "90", "drain_seconds", 90.0),
    ("log-level", "INFO,text_generation_router=debug", "log_level", "info"),
    ("log-level", "warn", "log_level", "warning"),
    ("lora-adapters", "acme/adapter", "lora_adapters", ("acme/adapter",)),
    ("lora-adapters", "acme/a@v1,b=/data/b", "lora_adapters", ("acme/a@v1", "b=/data/b")),
    ("hf-token", "hf_1", "huggingface_access_token", "hf_1"),
    ("hugging-face-hub-token", "hf_1", "huggingface_access_token", "hf_1"),
    ("hf-hub-offline", "1", "offline", True),
    # vLLM
    ("tensor-parallel-size", "2", "num_shard", 2),
    # Neodim
    ("model", "./here", "model_name", "./here"),
    ("model-revision", "float16", "model_revision", "float16"),
    ("cache-dir", "/cache", "cache_dir", "/cache"),
    ("listen-address", "0.0.0.0", "host", "0.0.0.0"),
    ("listen-port", "8787", "port", 8787),
    ("layers", "0,a", "layers", "0,a"),
    ("precision", "original", "dtype", "stored"),
    ("precision", "float32", "dtype", "float32"),
    ("precision", "float16", "dtype", "float16"),
    # names of this server, whose values other servers share or have changed
    ("quantize", "int8", "quantize", "int8"),
    ("quantize", "int4", "quantize", "int4"),
    ("quantize", "Q4_K_M", "quantize", "q4_k_m"),
    ("runner", "paged", "runner", "paged"),
]
# Former names and values: the former flag and value, the setting that it becomes, and its present value.
DEPRECATED = [
    ("seat", "auto", "runner", "auto"),
    ("seat", "fused", "runner", "fused"),
    ("seat", "packed", "runner", "paged"),
    ("seat", "slots", "runner", "contiguous"),
    ("seat", "solo", "runner", "uncached"),
    ("seat", "paged", "runner", "paged"),
    ("runner", "packed", "runner", "paged"),
    ("runner", "slots", "runner", "contiguous"),
    ("runner", "solo", "runner", "uncached"),
    ("quantise", "none", "quantize", "none"),
    ("quantise", "int8", "quantize", "int8"),
    ("quantise", "int4", "quantize", "int4"),
]
NO_EFFECT = [
    ("shard-uds-path", "/tmp/x"),
    ("master-addr", "localhost"),
    ("master-port", "29500"),
    ("cuda-graphs", "1,2,4"),
    ("disable-custom-kernels", "true"),
    ("kv-cache-dtype", "bfloat16"),
    ("quantize", "exl2"),
    ("quantize", "marlin"),
    ("ngrok", "true"),
    ("ngrok-authtoken", "secret"),
    ("ngrok-edge", "e1"),
    ("otlp-service-name", "hearth-1"),
    ("log-colorize", "1"),
    ("compute-type", "cpu"),
    ("model-basename", "gptq_model-4bit-32g"),
    ("group-size", "128"),
    ("true-sequential", "1"),
    ("quantization-type", "nf4"),
    ("double-quantization", "true"),
    ("fused-attention", "true"),
    ("fused-mlp", "true"),
]
SAME_AS_DEFAULT = [
    ("quantize", "none"),
    ("cuda-graphs", "0"),
    ("disable-custom-kernels", "false"),
    ("usage-stats", "on"),
    ("usage-stats", "off"),
    ("usage-stats", "no-stack"),
    ("safetensors", "true"),
    ("fused-mlp", "false"),
    ("vllm-allow-runtime-lora-updating", "true"),
    ("vllm-allow-runtime-lora-updating", "0"),
]
LATER = [
    ("quantize", "hqq"),
    ("otlp-endpoint", "http://localhost:4317"),
    ("usage-stats", "maybe"),
    ("safetensors", "false"),
]
EVERY = [(flag, value) for flag, value, *_ in UNDERSTOOD + DEPRECATED] + NO_EFFECT + SAME_AS_DEFAULT + LATER


def upper(flag: str) -> str:
    return flag.upper().replace("-", "_")


def from_flags(*arguments: str) -> Settings:
    return resolve([CONFIG, parse(list(arguments)).flags])


@pytest.mark.parametrize(("flag", "value", "setting", "read"), UNDERSTOOD)
def test_a_flag_is_accepted_in_both_spellings(flag: str, value: str, setting: str, read: Any) -> None:
    assert getattr(from_flags(f"--{flag}={value}"), setting) == read
    assert getattr(from_flags(f"--{flag}", value), setting) == read


@pytest.mark.parametrize(("flag", "value", "setting", "read"), UNDERSTOOD)
def test_a_flag_is_accepted_by_its_name_in_the_environment(
    flag: str, value: str, setting: str, read: Any
) -> None:
    assert getattr(resolve([CONFIG, read_environment({upper(flag): value})]), setting) == read


@pytest.mark.parametrize(("flag", "value", "setting", "read"), UNDERSTOOD)
def test_a_flag_is_accepted_in_dotenv(flag: str, value: str, setting: str, read: Any, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(f"{upper(flag)}={value}\n")
    assert getattr(resolve([CONFIG, read_env_file(tmp_path / ".env")]), setting) == read


@pytest.mark.parametrize(("flag", "value"), NO_EFFECT)
def test_a_flag_without_effect_is_warned_of_by_name(flag: str, value: str) -> None:
    for layer in (parse([f"--{flag}", value]).flags, parse([f"--{flag}={value}"]).flags):
        assert resolve([CONFIG, layer]) == resolve([CONFIG])
        (warning,) = warnings([CONFIG, layer])
        assert warning.startswith(f"flags: --{flag} has no effect: ")
        assert value not in warning


@pytest.mark.parametrize(("former", "value", "setting", "read"), DEPRECATED)
def test_a_former_name_is_accepted_everywhere_and_warned_of_once(
    former: str, value: str, setting: str, read: str, tmp_path: Path
) -> None:
    name = upper(former)
    (tmp_path / ".env").write_text(f"{name}={value}\n")
    former_config = {key: value for key, value in CONFIG.values.items() if key != upper(setting)}
    for sources, deprecated, current in (
        ([CONFIG, parse([f"--{former}", value]).flags], f"flags: --{former}", f"--{setting}"),
        ([CONFIG, read_environment({name: value})], f"environment: {name}", upper(setting)),
        ([CONFIG, read_env_file(tmp_path / ".env")], f".env: {name}", upper(setting)),
        ([Source("config.py", former_config | {name: value})], f"config.py: {name}", upper(setting)),
    ):
        assert getattr(resolve(sources), setting) == read
        assert list(warnings(sources)) == [f"{deprecated}={value} is deprecated: write {current}={read}"]


def test_a_config_py_with_former_names_is_read(tmp_path: Path) -> None:
    path = tmp_path / "config.py"
    current = (ROOT / "config.py").read_text()
    path.write_text(current.replace('RUNNER = "auto"', 'SEAT = "slots"').replace("QUANTIZE =", "QUANTISE ="))
    sources = [read_config_file(path), parse([]).flags]
    assert resolve(sources) == replace(resolve([CONFIG]), runner="contiguous")
    assert len(list(warnings(sources))) == 2


@pytest.mark.parametrize("flag", ["runner", "quantize"])
def test_a_current_name_is_not_warned_of(flag: str) -> None:
    for value in get_args(TYPES[upper(flag)]):
        sources = [CONFIG, parse([f"--{flag}={value}"]).flags]
        assert getattr(resolve(sources), flag) == value
        assert not list(warnings(sources))


SCHEMES = "int8, int4, q8_0, q6_k, q5_k_m, q4_k_m, q4_0"


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("SEAT", "SEAT must be auto, fused, paged, contiguous or uncached, not 'bench'"),
        ("RUNNER", "RUNNER must be auto, fused, paged, contiguous or uncached, not 'bench'"),
        (
            "QUANTISE",
            f"QUANTISE must be none, {SCHEMES}, awq or gptq, not 'bench'",
        ),
        (
            "QUANTIZE",
            f"QUANTIZE bench: must be none, {SCHEMES}, awq or gptq; for weights stored in another",
        ),
    ],
)
def test_an_invalid_value_of_a_renamed_setting_is_refused(complaint: Complaint, name: str, rule: str) -> None:
    assert complaint(**{name: "bench"}).startswith(f"here: {rule}")


@pytest.mark.parametrize(("flag", "value"), SAME_AS_DEFAULT)
def test_a_flag_with_the_default_value_gives_no_warning(flag: str, value: str) -> None:
    layer = parse([f"--{flag}", value]).flags
    assert resolve([CONFIG, layer]) == resolve([CONFIG])
    assert not list(warnings([layer]))


@pytest.mark.parametrize(("flag", "value"), LATER)
def test_an_unsupported_flag_is_refused_by_name(flag: str, value: str) -> None:
    with pytest.raises(BadSetting) as caught:
        from_flags(f"--{flag}", value)
    assert str(caught.value).startswith(f"flags: --{flag} {value}: ")
    with pytest.raises(BadSetting, match=f"^environment: {upper(flag)} "):
        resolve([CONFIG, read_environment({upper(flag): value})])


def test_the_tables_above_have_every_name() -> None:
    assert {upper(flag) for flag, _ in EVERY} >= EVERYWHERE - h2ogpt.ALIASES.keys()


@pytest.mark.parametrize(
    "flag",
    ["trust-remote-code", "json-output", "disable-grammar-support", "enable-prefill-logprobs", "offline"],
)
def test_a_switch_needs_no_value(flag: str) -> None:
    setting = flag.replace("-", "_")
    assert getattr(from_flags(f"--{flag}", "--port", "5"), setting) is True
    assert getattr(from_flags(f"--{flag}", "false"), setting) is False
    assert getattr(from_flags(f"--{flag}=false"), setting) is False


def test_switches_of_other_servers_need_no_value_either() -> None:
    command = parse(["--sharded", "--disable-custom-kernels", "--port=5"])
    assert command.flags.values == {"SHARDED": "true", "DISABLE_CUSTOM_KERNELS": "true", "PORT": "5"}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("MAX_INPUT_TOKENS", "MAX_INPUT_LENGTH"),
        ("PORT", "LISTEN_PORT"),
        ("CONTEXT", "MAX_TOTAL_TOKENS"),
        ("MODEL_NAME", "MODEL_ID"),
        ("RUNNER", "SEAT"),
        ("QUANTIZE", "QUANTISE"),
    ],
)
def test_two_names_of_one_setting_in_one_place_are_refused(
    complaint: Complaint, first: str, second: str
) -> None:
    value = {"RUNNER": "paged", "QUANTIZE": "int8"}.get(first, "5")
    message = complaint(**{first: value, second: value})
    assert message == f"here: {first} and {second} are two names of one setting: remove one of them"


@pytest.mark.parametrize(
    ("values", "setting", "wins"),
    [
        (
            {"HF_TOKEN": "hf_1", "HUGGINGFACE_ACCESS_TOKEN": "hf_2"},
            "huggingface_access_token",
            "hf_2",
        ),
        ({"HF_TOKEN": "hf_1", "HUGGING_FACE_HUB_TOKEN": "hf_2"}, "huggingface_access_token", "hf_1"),
        ({"HUGGINGFACE_HUB_CACHE": "/data", "WEIGHTS_CACHE_OVERRIDE": "/w"}, "cache_dir", "/w"),
        ({"HF_HUB_OFFLINE": "1", "OFFLINE": "false"}, "offline", False),
        ({"SHARDED": "true", "NUM_SHARD": "2"}, "num_shard", 2),
        ({"NUM_SHARD": "2", "SHARDED": "true"}, "num_shard", 2),
    ],
)
def test_names_that_environments_often_set_have_lower_priority(
    resolved: Resolved, values: dict[str, str], setting: str, wins: object
) -> None:
    assert getattr(resolved(**values), setting) == wins


@pytest.mark.parametrize("line", ["--sharded=false --num-shard 2", "--num-shard=2 --sharded FALSE"])
def test_sharded_false_deactivates_the_number_of_shards_with_a_warning(line: str) -> None:
    assert from_flags(*line.split()).num_shard == 1
    (warning,) = warnings([CONFIG, parse(line.split()).flags])
    assert warning.startswith("flags: --num-shard has no effect: --sharded is ")


@pytest.mark.parametrize(
    ("precision", "quantize"), [("int8", "int8"), ("int4", "int4"), ("gptq4", "gptq"), ("float32", "none")]
)
def test_a_precision_of_neodim_with_fewer_bits_quantizes(precision: str, quantize: str) -> None:
    assert from_flags("--precision", precision).quantize == quantize


@pytest.mark.parametrize("quantize", ["awq", "gptq"])
def test_a_format_of_stored_weights_quantizes_nothing_and_works_on_a_gpu(quantize: str) -> None:
    settings = from_flags("--quantize", quantize, "--device=cuda", "--num-shard=2", "--dtype=float16")
    assert (settings.quantize_at_load, settings.stored_quantization) == ("none", quantize)
    assert from_flags("--quantize", "int8").stored_quantization == ""


@pytest.mark.parametrize("line", ["debug", "DEBUG", "router=info,debug"])
def test_spellings_of_a_log_level_are_accepted(resolved: Resolved, line: str) -> None:
    assert resolved(LOG_LEVEL=line).log_level == "debug"


def test_an_unknown_log_level_is_refused(complaint: Complaint) -> None:
    message = "here: LOG_LEVEL must be debug, info, warning or error, not 'loud'"
    assert complaint(LOG_LEVEL="loud") == message


def test_an_origin_given_twice_counts_twice() -> None:
    settings = from_flags("--cors-allow-origin", "http://a", "--cors-allow-origin=http://b")
    assert settings.cors_origins == ("http://a", "http://b")


def test_the_command_of_tgis_first_documentation_is_accepted() -> None:
    line = (
        "--model-id acme/tiny --sharded=false --num-shard 1 --disable-custom-kernels --max-stop-sequences=6 "
        "--max-input-length 1024 --max-total-tokens 2048 --port 8080 --json-output true"
    )
    settings = from_flags(*line.split())
    assert (settings.model_name, settings.max_stop_sequences, settings.context) == ("acme/tiny", 6, 2048)


def test_every_alias_names_a_setting() -> None:
    assert {alias.setting for alias in ALIASES.values()} <= set(NAMES)
    assert set(UNSUPPORTED) & set(NAMES) == {"QUANTIZE"}, "TGI has values that this server has not"
    both = {"QUANTIZE", "QUANTIZATION", "TOOL_CALL_PARSER", "SPECULATIVE_CONFIG"}
    both |= {"KV_CACHE_DTYPE", "CACHE_TYPE_K", "CACHE_TYPE_V"}
    assert set(UNSUPPORTED) & set(ALIASES) == both, "only some of their values have a meaning here"


def test_the_flags_source_spells_names_as_flags() -> None:
    assert Source("flags", {}).spell_name("MAX_BEST_OF") == "--max-best-of"
