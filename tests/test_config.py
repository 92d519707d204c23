"""Settings: where they come from, which wins, and what stops the start."""

from pathlib import Path

import pytest

import flags
import settings
from settings import NAMES, BadSetting, Layer, Settings

ROOT = Path(__file__).parent.parent
CONFIG = settings.config_layer(ROOT / "config.py")


def resolved(**values: object) -> Settings:
    return settings.resolve([CONFIG, Layer("here", values)])


def complaint(**values: object) -> str:
    with pytest.raises(BadSetting) as caught:
        resolved(**values)
    return str(caught.value)


def written(folder: Path, text: str) -> Path:
    path = folder / "config.py"
    path.write_text(text)
    return path


def test_config_py_sets_every_setting_and_nothing_else() -> None:
    assert set(CONFIG.values) == set(NAMES)


def test_every_setting_has_a_comment_in_config_py() -> None:
    assert all(flags.meanings((ROOT / "config.py").read_text()).values())


def test_env_example_lists_every_setting() -> None:
    lines = (ROOT / ".env.example").read_text().splitlines()
    assert sorted(line.partition("=")[0] for line in lines if "=" in line) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_readme_tells_a_setting_as_config_py_does(name: str) -> None:
    meaning = flags.meanings((ROOT / "config.py").read_text())[name]
    row = f"| `{name}` | `{CONFIG.values[name]!r}` | {meaning} |"
    assert row in (ROOT / "README.md").read_text().splitlines()


def test_the_last_layer_that_has_a_setting_wins() -> None:
    layers = [CONFIG, Layer(".env", {"PORT": "1"}), Layer("environment", {"PORT": "2"}), Layer("flags", {})]
    assert settings.resolve(layers).port == 2


def test_an_edited_config_py_is_read(tmp_path: Path) -> None:
    edited = (ROOT / "config.py").read_text().replace('"models/demo"', '"acme/tiny"')
    assert settings.resolve([settings.config_layer(written(tmp_path, edited))]).model_name == "acme/tiny"


@pytest.mark.parametrize(
    ("name", "value", "read"),
    [
        ("OFFLINE", "true", True),
        ("OFFLINE", "False", False),
        ("PORT", "8080", 8080),
        ("DRAIN_SECONDS", "2.5", 2.5),
        ("DEVICE", "cpu", "cpu"),
        ("API_KEYS", "one, two", ("one", "two")),
        ("API_KEYS", ["one", "two"], ("one", "two")),
        ("SERVED_NAMES", "", ()),
    ],
)
def test_a_value_is_read_in_its_settings_type(name: str, value: object, read: object) -> None:
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
    ],
)
def test_an_ill_typed_value_is_refused_with_its_rule(name: str, value: object, rule: str) -> None:
    assert complaint(**{name: value}) == f"here: {name} must be {rule}"


def test_an_unknown_setting_is_refused_with_the_nearest_one() -> None:
    assert complaint(MODEL_NAM="x") == "here: MODEL_NAM is not a setting; did you mean MODEL_NAME?"


def test_a_setting_deleted_from_config_py_is_missed(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="MODEL_REVISION"):
        settings.resolve([settings.config_layer(written(tmp_path, "PORT = 1\n"))])


def test_a_broken_config_py_names_its_line(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match=r"^config.py, line 2: "):
        settings.config_layer(written(tmp_path, "PORT = 1\nHOST = '\n"))


def test_a_word_without_quotes_in_config_py_is_explained(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match=r"'true' is not defined.*True or False"):
        settings.config_layer(written(tmp_path, "OFFLINE = true\n"))


def test_a_bad_secret_is_not_repeated() -> None:
    assert "hf_1234" not in complaint(HUGGINGFACE_ACCESS_TOKEN=["hf_1234"])


def test_secrets_are_not_in_the_settings_repr() -> None:
    told = repr(resolved(HUGGINGFACE_ACCESS_TOKEN="hf_1234", API_KEYS="sesame"))
    assert "hf_1234" not in told and "sesame" not in told


def test_empty_lines_of_dotenv_leave_config_py_alone(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_text("PORT=\nHOST=0.0.0.0\n")
    assert settings.file_layer(path).values == {"HOST": "0.0.0.0"}


def test_the_environments_other_names_are_ignored() -> None:
    assert settings.environment_layer({"PATH": "/bin", "PORT": "1"}).values == {"PORT": "1"}


def test_hf_token_stands_in_for_the_access_token() -> None:
    layer = settings.environment_layer({"HF_TOKEN": "hf_1"})
    assert settings.resolve([CONFIG, layer]).huggingface_access_token == "hf_1"


def test_the_access_token_comes_before_hf_token() -> None:
    layer = settings.environment_layer({"HF_TOKEN": "hf_1", "HUGGINGFACE_ACCESS_TOKEN": "hf_2"})
    assert layer.values == {"HUGGINGFACE_ACCESS_TOKEN": "hf_2"}


def test_flags_are_read_with_and_without_an_equals_sign() -> None:
    command = flags.parse(["--port=1", "--host", "0.0.0.0", "--model", "acme/tiny", "--check"])
    assert command.flags.values == {"PORT": "1", "HOST": "0.0.0.0", "MODEL_NAME": "acme/tiny"}
    assert command.actions == {"--check"}


def test_every_setting_has_a_flag() -> None:
    assert set(flags.FLAGS.values()) == set(NAMES)


def test_an_unknown_flag_names_the_nearest() -> None:
    with pytest.raises(BadSetting, match="--prot is not a flag; did you mean --port"):
        flags.parse(["--prot=1"])


def test_a_flag_without_its_value_says_what_it_takes() -> None:
    with pytest.raises(BadSetting, match="--device needs a value: auto, cpu or cuda"):
        flags.parse(["--device", "--check"])


def test_help_lists_every_flag_and_hides_secrets() -> None:
    told = flags.help_text(resolved(API_KEYS="sesame"), (ROOT / "config.py").read_text())
    assert all(flag in told for flag in (*flags.FLAGS, *flags.ACTIONS))
    assert "sesame" not in told


def test_the_columns_of_help_line_up() -> None:
    lines = flags.table([("--a", "1", "short"), ("--longer", "12345", "word " * 40)]).splitlines()
    assert [line.find(word) for line, word in zip(lines, ("short", "word", "word"), strict=False)] == [19] * 3
    assert max(map(len, lines)) <= flags.WIDTH
