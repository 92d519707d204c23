"""What --help says: every setting with its value now and its meaning, then what is understood besides.

The meanings are the comments of config.py.
"""

from collections.abc import Iterator
from itertools import groupby
from textwrap import wrap

from settings.aliases import ALIASES
from settings.elsewhere import ELSEWHERE, Elsewhere
from settings.fields import KINDS, NAMES, SECRETS, Settings
from settings.flags import ACTIONS, SHORT
from settings.layers import flag

WIDTH = 110  # columns of the help
Row = tuple[str, str, str]

ABOUT = """\
usage: python3 main.py [--setting=value …]

Every setting, its value now, and its meaning. They are kept in config.py; .env and environment
variables of the same name override it, and flags override those. A switch needs no value.
"""
OTHERS = """
Also understood, as flags, in .env and in the environment: what other servers call these settings.
"""
LACKING = """
And what they have that this server has not:
"""


def help_text(settings: Settings, source: str) -> str:
    """Everything that can stand on the command line; `source` is the text of config.py."""
    told = meanings(source)
    rows = [(flag(name), shown(name, getattr(settings, name.lower())), told[name]) for name in NAMES]
    actions = [(action, "", meaning) for action, meaning in ACTIONS.items()]
    short = [(short, "", f"short for {long}") for short, long in SHORT.items()]
    return "\n".join(
        (
            ABOUT,
            table([*rows, ("", "", ""), *actions, *short]),
            OTHERS,
            table(list(other_names())),
            LACKING,
            table([(flag(name), "", fate(other)) for name, other in ELSEWHERE.items()]),
        )
    )


def other_names() -> Iterator[Row]:
    """Each setting that goes by other names as well, and those names."""
    known = [(alias.setting, name) for name, alias in ALIASES.items() if name != alias.setting]
    for setting, names in groupby(sorted(known, key=lambda one: NAMES.index(one[0])), lambda one: one[0]):
        yield flag(setting), "", ", ".join(spelled(name) for _, name in names)


def spelled(name: str) -> str:
    """The flag, and what its values must be where the setting's own are others."""
    return flag(name) + (f" ({ALIASES[name].rule})" if ALIASES[name].rule else "")


def fate(other: Elsewhere) -> str:
    """What comes of another server's setting here."""
    if not other.refused:
        return f"has no effect: {other.idle}"
    passing = ", ".join((*other.neutral, *other.passed))
    return f"{passing}; any other is refused: {other.refused}" if passing else f"refused: {other.refused}"


def table(rows: list[Row]) -> str:
    """Three columns that line up; the third is wrapped."""
    first, second = (max(len(row[column]) for row in rows) for column in (0, 1))
    margin = " " * (first + second + (6 if second else 4))
    lines = []
    for name, value, meaning in rows:
        wrapped = wrap(meaning, WIDTH - len(margin)) or [""]
        lines.append(f"  {name:{first}}  {value:{second}}{'  ' if second else ''}{wrapped[0]}".rstrip())
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
