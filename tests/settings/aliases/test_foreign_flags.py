"""The flags of vLLM and llama.cpp: each is known, and takes effect, or is warned of, or refused."""

from pathlib import Path
from typing import Any

import pytest

from settings.aliases import ALIASES, EVERYWHERE, SPELLINGS, UNSUPPORTED, h2ogpt
from settings.flags import ACTIONS, parse
from settings.schema import NAMES, BadSetting, Settings
from settings.sources import Source, read_environment, resolve, warnings
from tests.settings.conftest import CONFIG, Complaint

HERE = Path(__file__).parent


def read_flags(kind: str) -> list[str]:
    """The flags of the two servers that take a value, are a switch, or take a list of words.

    vLLM's are those of 0.2.7, 0.4.2, 0.6.6, 0.9.2 and 0.33.0.
    """
    lines = [line.split() for name in ("vllm", "llama_cpp") for line in (HERE / f"{name}_flags.txt").open()]
    return list(dict.fromkeys(flag for kind_of_flag, flag in lines if kind_of_flag == kind))


WITH_VALUE, SWITCHES, SEVERAL = map(read_flags, ("value", "switch", "list"))
EVERY = [*WITH_VALUE, *SWITCHES, *SEVERAL]
# These take the model itself, or another model than the positional one.
MODELS = {"--model", "-m", "-hf", "-hfr", "--hf-repo"}
# Values of flags for which 7 is none, or not by itself.
VALUES = {"--speculative-config": "{}", "-sc": "{}", "--api-prefix": "/llm", "--root-path": "/llm"}
WITH_CERTIFICATE = {"--ssl-keyfile", "--ssl-key-file"}


def from_line(line: str) -> Settings:
    return resolve([CONFIG, parse(line.split()).flags])


def changed(*arguments: str) -> dict[str, Any]:
    """The settings that a command line changes."""
    settings, defaults = resolve([CONFIG, parse(list(arguments)).flags]), resolve([CONFIG])
    return {
        name: getattr(settings, name)
        for name in map(str.lower, NAMES)
        if getattr(settings, name) != getattr(defaults, name)
    }


def warned(*arguments: str) -> list[str]:
    sources = [CONFIG, parse(list(arguments)).flags]
    resolve(sources)
    return list(warnings(sources))


def test_a_flag_with_a_value_takes_one_word() -> None:
    for flag in WITH_VALUE:
        value = VALUES.get(flag, "7")
        for words in ([flag, value], [f"{flag}={value}"]):
            values = parse([*words, *([] if flag in MODELS else ["acme/tiny"])]).flags.values
            assert value in values.values(), flag
            assert values.get("MODEL") == "acme/tiny" or flag in MODELS, flag


def test_a_switch_takes_no_word() -> None:
    for flag in SWITCHES:
        command = parse([flag, "acme/tiny"])
        assert command.flags.values["MODEL"] == "acme/tiny", flag
        assert command.actions or set(command.flags.values.values()) & {"true", "false"}, flag


def test_a_list_takes_all_words_up_to_the_next_flag() -> None:
    for flag in SEVERAL:
        values = parse([flag, "one", "two", "--port", "5"]).flags.values
        assert values["PORT"] == "5" and "one,two" in values.values(), flag


def test_a_flag_means_a_setting_or_is_warned_of_or_refused_by_name() -> None:
    for flag in sorted({*EVERY} - MODELS - WITH_CERTIFICATE):
        command = parse([flag] if flag in SWITCHES else [flag, VALUES.get(flag, "7")])
        (name,) = command.flags.values or [None]
        if not command.actions and name not in NAMES:
            assert name in ALIASES or name in UNSUPPORTED, flag
            check_message(flag, command.flags)


def check_message(flag: str, flags: Source) -> None:
    try:
        resolve([CONFIG, flags])
    except BadSetting as error:
        assert str(error).startswith((f"flags: {flag} ", f"flags: {flag}: "))
        return
    for warning in warnings([CONFIG, flags]):
        assert warning.startswith(f"flags: {flag} has no effect: ")


def test_every_row_of_the_tables_is_a_flag_of_a_server() -> None:
    names = {
        name for flag in EVERY for name in parse([flag] if flag in SWITCHES else [flag, "7"]).flags.values
    }
    own_values = {"DEVICE", "DTYPE", "ROPE_SCALING", "THREADS"}
    assert {*ALIASES, *UNSUPPORTED} - EVERYWHERE - own_values - {
        *h2ogpt.FLAGS,
        *h2ogpt.OF_ENTRY,
    } - names == set()


def test_every_spelling_stands_for_a_known_flag() -> None:
    for spelling, flag in SPELLINGS.items():
        assert flag in ACTIONS or parse([spelling, "7"]).flags.values, spelling


@pytest.mark.parametrize(
    ("line", "setting", "value"),
    [
        ("--max-model-len 32k", "context", 32000),
        ("--max-model-len 32K", "context", 32768),
        ("--max-model-len 25.6k", "context", 25600),
        ("--max-model-len auto", "context", 0),
        ("--max-model-len -1", "context", 0),
        ("--max_model_len=4096", "context", 4096),
        ("--max-num-seqs 8", "max_sequences", 8),
        ("--max-num-batched-tokens 2048", "max_batch_tokens", 2048),
        ("--gpu-memory-utilization 0.9", "cuda_memory_fraction", 0.9),
        ("--kv-cache-memory-bytes 2g", "kv_memory_gb", 2.0),
        ("--kv-cache-dtype fp8_e5m2", "kv_dtype", "int8"),
        ("--kv-cache-dtype auto", "kv_dtype", "auto"),
        ("-ctk q8_0 -ctv q8_0", "kv_dtype", "int8"),
        ("--cache-type-k f16", "kv_dtype", "auto"),
        ("-tp 2", "num_shard", 2),
        ("-tp=2", "num_shard", 2),
        ("--served-model-name one two", "served_names", ("one", "two")),
        ("--dtype half", "dtype", "float16"),
        ("--dtype float", "dtype", "float32"),
        ("--quantization fp8", "quantize", "int8"),
        ("-q bitsandbytes", "quantize", "int4"),
        ("--no-enable-prefix-caching", "prefix_caching", False),
        ("--disable-prefix-caching", "prefix_caching", False),
        ('--allowed-origins ["https://a.example","https://b.example"]', "cors_origins",
         ("https://a.example", "https://b.example")),
        ("--allow-credentials", "cors_credentials", True),
        ("--download-dir /models", "cache_dir", "/models"),
        ("--seed 0", "default_seed", 0),
        ("--api-key one two", "api_keys", ("one", "two")),
        ("--chat-template chat.jinja", "chat_template", "chat.jinja"),
        ("--root-path /llm", "root_path", "/llm"),
        ("--ssl-certfile cert.pem", "ssl_certfile", "cert.pem"),
        ("--tool-call-parser llama3_json", "tool_format", "llama"),
        ("--reasoning-format deepseek", "reasoning_format", "auto"),
        ("--reasoning-format deepseek-legacy", "reasoning_format", "none"),
        ("--reasoning-format none", "reasoning_format", "none"),
        ("--num-speculative-tokens 4", "speculate", 4),
        ("--enable-lora --lora-modules a=/x b=acme/b", "lora_adapters", ("a=/x", "b=acme/b")),
        ('--lora-modules {"name":"a","path":"/x","base_model_name":"m"} b=/y', "lora_adapters",
         ("a=/x", "b=/y")),
        ("--max-lora-rank 16", "max_lora_rank", 16),
        ("--max-loras 4", "max_loras", 4),
        ("--max-loras 4 --max-cpu-loras 32", "max_loras", 32),
        ("--lora /adapters/poet", "lora_adapters", ("/adapters/poet",)),
        (
            "--lora-scaled /adapters/cook:0.5 --lora /adapters/poet --lora /adapters/chef",
            "lora_adapters",
            ("/adapters/poet", "/adapters/chef", "/adapters/cook*0.5"),
        ),
        ('--speculative-config {"method":"ngram","num_speculative_tokens":4}', "speculate", 4),
        ("--speculative-config.method ngram --speculative-config.num_speculative_tokens 4", "speculate", 4),
        ('--speculative-config {"model":"a/b","num_speculative_tokens":3}', "draft_model", "a/b"),
        ('--speculative-config {"model":"a/b","num_speculative_tokens":3}', "speculate", 3),
        ('--speculative-config {"model":"[ngram]","num_speculative_tokens":3}', "draft_model", ""),
        ('--speculative-config {"method":"eagle","model":"a","num_speculative_tokens":3}', "draft_model", ""),
        ("--speculative-model acme/small --num-speculative-tokens 3", "draft_model", "acme/small"),
        ("-md /models/small.gguf --draft-max 32", "draft_model", "/models/small.gguf"),
        ("-md /models/small.gguf --draft-max 32", "speculate", 16),
        ("--uvicorn-log-level warning", "log_level", "warning"),
        ("acme/tiny", "model_name", "acme/tiny"),
        ("serve acme/tiny", "model_name", "acme/tiny"),
        ("-m tiny.gguf", "model_name", "tiny.gguf"),
        ("-hf acme/tiny:Q4_K_M", "model_name", "acme/tiny"),
        ("-hf acme/tiny:Q4_K_M", "gguf_file", "Q4_K_M"),
        ("acme/tiny:Q4_K_M", "gguf_file", "Q4_K_M"),
        ("-c 4096", "context", 4096),
        ("-ngl 20", "layers", "20"),
        ("-ngl 0", "layers", "0"),
        ("-t 4", "threads", 4),
        ("-np 4", "max_sequences", 4),
        ("-b 2048", "max_batch_tokens", 2048),
        ("-n 128", "default_max_tokens", 128),
        ("--temp 0.7", "default_temperature", 0.7),
        ("-a one,two", "served_names", ("one", "two")),
        ("--device none", "device", "cpu"),
        ("-dev CUDA0,CUDA1", "device", "cuda"),
        ("--rope-scaling yarn --rope-scale 4", "rope_factor", 4.0),
        ("--api-prefix /llm", "root_path", "/llm"),
        ("-v", "log_level", "debug"),
    ],
)  # fmt: skip
def test_a_flag_is_understood(line: str, setting: str, value: object) -> None:
    assert getattr(from_line(line), setting) == value


@pytest.mark.parametrize("value", ["99", "100", "-1", "all", "auto"])
def test_ngl_for_all_layers_leaves_the_layers_on_the_device(value: str) -> None:
    assert changed("-ngl", value) == {}


@pytest.mark.parametrize("line", ["-c 0", "-t -1", "-np -1", "-n -1", "-s -1", "--threads-http -1"])
def test_values_of_llama_cpp_that_leave_the_choice_change_nothing(line: str) -> None:
    assert changed(*line.split()) == {}
    assert warned(*line.split()) == []


def test_a_cache_of_fewer_bits_than_8_is_warned_of() -> None:
    assert changed("-ctk", "q4_0") == {}
    assert warned("-ctk", "q4_0", "-ctv", "q4_0") == [
        "flags: -ctk has no effect: the KV cache has the model's dtype, or 8 bits"
    ]
    assert warned("-ctk", "q8_0", "-ctv", "q8_0") == []


def test_keys_and_values_have_one_dtype() -> None:
    with pytest.raises(BadSetting, match="-ctk and -ctv are two names of one setting"):
        from_line("-ctk f16 -ctv q8_0")


def test_keys_are_read_from_a_file(tmp_path: Any) -> None:
    path = tmp_path / "keys"
    path.write_text("one\n\ntwo\n")
    assert changed("--api-key-file", str(path)) == {"api_keys": ("one", "two")}
    with pytest.raises(BadSetting, match="--api-key-file must be a readable file with a key on each line"):
        from_line(f"--api-key-file {tmp_path / 'none'}")


def test_another_tokenizer_than_the_models_has_no_effect_with_a_warning() -> None:
    for tokenizer, num_warnings in (("acme/tiny", 0), ("acme/other", 1)):
        line = ["--model", "acme/tiny", "--tokenizer", tokenizer]
        assert changed(*line) == {"model_name": "acme/tiny"}
        assert len(list(warned(*line))) == num_warnings


@pytest.mark.parametrize(
    "line",
    [
        "--enforce-eager", "--no-mmap", "--mlock", "-fa", "-fa on", "--swap-space 4", "-pp 2",
        "--no-enable-chunked-prefill",
        "--quantization hqq", "--tool-call-parser qwen3_coder", '-sc {"method":"eagle"}', "--block-size 16",
        "--disable-log-requests", "--no-jinja", "-nocb", "--compilation-config.level 3",
    ],
)  # fmt: skip
def test_a_flag_without_effect_is_warned_of_as_it_is_typed(line: str) -> None:
    (warning,) = warned(*line.split())
    assert warning.startswith(f"flags: {line.split()[0]} has no effect: ")
    assert changed(*line.split()) == {}


@pytest.mark.parametrize(
    "line",
    [
        "--enable-chunked-prefill", "--no-enforce-eager", "--mmap", "-fa auto", "--swap-space 0", "-pp 1",
        "--jinja", "-cb", "--enable-auto-tool-choice", "--task generate", "--load-format safetensors",
        "--no-enable-lora", "--ssl-cert-reqs 0", "--runner generate",
    ],
)  # fmt: skip
def test_a_flag_for_what_this_server_does_anyway_is_silent(line: str) -> None:
    assert warned(*line.split()) == []
    assert changed(*line.split()) == {}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--ssl-cert-reqs 2", "flags: --ssl-cert-reqs 2: clients' certificates are not checked"),
        ("--middleware a.b", "flags: --middleware a.b: this server runs no code of yours"),
        ("--lora-modules a=b=c", "flags: --lora-modules must be adapters with commas between them"),
        ("--lora a --lora-scaled b", "flags: --lora-scaled must be adapters with their scales"),
        ("--lora /a/x --lora-scaled /b/x:2", "flags: --lora must be adapters with commas between them"),
        ("--lora-scaled a", "flags: --lora-scaled must be adapters with their scales, as path:scale"),
        ("--prompt-adapters a=b", "flags: --prompt-adapters a=b: the adapters of this server are those"),
        ("--uds /tmp/x", "flags: --uds /tmp/x: this server listens on HOST and PORT only"),
        ("--headless", "flags: --headless: this server listens on HOST and PORT only"),
        ("--code-revision x", "flags: --code-revision x: the model's code is of MODEL_REVISION"),
        ("--grammar x", "flags: --grammar x: a request says the format of its answer itself"),
        ("--runner pooling", "flags: --runner must be auto, fused"),
        ("--rope-scaling {}", "flags: --rope-scaling must be none, linear, dynamic or yarn ("),
        ("-ngl some", "flags: -ngl must be a whole number, or all, auto or -1"),
        ("--gpu-memory-utilization 90", "flags: --gpu-memory-utilization must be a number, 0.01 to 1"),
        ("--num-speculative-tokens 32", "flags: --num-speculative-tokens must be a whole number, 0 to 16"),
        ("-c 5 --max-model-len 5", "flags: -c and --max-model-len are two names of one setting"),
    ],
)  # fmt: skip
def test_what_would_be_wrong_to_ignore_is_refused(line: str, message: str) -> None:
    with pytest.raises(BadSetting) as caught:
        from_line(line)
    assert str(caught.value).startswith(message)


def test_short_flags_that_two_servers_have_are_vllms_after_serve() -> None:
    assert parse(["serve", "acme/tiny", "-n", "2", "-r", "0"]).flags.values == {
        "MODEL": "acme/tiny",
        "NNODES": "2",
        "NODE_RANK": "0",
    }
    assert parse(["-n", "2", "-r", "stop"]).flags.values == {"PREDICT": "2", "REVERSE_PROMPT": "stop"}


def test_the_flags_of_vllm_and_llama_cpp_are_no_environment_variables(complaint: Complaint) -> None:
    environment = {"PATH": "/bin", "SEED": "1", "MAX_MODEL_LEN": "5", "TASK": "embed", "PORT": "1"}
    assert read_environment(environment).values == {"PORT": "1"}
    message = "here: MAX_MODEL_LEN counts on the command line only: write CONTEXT"
    assert complaint(MAX_MODEL_LEN="5") == message
    assert complaint(ENFORCE_EAGER="1") == "here: ENFORCE_EAGER is not a setting"


VLLM_COMMAND = (
    "serve acme/tiny --tokenizer acme/tiny --dtype half --max-model-len 4096 --max-num-seqs 16 --seed 0 "
    "--max-num-batched-tokens 2048 --gpu-memory-utilization 0.9 -tp 1 --enable-prefix-caching --swap-space 4 "
    "--block-size 16 --trust-remote-code --served-model-name tiny --api-key sesame --disable-log-requests "
    "--enable-auto-tool-choice --tool-call-parser hermes --host 0.0.0.0 --port 8001"
)
LLAMA_COMMAND = (
    "-m tiny.gguf -c 8192 -ngl 99 -t 8 -np 4 -b 2048 -ub 512 --host 0.0.0.0 --port 8080 --api-key sesame "
    "-fa on --mlock --no-mmap -cb --jinja --temp 0.7 --metrics -ctk q8_0 -ctv q8_0"
)


def test_a_whole_command_of_vllm_is_understood() -> None:
    assert changed(*VLLM_COMMAND.split()) == {
        "model_name": "acme/tiny",
        "served_names": ("tiny",),
        "trust_remote_code": True,
        "host": "0.0.0.0",
        "port": 8001,
        "api_keys": ("sesame",),
        "default_seed": 0,
        "tool_format": "hermes",
        "dtype": "float16",
        "context": 4096,
        "max_sequences": 16,
        "cuda_memory_fraction": 0.9,
        "max_batch_tokens": 2048,
    }
    assert [warning.split()[1] for warning in warned(*VLLM_COMMAND.split())] == [
        "--swap-space",
        "--block-size",
        "--disable-log-requests",
    ]


def test_a_whole_command_of_llama_cpp_is_understood() -> None:
    assert changed(*LLAMA_COMMAND.split()) == {
        "model_name": "tiny.gguf",
        "host": "0.0.0.0",
        "port": 8080,
        "api_keys": ("sesame",),
        "default_temperature": 0.7,
        "context": 8192,
        "max_sequences": 4,
        "max_batch_tokens": 2048,
        "threads": 8,
        "kv_dtype": "int8",
    }
    flags = ["-ub", "-fa", "--mlock", "--no-mmap"]
    assert [warning.split()[1] for warning in warned(*LLAMA_COMMAND.split())] == flags


def test_a_source_spells_a_flag_as_it_was_typed() -> None:
    assert parse(["--max_model_len", "5"]).flags.spell_name("MAX_MODEL_LEN") == "--max_model_len"
    assert Source("flags", {}).spell_name("MAX_MODEL_LEN") == "--max-model-len"


def test_keys_of_a_json_object_are_joined_with_the_object() -> None:
    command = parse(["--speculative-config.model.name", "a", "--speculative-config.model.size", "2"])
    assert command.flags.values == {"SPECULATIVE_CONFIG": '{"model": {"name": "a", "size": 2}}'}
    command = parse(["--speculative-config", "{}", "-sc.method", "ngram", "-sc.method.x", "1"])
    assert command.flags.values == {"SPECULATIVE_CONFIG": '{"method": {"x": 1}}'}


@pytest.mark.parametrize("value", ["-5", "1e3", "many", "1.5", "0.0001k", "nan", ""])
def test_a_count_that_is_none_is_refused(value: str) -> None:
    with pytest.raises(
        BadSetting, match=r"^flags: --max-num-seqs must be a whole number, 1 or more, also as 32k"
    ):
        from_line(f"--max-num-seqs={value}")
