"""TINKER_LOSS_ALIASES: a loss that is not served is computed as another one."""

from collections.abc import Mapping
from dataclasses import replace

from api.tinker.pass_body import PassBody

LossAliases = Mapping[str, str]  # the loss that clients name → the one that is computed


def parse_aliases(setting: str) -> LossAliases:
    """The aliases of TINKER_LOSS_ALIASES: NAME:SERVED_NAME; empty: none."""
    name, _, served_name = setting.partition(":")
    return {name: served_name} if name else {}


def resolve_alias(body: PassBody, aliases: LossAliases) -> PassBody:
    """The pass with the loss that is computed, and without the config of the other one."""
    served_name = aliases.get(body.loss_fn)
    return replace(body, loss_fn=served_name, loss_fn_config={}) if served_name else body


def alias_warning(aliases: LossAliases) -> str | None:
    """For the client, when its session begins."""
    return "; ".join(f"loss_fn={name} is computed as {served}" for name, served in aliases.items()) or None
