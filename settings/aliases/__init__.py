"""Other names of settings: those of TGI, Neodim, vLLM, llama.cpp, h2oGPT and the Hub, and our former ones.

ALIASES          names that mean a setting of this server, whose values may have to be converted
UNSUPPORTED      names of settings that this server does not have
EVERYWHERE       the names that also count in config.py, .env and the environment; the others are flags only
SPELLINGS        short flags and synonyms, each with the flag that it stands for
SERVE_SPELLINGS  those that take precedence after the word `serve`
"""

from collections.abc import Mapping

from settings.aliases import h2ogpt, llama_cpp, llama_cpp_without_effect, tgi, vllm, vllm_without_effect
from settings.aliases.alias import Alias, Unsupported
from settings.aliases.vllm import SERVE_SPELLINGS

__all__ = ["ALIASES", "EVERYWHERE", "SERVE_SPELLINGS", "SPELLINGS", "UNSUPPORTED", "Alias", "Unsupported"]

ALIASES: Mapping[str, Alias] = {
    **tgi.ALIASES,
    **vllm.ALIASES,
    **llama_cpp.ALIASES,
    **h2ogpt.ALIASES,
    **h2ogpt.FLAGS,
}
UNSUPPORTED: Mapping[str, Unsupported] = {
    **tgi.UNSUPPORTED,
    **vllm.REFUSED,
    **vllm.ENVIRONMENT,
    **vllm_without_effect.IGNORED,
    **llama_cpp.REFUSED,
    **llama_cpp_without_effect.IGNORED,
    **h2ogpt.REFUSED,
}
EVERYWHERE = frozenset({*tgi.ALIASES, *h2ogpt.ALIASES, *tgi.UNSUPPORTED, *vllm.ENVIRONMENT})
SPELLINGS: Mapping[str, str] = {**tgi.SPELLINGS, **vllm.SPELLINGS, **llama_cpp.SPELLINGS}
