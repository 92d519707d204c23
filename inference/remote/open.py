"""Opens the models of other servers: asks the servers what they are, and makes a backend for each model."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from itertools import count, islice

from inference.backend import Adapters
from inference.backend_info import ModelInfo
from inference.metrics.upstream import UpstreamMetrics
from inference.models import ModelEntry
from inference.remote.backend import RemoteBackend
from inference.remote.detect import Detected, ask, probe
from inference.remote.members.dns_members import LookUp, look_up_host, name_of, servers_behind, watch_name
from inference.remote.members.listed_members import ListedMembers, ListServers, OpenAt
from inference.remote.members.member import Member
from inference.remote.members.member_health import watch_health
from inference.remote.members.member_pool import MemberPool
from inference.remote.members.prefix_events import watch_prefixes
from inference.remote.open_member import CannotOpen, check_agreement, open_member
from inference.remote.residence import Residence, RunningReplicas
from inference.remote.running_answers import RunningAnswers
from inference.remote.upstreams.link import LinkApi, LinkTokenizer
from settings.inference_server import InferenceServer
from settings.remote_model import RemoteModel

REPLICAS_INTERVAL_S = 1.0  # between two looks at the list of replicas

log = logging.getLogger(__name__)


def open_models(
    models: Sequence[RemoteModel], metrics: UpstreamMetrics, look_up: LookUp = look_up_host
) -> list[ModelEntry]:
    """Open the models in their order. Blocks up to some seconds for servers that do not respond.

    Raises CannotOpen. A server that does not respond is no reason, unless its kind or its model is unknown.
    """
    models = [asyncio.run(at_addresses(model, look_up)) for model in models]
    detected = iter(probe(tuple(each for model in models for each in model.at_each_server)))
    opened = [
        open_model(model, list(islice(detected, 1 + len(model.others))), metrics, look_up) for model in models
    ]
    link_fallbacks(models, opened)
    return opened


async def at_addresses(model: RemoteModel, look_up: LookUp) -> RemoteModel:
    """The model with a server for each address of a name of DNS. An unknown name stays itself."""
    servers: list[InferenceServer] = []
    for server in (model.server, *model.others):
        servers += (server.dns_host and await servers_behind(server, look_up)) or [server]
    return replace(model, server=servers[0], others=tuple(servers[1:]))


def link_fallbacks(models: Sequence[RemoteModel], entries: Sequence[ModelEntry]) -> None:
    """Give each model its fallbacks. Raises CannotOpen for a name that is none of these models."""
    backends = {
        name: entry.backend
        for entry in entries
        for name in entry.names
        if isinstance(entry.backend, RemoteBackend)
    }
    for model, entry in zip(models, entries, strict=True):
        for name in (*model.fallbacks, *model.context_fallbacks):
            if name not in backends:
                raise CannotOpen(f"{model.name}: the fallback {name} is no model on another server")
        assert isinstance(entry.backend, RemoteBackend)
        entry.backend.set_fallbacks(
            [backends[name] for name in model.fallbacks],
            [backends[name] for name in model.context_fallbacks],
        )


def open_model(
    model: RemoteModel,
    detected: Sequence[Detected],
    metrics: UpstreamMetrics,
    look_up: LookUp = look_up_host,
) -> ModelEntry:
    """Open a model whose servers have been asked. Raises CannotOpen.

    A server of an unknown kind that does not respond is taken for one of the kind of the others.
    """
    first_kind = next((each.kind for each in detected if each.kind), None)
    is_numbered = bool(model.others or model.server.dns_host)
    opened = [
        open_member(
            at_server,
            each if each.kind else replace(each, kind=first_kind),
            suffix=f"-{number}" if is_numbered else "",
        )
        for number, (at_server, each) in enumerate(zip(model.at_each_server, detected, strict=True), 1)
    ]
    members = [member for member, _ in opened]
    check_agreement(members)
    kinds = list(dict.fromkeys(kind for _, kind in opened))
    named = replace(model, name=members[0].client.model.name)
    contexts = [each.context for each in detected if each.context]
    context = model.context or min(contexts, default=None)
    log.info("event=remote_model model=%s kind=%s context=%s", named.name, kinds[0], context)
    watches = [watch_health, watch_prefixes, *(each.watch for each in dns_members(named, members, look_up))]
    pool = MemberPool(named.name, members, metrics, watches)
    backend = RemoteBackend(named, pool, metrics, kind=", ".join(kinds), context=context)
    return ModelEntry(backend, (named.name, *model.aliases), is_remote=True)


def dns_members(model: RemoteModel, members: Sequence[Member], look_up: LookUp) -> list[ListedMembers]:
    """What watches each name of DNS among the model's servers, whose members are in the same order."""
    by_name: dict[str, dict[str, Member]] = {}
    names: dict[str, InferenceServer] = {}
    for at_server, member in zip(model.at_each_server, members, strict=True):
        if at_server.server.dns_host:
            name = name_of(at_server.server)
            names[name.url] = name
            by_name.setdefault(name.url, {})[at_server.server.url] = member
    open_at = make_opener(model, count(len(members) + 1), members)
    return [watch_name(names[url], by_name[url], open_at, look_up) for url in names]


def make_opener(model: RemoteModel, numbers: "count[int]", members: Sequence[Member]) -> OpenAt:
    """Opens the model at a further server.

    numbers  of its servers that have none yet
    members  those of the start, which it must agree with
    """

    async def open_at(server: InferenceServer) -> Member | None:
        at_server = replace(model, server=server, others=())
        detected = await ask(at_server)
        try:
            if detected.problem:
                return None
            member, _ = open_member(at_server, detected, f"-{next(numbers)}")
            check_agreement([*members, member])
            return member
        except CannotOpen as error:
            log.warning("event=member_refused model=%s: %s", model.name, error.message)
            return None

    return open_at


def open_child(
    model: RemoteModel,
    residence: Residence,
    metrics: UpstreamMetrics,
    running_answers: RunningAnswers,
    adapters: Adapters | None = None,
) -> RemoteBackend:
    """The backend of a model that a process of this server serves."""
    return RemoteBackend(
        model,
        MemberPool(model.name, [Member(model, LinkApi(model), LinkTokenizer(model))], metrics),
        metrics,
        kind="own process",
        context=model.context,
        residence=residence,
        adapters=adapters,
        running_answers=running_answers,
    )


def open_replicas(
    model: RemoteModel,
    servers: Sequence[InferenceServer],
    list_servers: ListServers,
    reported: ModelInfo,
    metrics: UpstreamMetrics,
) -> RemoteBackend:
    """The backend of a model whose replicas are processes of this server.

    servers       those that run at the start; at least one
    list_servers  those that run later, asked each REPLICAS_INTERVAL_S
    reported      what a replica says of the model
    """
    numbers = count(1)

    async def open_at(server: InferenceServer) -> Member:
        at_server = replace(model, server=server)
        api = LinkApi(at_server, has_replicas=True)
        return Member(at_server, api, LinkTokenizer(at_server), suffix=f"-{next(numbers)}")

    async def open_all() -> dict[str, Member]:
        return {server.url: await open_at(server) for server in servers}

    members = asyncio.run(open_all())
    listed = ListedMembers(list_servers, members, open_at, REPLICAS_INTERVAL_S)
    pool = MemberPool(model.name, list(members.values()), metrics, [watch_health, listed.watch])
    residence = RunningReplicas(reported)
    return RemoteBackend(model, pool, metrics, kind="replicas", context=reported.context, residence=residence)
