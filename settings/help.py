"""The text of --help: every setting with its value and meaning, the actions, then the aliases.

The meanings are the comments in config.py.
"""

from collections.abc import Iterator
from itertools import groupby
from textwrap import wrap

from settings.aliases import ALIASES, SPELLINGS, UNSUPPORTED, Unsupported
from settings.aliases.alias import OFF_VALUES
from settings.flags import ACTIONS
from settings.schema import NAMES, SECRETS, TYPES, Settings
from settings.sources import flag_name

WIDTH = 110  # columns of text
Row = tuple[str, str, str]

ABOUT = """\
usage: python3 main.py [serve] [MODEL] [--setting=value …]

All settings, with their current values. They are set in config.py; .env and environment variables of
the same name override it, and flags override those. A switch needs no value.
"""
ALIASES_HEADING = """
Other names of these settings, in other servers or formerly in this one, as flags. docs/flags.md says which
of them also work in .env, in the environment and in config.py:
"""
UNSUPPORTED_HEADING = """
Flags of other servers that this server does not have:
"""


def help_text(settings: Settings, source: str) -> str:
    """The text of --help; `source` is the text of config.py."""
    comments = read_comments(source)
    rows = [
        (spell(name), format_value(name, getattr(settings, name.lower())), comments[name]) for name in NAMES
    ]
    actions = [(", ".join(spellings_of(action)), "", meaning) for action, meaning in ACTIONS.items()]
    return "\n".join(
        (
            ABOUT,
            format_rows([*rows, ("", "", ""), *actions]),
            ALIASES_HEADING,
            format_rows(list(alias_rows())),
            UNSUPPORTED_HEADING,
            *unsupported_paragraphs(),
        )
    )


def alias_rows() -> Iterator[Row]:
    """A row for each setting that has aliases, with the aliases."""
    known = [(alias.setting, name) for name, alias in ALIASES.items() if name != alias.setting]
    for setting, names in groupby(sorted(known, key=lambda one: NAMES.index(one[0])), lambda one: one[0]):
        yield flag_name(setting), "", ", ".join(spell_alias(name) for _, name in names)


def spell_alias(name: str) -> str:
    """The alias as a flag, with a note if it is deprecated or if its values follow another rule."""
    note = "deprecated" if ALIASES[name].is_former else ALIASES[name].rule
    return spell(name) + (f" ({note})" if note else "")


def spell(name: str) -> str:
    """The flag of a name, with its short forms."""
    return ", ".join(spellings_of(flag_name(name)))


def spellings_of(flag: str) -> list[str]:
    """A flag and all that stands for it or switches it off."""
    return [flag, *(short for short, long in SPELLINGS.items() if long in (flag, f"--no-{flag[2:]}"))]


def unsupported_paragraphs() -> Iterator[str]:
    """What the flags of other servers do here, each time followed by the flags."""
    meanings = {name: describe_unsupported(unsupported) for name, unsupported in UNSUPPORTED.items()}
    for meaning in dict.fromkeys(meanings.values()):
        names = ", ".join(spell(name) for name in meanings if meanings[name] == meaning)
        yield from wrap(meaning, WIDTH, initial_indent="  ", subsequent_indent="  ")
        yield from wrap(
            names, WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 6, break_on_hyphens=False
        )


def describe_unsupported(unsupported: Unsupported) -> str:
    """What another server's setting does here."""
    if not unsupported.refused_because:
        return f"has no effect: {unsupported.no_effect_because}"
    accepted = () if unsupported.accepted == OFF_VALUES else unsupported.accepted
    passing_values = ", ".join((*accepted, *unsupported.ignored))
    return (
        f"{passing_values}; any other is refused: {unsupported.refused_because}"
        if passing_values
        else f"refused: {unsupported.refused_because}"
    )


def format_rows(rows: list[Row]) -> str:
    """Three aligned columns; the third is wrapped. The second is left out if it is empty in every row."""
    first, second = (max(len(row[column]) for row in rows) for column in (0, 1))
    margin = " " * (first + second + (6 if second else 4))
    lines = []
    for name, value, meaning in rows:
        wrapped = wrap(meaning, WIDTH - len(margin), break_on_hyphens=False) or [""]
        lines.append(f"  {name:{first}}  {value:{second}}{'  ' if second else ''}{wrapped[0]}".rstrip())
        lines.extend(margin + line for line in wrapped[1:])
    return "\n".join(lines)


def read_comments(source: str) -> dict[str, str]:
    """Each setting's comment in config.py, which is the comment lines directly above it, by name."""
    comments: dict[str, str] = {}
    comment: list[str] = []
    for line in source.splitlines():
        if line.startswith("#"):
            comment.append(line.removeprefix("#").strip())
            continue
        name = line.partition("=")[0].strip()
        if name in TYPES:
            comments[name] = " ".join(comment)
        comment = []
    return comments | {name: "" for name in NAMES if name not in comments}


def format_value(name: str, value: object) -> str:
    """The value as it is typed in a flag; a secret only as set or not set."""
    if name in SECRETS:
        return "set" if value else "not set"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(value) or "-"
    return f"{value:g}" if isinstance(value, float) else str(value) or "-"
