"""The heads of a model's GGUF files, read from the disk, or from the Hub in ranges: they say what it is.

How they are laid out is inference/model/gguf's, what transformers makes of them source/gguf's.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import repeat

from checks.finding import Finding, Refused
from checks.heads.ranges import CONNECTIONS, COST, REQUEST, parts_of
from checks.measure.tied import tied
from checks.source.config import checked
from checks.source.file import File
from checks.source.gguf import config
from checks.source.hub import Hub
from checks.source.repository import Repository
from checks.source.tensors import Unread
from inference.model.gguf.head import STEP, Head, NoGguf, head
from inference.model.gguf.parts import together

LITTLE = 1 << 13  # bytes asked for at once of a part that has few settings
LEAST = 1 << 9  # bytes that such a part is read at least


def by_heads(source: Repository, hub: Hub) -> Repository:
    """The model with the config that its heads tell. Raises Refused: without them nothing is known."""
    files = source.held
    names, sizes = [file.name for file in files], [file.size for file in files]
    try:
        whole = together(names, sizes, heads(source, files, hub))
        told = config(whole, source.weights)
    except (Unread, NoGguf) as reason:
        mend = "choose another GGUF_FILE, or a model with safetensors"
        raise Refused(Finding("weights", source.gguf, str(reason), False, mend)) from reason
    made = checked(told, source.name)
    if whole.tensors is None and source.values and tied(made, source.values):
        made["tie_word_embeddings"] = True
    return replace(source, config=made)


def heads(source: Repository, files: Sequence[File], hub: Hub) -> list[Head]:
    """Those on the Hub within what a verdict may cost: the first has the settings of all, and is read further
    than the others, whose tables come soon."""
    parts, sizes, rest = parts_of(source, files, hub), [file.size for file in files], len(files) - 1
    if source.folder is not None:
        return list(map(head, parts, sizes, sizes))
    each = max(LEAST, COST // 2 // max(1, rest) - REQUEST)
    most = (COST // 2 if rest else COST, *repeat(each, rest))
    steps = (STEP, *repeat(min(LITTLE, each), rest))
    with ThreadPoolExecutor(CONNECTIONS) as threads:
        return list(threads.map(head, parts, sizes, most, steps))
