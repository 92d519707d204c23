"""The names that h2oGPT has for settings.

MODEL_LOCK is accepted as a flag, in .env, in the environment and in config.py.
"""

from collections.abc import Mapping

from settings.aliases.alias import Alias

ALIASES: Mapping[str, Alias] = {"MODEL_LOCK": Alias("MODELS")}
FLAGS: Mapping[str, Alias] = {"BASE_MODEL": Alias("MODEL_NAME")}
