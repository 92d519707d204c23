"""The optional services of a server: those that routes use in addition to the models."""

from dataclasses import dataclass

from api.adapters import FetchAdapter
from api.batches.service import Batches
from api.management.model_loading import ModelLoading
from api.management.sleep_mode import Sleeper
from api.store.store import Store
from tuning.service import TuningService


@dataclass(frozen=True, slots=True)
class Services:
    """The services that routes use in addition to the models. None: the server has no such service.

    store          keeps responses, conversations and chat completions
    fetch_adapter  fetches an adapter from the Hub
    tuning         keeps files and jobs
    batches        answers the requests of files
    model_loader   of the models that are loaded on demand
    sleeper        puts the model to sleep
    """

    store: Store | None = None
    fetch_adapter: FetchAdapter | None = None
    tuning: TuningService | None = None
    batches: Batches | None = None
    model_loader: ModelLoading | None = None
    sleeper: Sleeper | None = None
