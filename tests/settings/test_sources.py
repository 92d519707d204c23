"""Settings: their sources, which source takes precedence, and what stops the start."""

from pathlib import Path

import pytest

from settings.schema import BadSetting
from settings.sources import Source, read_config_file, read_env_file, read_environment, resolve
from tests.settings.conftest import CONFIG, Complaint, Resolved

ROOT = Path(__file__).parent.parent.parent
NAME_ALONE = 'must be an address or a name alone, such as "127.0.0.1"'


def write_config(folder: Path, text: str) -> Path:
    path = folder / "config.py"
    path.write_text(text)
    return path


def test_the_last_source_that_has_a_setting_takes_precedence() -> None:
    layers = [
        CONFIG,
        Source(".env", {"PORT": "1"}),
        Source("environment", {"PORT": "2"}),
        Source("flags", {}),
    ]
    assert resolve(layers).port == 2


def test_a_later_source_takes_precedence_under_another_name() -> None:
    layers = [CONFIG, Source("environment", {"PORT": "1"}), Source("flags", {"LISTEN_PORT": "2"})]
    assert resolve(layers).port == 2


def test_an_edited_config_py_is_read(tmp_path: Path) -> None:
    edited = (ROOT / "config.py").read_text().replace('"models/demo"', '"acme/tiny"')
    assert resolve([read_config_file(write_config(tmp_path, edited))]).model_name == "acme/tiny"


@pytest.mark.parametrize(
    ("name", "value", "read"),
    [
        ("OFFLINE", "true", True),
        ("OFFLINE", "False", False),
        ("OFFLINE", "1", True),
        ("PORT", "8080", 8080),
        ("DRAIN_SECONDS", "2.5", 2.5),
        ("DEVICE", "cpu", "cpu"),
        ("API_KEYS", "one, two", ("one", "two")),
        ("API_KEYS", ["one", "two"], ("one", "two")),
        ("SERVED_NAMES", "", ()),
    ],
)
def test_a_value_is_parsed_as_its_settings_type(
    resolved: Resolved, name: str, value: object, read: object
) -> None:
    assert getattr(resolved(**{name: value}), name.lower()) == read


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("PORT", "web", "a whole number, 0 to 65535, not 'web'"),
        ("PORT", 70000, "a whole number, 0 to 65535, not 70000"),
        ("PORT", True, "a whole number, 0 to 65535, not True"),
        ("DEVICE", "gpu", "auto, cpu or cuda, not 'gpu'"),
        ("OFFLINE", "maybe", "true or false, not 'maybe'"),
        ("DRAIN_SECONDS", "nan", "a number, 0 or more, not 'nan'"),
        ("MODEL_NAME", 5, "text, not 5"),
        ("LISTEN_PORT", "web", "a whole number, 0 to 65535, not 'web'"),
        ("PAYLOAD_LIMIT", "2MB", "a whole number of bytes, 1000 or more, not '2MB'"),
        ("PAYLOAD_LIMIT", "500", "a whole number of bytes, 1000 or more, not '500'"),
        ("PRECISION", "int8", "original, float32 or float16 (QUANTIZE for fewer bits), not 'int8'"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_with_the_rule(
    complaint: Complaint, name: str, value: object, rule: str
) -> None:
    assert complaint(**{name: value}) == f"here: {name} must be {rule}"


def test_an_unknown_setting_is_refused_with_the_nearest_one(complaint: Complaint) -> None:
    assert complaint(MODEL_NAM="x") == "here: MODEL_NAM is not a setting; did you mean MODEL_NAME?"


def test_a_setting_deleted_from_config_py_is_reported(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="MODEL_REVISION"):
        resolve([read_config_file(write_config(tmp_path, "PORT = 1\n"))])


def test_a_broken_config_py_names_its_line(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match=r"^config.py, line 2: "):
        read_config_file(write_config(tmp_path, "PORT = 1\nHOST = '\n"))


def test_an_unquoted_word_in_config_py_is_explained(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match=r"^config.py, line 2: .*'true' is not defined.*True or False"):
        read_config_file(write_config(tmp_path, "PORT = 1\nOFFLINE = true\n"))


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ('PORT = "80" + 1', "TypeError: "),
        ("PORT = 1 / 0", "ZeroDivisionError: "),
        ("import no_such_package", "ModuleNotFoundError: "),
        ("PORT = int('web')", "ValueError: "),
    ],
)
def test_an_error_of_the_code_in_config_py_names_its_line(tmp_path: Path, line: str, error: str) -> None:
    with pytest.raises(BadSetting, match=rf"^config.py, line 3: {error}"):
        read_config_file(write_config(tmp_path, f"HOST = ''\n\n{line}\n"))


def test_modules_that_config_py_imports_are_not_settings(tmp_path: Path) -> None:
    source = read_config_file(write_config(tmp_path, "import os\nPORT = len(os.sep)\n"))
    assert source.values == {"PORT": 1}


def test_a_bad_secret_is_not_shown(complaint: Complaint) -> None:
    assert "hf_1234" not in complaint(HUGGINGFACE_ACCESS_TOKEN=["hf_1234"])
    assert "hf_1234" not in complaint(HF_TOKEN=["hf_1234"])


def test_secrets_are_not_in_the_settings_repr(resolved: Resolved) -> None:
    text = repr(resolved(HUGGINGFACE_ACCESS_TOKEN="hf_1234", API_KEYS="sesame"))
    assert "hf_1234" not in text and "sesame" not in text


def test_empty_lines_of_dotenv_leave_config_py_alone(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_text("PORT=\nHOST=0.0.0.0\n")
    assert read_env_file(path).values == {"HOST": "0.0.0.0"}


def test_other_names_in_the_environment_are_ignored() -> None:
    assert read_environment({"PATH": "/bin", "PORT": "1"}).values == {"PORT": "1"}


@pytest.mark.parametrize(
    ("name", "is_setting"), [("3f9c1d", False), ("gpu-box.local", False), ("0.0.0.0", True), ("::", True)]
)
def test_the_machines_hostname_is_not_an_address_to_listen_on(name: str, is_setting: bool) -> None:
    assert ("HOSTNAME" in read_environment({"HOSTNAME": name}).values) is is_setting


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (
            {"MAX_INPUT_TOKENS": 200, "MAX_TOTAL_TOKENS": 200},
            "`max_input_tokens`(200) must be < `max_total_tokens`(200)",
        ),
        (
            {"MAX_TOTAL_TOKENS": 300, "MAX_BATCH_TOTAL_TOKENS": 200},
            "`max_total_tokens` must be <= `max_batch_total_tokens`. Given: 300 and 200",
        ),
        ({"QUANTIZE": "int8", "NUM_SHARD": 2}, 'QUANTIZE="int8" works in one process only'),
        ({"QUANTIZE": "int4", "DTYPE": "float16"}, 'QUANTIZE="int4" computes in bfloat16 or float32'),
        ({"VALIDATION_WORKERS": 0}, "`validation_workers` must be > 0"),
        ({"PORT": 9000, "PROMETHEUS_PORT": 9000}, "PROMETHEUS_PORT and PORT are both 9000"),
        ({"HOST": "127.0.0.1:9000"}, f"HOST=127.0.0.1:9000 {NAME_ALONE}"),
        ({"HOST": "http://localhost"}, f"HOST=http://localhost {NAME_ALONE}"),
    ],
)
def test_settings_that_exclude_each_other_are_refused(
    complaint: Complaint, values: dict[str, object], expected: str
) -> None:
    assert complaint(**values).startswith(expected + ": ")


def test_compatible_settings_are_accepted(resolved: Resolved) -> None:
    assert resolved(MAX_INPUT_TOKENS=199, CONTEXT=200, MAX_BATCH_TOTAL_TOKENS=200).max_input_tokens == 199
    assert resolved(MAX_INPUT_TOKENS=199).context == 0


def test_no_rope_scaling_may_be_written_as_an_empty_text(resolved: Resolved) -> None:
    assert resolved(ROPE_SCALING="").rope_scaling == "none"
