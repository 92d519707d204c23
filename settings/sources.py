"""Merges config.py, .env, the environment and flags into Settings: the last source with a value wins."""

import ipaddress
import runpy
import traceback
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from settings.aliases import ALIASES, EVERYWHERE, UNSUPPORTED, Alias
from settings.entry_values import BadEntry
from settings.local_model import LocalModel
from settings.model_list import ServedModels, single_model
from settings.rules import check
from settings.schema import NAMES, SECRETS, TYPES, BadSetting, Settings
from settings.unknown_names import describe_unknown
from settings.value_types import describe, parse

FLAGS = "flags"
KNOWN_NAMES = frozenset({*TYPES, *EVERYWHERE})
FLAG_NAMES = frozenset({*TYPES, *ALIASES, *UNSUPPORTED})


@dataclass(frozen=True, slots=True)
class Source:
    """Values from one source, by name. A value is text, or a Python object from config.py.

    origin     the source's name in messages: "config.py", ".env", "environment" or "flags"
    spellings  flags by name, as they were typed
    """

    origin: str
    values: Mapping[str, Any]
    spellings: Mapping[str, str] = field(default_factory=dict)

    @property
    def known_names(self) -> frozenset[str]:
        return FLAG_NAMES if self.origin == FLAGS else KNOWN_NAMES

    def spell_name(self, name: str) -> str:
        """The name as it is written in this source: a flag for the command line."""
        return self.spellings.get(name) or (flag_name(name) if self.origin == FLAGS else name)


def resolve(setting_sources: Iterable[Source]) -> Settings:
    """Merge the sources and check the result. Raises BadSetting."""
    values: dict[str, Any] = {}
    for source in setting_sources:
        values |= values_of_source(source)
    if missing := [name for name in NAMES if name not in values]:
        raise BadSetting(f"config.py: {', '.join(missing)} missing; add a line {missing[0]} = … to it")
    settings = with_models(Settings(**{name.lower(): value for name, value in values.items()}))
    check(settings)
    return settings


def with_models(settings: Settings) -> Settings:
    """The settings with INFERENCE_SERVER or REPLICAS as an entry of MODELS.

    MODEL_NAME is the model of this machine; empty if this process loads none. Raises BadSetting.
    """
    models = settings.models
    if settings.inference_server:
        models = models_at("INFERENCE_SERVER", (settings.inference_server,), settings)
    if settings.replicas.servers:
        models = models_at("REPLICAS", settings.replicas.servers, settings)
    if not models.entries:
        return settings
    models = models.with_defaults(
        max_answer_tokens=settings.max_answer_tokens,
        connect=settings.connect_timeout,
        probe=settings.probe_timeout,
    )
    if models.own:
        return settings_of_model(replace(settings, models=models), models.own)
    for model in models.on_demand:
        settings_of_model(settings, model)
    return replace(settings, models=models, model_name="")


def models_at(name: str, servers: tuple[str, ...], settings: Settings) -> ServedModels:
    """The one model that the servers of the setting `name` answer for. Raises BadSetting."""
    if settings.models.entries:
        raise BadSetting(f"{name} and MODELS are both set: put the servers into an entry of MODELS")
    if settings.inference_server and settings.replicas:
        raise BadSetting("INFERENCE_SERVER and REPLICAS are both set: put all servers into REPLICAS")
    try:
        return single_model(settings.model_name, servers, settings.context)
    except BadEntry as error:
        raise BadSetting(f"{name}: {error}") from None


def settings_of_model(settings: Settings, model: LocalModel) -> Settings:
    """The settings of a model of this machine, with those of its own entry. Raises BadSetting."""
    values = values_of_source(Source(f"MODELS: {model.name}", model.settings))
    other_names = () if model.name == model.base_model else (model.name,)
    own_settings = replace(
        settings,
        model_name=model.base_model,
        served_names=(*other_names, *model.aliases, *settings.served_names),
        tuning_memory_gb=0.0,  # several models have no tuning
        **{name.lower(): value for name, value in values.items()},
    )
    check(own_settings)
    return own_settings


def warnings(setting_sources: Iterable[Source]) -> Iterator[str]:
    """Warnings about settings without effect, and about deprecated names and values. Call after `resolve`."""
    for source in setting_sources:
        for name, value in source.values.items():
            if warning := warning_of(name, value, source):
                yield f"{source.origin}: {warning}"


def warning_of(name: str, value: Any, source: Source) -> str:
    """What is to be said of a name and its value; empty if nothing is."""
    spelled = source.spell_name(name)
    if name in UNSUPPORTED and UNSUPPORTED[name].warns(str(value)):
        return f"{spelled} has no effect: {UNSUPPORTED[name].no_effect_because}"
    if current := current_spelling(name, value, source):
        return f"{spelled}={value} is deprecated: write {current}"
    if is_overriding(name, source) and (others := other_names(name, source)):
        return f"{others} has no effect: {spelled} is {value}"
    return ""


def other_names(alias_name: str, source: Source) -> str:
    """The other names in the source for the setting of an alias, as they are spelled; empty if none."""
    setting = ALIASES[alias_name].setting
    names = (
        name
        for name in source.values
        if name != alias_name and setting in (name, name in ALIASES and ALIASES[name].setting)
    )
    return " and ".join(map(source.spell_name, names))


def current_spelling(name: str, value: Any, source: Source) -> str:
    """The current spelling of a deprecated name or value; empty if it is not deprecated."""
    alias = ALIASES.get(name)
    if alias is None or not (alias.is_former or value in alias.former_values):
        return ""
    return f"{source.spell_name(alias.setting)}={alias.convert(value)}"


def values_of_source(source: Source) -> dict[str, Any]:
    """The parsed values of a source by setting. Raises BadSetting."""
    values: dict[str, Any] = {}
    names: dict[str, str] = {}
    for name, alias in sorted(known_settings(source), key=lambda item: precedence(item[0], item[1], source)):
        first = names.setdefault(alias.setting, name)
        if first == name:
            values[alias.setting] = parse_value(name, alias, source)
        elif not (alias.is_fallback or is_overriding(first, source)):
            both = f"{source.spell_name(first)} and {source.spell_name(name)}"
            raise BadSetting(f"{source.origin}: {both} are two names of one setting: remove one of them")
    return values


def precedence(name: str, alias: Alias, source: Source) -> int:
    """The order in which the names of one setting in one source count: the first one wins."""
    return 0 if is_overriding(name, source) else 1 + alias.is_fallback


def is_overriding(name: str, source: Source) -> bool:
    """Whether the source gives an alias a value that overrides the setting's other names."""
    return name in ALIASES and str(source.values[name]).lower() in ALIASES[name].overriding


def known_settings(source: Source) -> Iterator[tuple[str, Alias]]:
    """Each name in the source, with its alias. Raises BadSetting for an unknown or refused name."""
    for name, value in source.values.items():
        if name not in source.known_names:
            raise BadSetting(f"{source.origin}: {describe_foreign(name)}")
        if name in UNSUPPORTED and UNSUPPORTED[name].refuses(str(value)):
            shown_value = "" if UNSUPPORTED[name].is_switch and value == "true" else f" {value}"
            reason = f"{source.spell_name(name)}{shown_value}: {UNSUPPORTED[name].refused_because}"
            raise BadSetting(f"{source.origin}: {reason}")
        alias = ALIASES.get(name, Alias(name) if name in TYPES else None)
        if alias and value not in alias.unset:
            yield name, alias
            if alias.also:
                yield name, alias.also


def describe_foreign(name: str) -> str:
    """Why a name is no setting of a file or the environment, and the right one if it is known."""
    if name in ALIASES:
        return f"{name} counts on the command line only: write {ALIASES[name].setting}"
    return describe_unknown(name, NAMES, "setting")


def parse_value(name: str, alias: Alias, source: Source) -> Any:
    """The value converted to its setting's type. Raises BadSetting, which names the violated rule."""
    kind, value = TYPES[alias.setting], source.values[name]
    try:
        return parse(kind, alias.convert(value))
    except BadEntry as error:
        raise BadSetting(f"{source.origin}: {source.spell_name(name)} {error}") from None
    except ValueError:
        shown_value = "its current value" if alias.setting in SECRETS else repr(value)
        reason = f"must be {alias.rule or describe(kind)}, not {shown_value}"
        raise BadSetting(f"{source.origin}: {source.spell_name(name)} {reason}") from None


def flag_name(name: str) -> str:
    return "--" + name.lower().replace("_", "-")


def read_sources(home: Path, environment: Mapping[str, str]) -> tuple[Source, ...]:
    """Read config.py and .env in `home`, and the environment; later ones override earlier ones.

    Raises BadSetting.
    """
    return (
        read_config_file(home / "config.py"),
        read_env_file(home / ".env"),
        read_environment(environment),
    )


def read_config_file(path: Path) -> Source:
    """The values that config.py sets, without the modules that it imports. Raises BadSetting if it fails."""
    try:
        variables = runpy.run_path(str(path))
    except Exception as error:  # the file is code of the user
        raise BadSetting(f"{locate_error(error, path)}: {describe_error(error)}") from None
    return Source(path.name, {name: value for name, value in variables.items() if is_value(name, value)})


def locate_error(error: Exception, path: Path) -> str:
    """The file and, if it is known, the line in it that raised the error."""
    lines = [
        frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)
    ]
    line = lines[-1] if lines else getattr(error, "lineno", None)
    return f"{path.name}, line {line}" if line else path.name


def describe_error(error: Exception) -> str:
    if isinstance(error, SyntaxError):
        return error.msg
    if isinstance(error, NameError):
        return f"{error}; put text in quotes, and write True or False"
    return f"{type(error).__name__}: {error}"


def is_value(name: str, value: Any) -> bool:
    return not name.startswith("_") and not isinstance(value, ModuleType)


def read_env_file(path: Path) -> Source:
    """The values that .env sets, if it exists; an empty value counts as not set."""
    if not path.exists():
        return Source(path.name, {})
    from dotenv import dotenv_values  # imported only if there is a file, so that --help needs no package

    return Source(path.name, without_empty(dotenv_values(path)))


def read_environment(environment: Mapping[str, str]) -> Source:
    """The values of the environment variables whose names are settings, aliases or settings of other servers.

    Containers set HOSTNAME to the machine's name, so HOSTNAME counts only if it is an IP address.
    """
    known = {name: value for name, value in environment.items() if name in KNOWN_NAMES}
    if not is_address(known.get("HOSTNAME", "")):
        known.pop("HOSTNAME", None)
    return Source("environment", without_empty(known))


def without_empty(values: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in values.items() if value}


def is_address(value: str) -> bool:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return False
    return True
