"""The command line: every setting as a flag, other servers' names too, and what to do instead of serving.

Knows names and texts only; resolve.py checks the values.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from settings.aliases import ALIASES
from settings.elsewhere import ELSEWHERE
from settings.fields import KINDS, BadSetting
from settings.kinds import is_list, is_switch, rule, switch
from settings.layers import FLAGS as PLACE
from settings.layers import KNOWN, Layer, flag
from settings.resolve import unknown

ACTIONS = {
    "--check": "say whether the model will run here, then stop; exit code 0 or 1",
    "--download": "check, fetch what is missing of the model, then stop; exit code 0 or 1",
    "--selftest": "load the model, see that no answer depends on its neighbours, then stop; exit code 0 or 1",
    "--json": "with --check or --selftest: the answer as JSON",
    "--env": "what this machine and its libraries are, for a report, then stop",
    "--help": "this text",
    "--version": "the server's version",
}
SHORT = {"-h": "--help", "-e": "--env", "-p": "--port", "-g": "--drain-seconds"}
FLAGS: Mapping[str, str] = {flag(name): name for name in sorted(KNOWN)}


@dataclass(frozen=True, slots=True)
class Command:
    """The settings given as flags, and the actions asked for, such as {"--check"}."""

    flags: Layer
    actions: frozenset[str]


def parse(arguments: list[str]) -> Command:
    """Read --name=value, --name value, and switches alone. Raises BadSetting naming the nearest flag."""
    values: dict[str, str] = {}
    actions: dict[str, bool] = {}
    rest = deque(arguments)
    while rest:
        given, equals, value = rest.popleft().partition("=")
        given = SHORT.get(given, given)
        if given not in ACTIONS and given not in FLAGS:
            raise BadSetting(unknown(given, [*FLAGS, *ACTIONS], "flag") + "; --help lists them all")
        if not equals:
            value = following(given, rest)
        if given in ACTIONS:
            actions[given] = asked(given, value)
        else:
            name = FLAGS[given]
            values[name] = f"{values[name]},{value}" if name in values and is_list(kind(name)) else value
    return Command(Layer(PLACE, values), frozenset(action for action in actions if actions[action]))


def following(given: str, rest: deque[str]) -> str:
    """The value that comes behind a flag; a switch needs none."""
    if given in ACTIONS or is_switch(kind(FLAGS[given])):
        return rest.popleft() if rest and not rest[0].startswith("-") else "true"
    if not rest or rest[0].startswith("--"):
        alias = ALIASES.get(FLAGS[given])
        raise BadSetting(f"{given} needs a value: {(alias and alias.rule) or rule(kind(FLAGS[given]))}")
    return rest.popleft()


def kind(name: str) -> type:
    """What values this name takes, be it another server's."""
    if name in ELSEWHERE:
        return bool if ELSEWHERE[name].switch else str
    if name in ALIASES:
        return bool if ALIASES[name].switch else KINDS[ALIASES[name].setting]
    return KINDS[name]


def asked(action: str, value: str) -> bool:
    try:
        return switch(value)
    except ValueError:
        raise BadSetting(f"{action} takes no value but true or false, not {value!r}") from None
