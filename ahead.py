"""The model that is asked for, looked up while the libraries are loaded: one waits for the network, the other
for the processor.

Knows where models are, and what of them may be read before a verdict. Loads neither transformers nor what
judges a model.
"""

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from threading import Thread

from huggingface_hub import constants

from checks.heads.safetensors import with_headers
from checks.source.find import find
from checks.source.forms import Forms
from checks.source.hub import Hub
from checks.source.repository import Repository
from settings.fields import Settings

Source = Callable[[], Repository]  # what was found, once it is; raises Refused


def looked_up(settings: Settings, home: Path, *, anew: bool = False) -> Repository:
    """The model, and what its safetensors hold; `anew`: its newest version. Raises Refused."""
    hub = hub_of(settings)
    found = find(
        settings.model_name,
        settings.model_revision,
        home=home,
        hub=hub,
        offline=settings.offline,
        code=settings.trust_remote_code,
        forms=Forms(settings.allow_pickle, settings.gguf_file),
        anew=anew,
    )
    return with_headers(found, hub)


def looking_up(settings: Settings, home: Path, *, anew: bool = False) -> Source:
    """Begin, on a thread that no end of the process waits for."""
    found: Future[Repository] = Future()

    def look() -> None:
        try:
            found.set_result(looked_up(settings, home, anew=anew))
        except BaseException as error:  # whoever waits for it is told
            found.set_exception(error)

    Thread(target=look, name="ahead", daemon=True).start()
    return found.result


def hub_of(settings: Settings) -> Hub:
    cache = Path(settings.cache_dir or constants.HF_HUB_CACHE).expanduser()
    return Hub(constants.ENDPOINT, cache, settings.huggingface_access_token)
