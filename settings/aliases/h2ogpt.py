"""The names that h2oGPT has for settings.

ALIASES    accepted as flags, in .env, in the environment and in config.py; FLAGS on the command line only
OF_ENTRY   flags about the one model of --inference-server, by the key of an entry of MODELS that they are
"""

from collections.abc import Mapping

from settings.aliases.alias import Alias, Unsupported, refused

ALIASES: Mapping[str, Alias] = {
    "MODEL_LOCK": Alias("MODELS"),
    "REQUEST_TIMEOUT_FAST": Alias("CONNECT_TIMEOUT"),
}
FLAGS: Mapping[str, Alias] = {
    "BASE_MODEL": Alias("MODEL_NAME"),
    "MAX_SEQ_LEN": Alias("CONTEXT"),
    "MAX_NEW_TOKENS": Alias("DEFAULT_MAX_TOKENS"),
    "MAX_MAX_NEW_TOKENS": Alias("MAX_ANSWER_TOKENS"),
}
OF_ENTRY: Mapping[str, str] = {
    "PROMPT_TYPE": "prompt_type",
    "PROMPT_DICT": "prompt_dict",
    "TOKENIZER_BASE_MODEL": "tokenizer_base_model",
}
WITHOUT_SERVER = "it is for a model at --inference-server: one of this machine has CHAT_TEMPLATE"
REFUSED: Mapping[str, Unsupported] = refused(WITHOUT_SERVER, " ".join(OF_ENTRY))
