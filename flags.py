"""The command line: every setting as a flag, and the few things one can ask for instead of serving.

Knows names and texts only; settings.py checks the values.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from textwrap import wrap

from settings import KINDS, NAMES, SECRETS, BadSetting, Layer, Settings, rule, unknown

WIDTH = 110  # columns of the help
SHORT = {"--model": "MODEL_NAME", "--revision": "MODEL_REVISION"}
ACTIONS = {
    "--check": "say whether the model will run here, then stop; exit code 0 or 1",
    "--json": "with --check: the answer as JSON",
    "--help": "this text",
    "--version": "the server's version",
}
FLAGS: Mapping[str, str] = {f"--{name.lower().replace('_', '-')}": name for name in NAMES} | SHORT


@dataclass(frozen=True, slots=True)
class Command:
    """The settings given as flags, and the actions asked for, such as {"--check"}."""

    flags: Layer
    actions: frozenset[str]


def parse(arguments: list[str]) -> Command:
    """Read --name=value and --name value. Raises BadSetting naming the nearest flag."""
    values: dict[str, str] = {}
    actions = set()
    rest = iter(arguments)
    for argument in rest:
        flag, equals, value = argument.partition("=")
        if flag in ACTIONS and not equals:
            actions.add(flag)
        elif flag in FLAGS:
            values[FLAGS[flag]] = value if equals else following(flag, rest)
        else:
            raise BadSetting(unknown(flag, [*FLAGS, *ACTIONS], "flag") + "; --help lists them all")
    return Command(Layer("flags", values), frozenset(actions))


def following(flag: str, rest: Iterator[str]) -> str:
    value = next(rest, None)
    if value is None or value.startswith("--"):
        raise BadSetting(f"{flag} needs a value: {rule(KINDS[FLAGS[flag]])}")
    return value


def help_text(settings: Settings, source: str) -> str:
    """Every flag, its value now and its meaning: the comments of config.py, whose text `source` is."""
    told = meanings(source)
    names = {name: flag for flag, name in FLAGS.items() if flag not in SHORT}
    rows = [(names[name], shown(name, getattr(settings, name.lower())), told[name]) for name in NAMES]
    short = [(flag, "", f"short for {names[name]}") for flag, name in SHORT.items()]
    actions = [(flag, "", meaning) for flag, meaning in ACTIONS.items()]
    return "\n".join(
        (
            "usage: python3 main.py [--setting=value …]",
            "",
            "Every setting, its value now, and its meaning. They are kept in config.py; .env and environment",
            "variables of the same name override it, and flags override those.",
            "",
            table([*rows, ("", "", ""), *short, *actions]),
        )
    )


def table(rows: list[tuple[str, str, str]]) -> str:
    """Three columns that line up; the third is wrapped."""
    first, second = (max(len(row[column]) for row in rows) for column in (0, 1))
    margin = " " * (first + second + 6)
    lines = []
    for flag, value, meaning in rows:
        wrapped = wrap(meaning, WIDTH - len(margin)) or [""]
        lines.append(f"  {flag:{first}}  {value:{second}}  {wrapped[0]}".rstrip())
        lines.extend(margin + line for line in wrapped[1:])
    return "\n".join(lines)


def meanings(source: str) -> dict[str, str]:
    """Each setting's comment in config.py: the comment lines right above it."""
    told: dict[str, str] = {}
    comment: list[str] = []
    for line in source.splitlines():
        if line.startswith("#"):
            comment.append(line.removeprefix("#").strip())
            continue
        name = line.partition("=")[0].strip()
        if name in KINDS:
            told[name] = " ".join(comment)
        comment = []
    return told | {name: "" for name in NAMES if name not in told}


def shown(name: str, value: object) -> str:
    """The value as one would type it; secrets only as set or not set."""
    if name in SECRETS:
        return "set" if value else "not set"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(value) or "-"
    return f"{value:g}" if isinstance(value, float) else str(value) or "-"
