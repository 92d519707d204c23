"""Servers of one model must agree in the settings that change its answers, also after a restart of one.

A restart is noticed by an id in the head of each response that is another one at each start. Anything of an
answer counts only once a server that has restarted was asked for its settings.
"""

import logging
from collections.abc import Sequence
from functools import partial

from inference.remote.answer_settings import answer_settings, disagreement
from inference.remote.detect import Detected, detect
from inference.remote.failures import changed
from inference.remote.members.member import Member

log = logging.getLogger(__name__)


def watch_starts(member: Member, members: Sequence[Member]) -> None:
    """Let answers of the server count only if it agrees with the others. members: the list, as it changes."""
    member.check_start = partial(check_start, member, members)


async def check_start(member: Member, members: Sequence[Member], start_id: str) -> None:
    """Ask the server for its settings if its answer comes from a start that is not known yet.

    Raises UpstreamFailure if it would answer differently from the model's other servers.
    """
    if len(members) == 1 or not start_id or start_id in member.known_starts:
        return
    async with member.asking:
        if start_id in member.known_starts:  # another answer has asked meanwhile
            return
        detected = await detect(member.client)
        if problem := detected.problem or disagreement_of(member, detected, members):
            raise changed(member.client.model.name, problem)
        member.known_starts.append(start_id)
        log.info("event=member_restarted member=%s", member.name)


def disagreement_of(member: Member, detected: Detected, members: Sequence[Member]) -> str:
    """Note the settings that the server has now; returns how they disagree with others' of the model.

    A server that is down or refused does not count: it would keep away those that it disagrees with.
    """
    others = [each.settings for each in members if each is not member and not each.breaker.is_failing]
    member.settings = answer_settings(detected.details)
    if problem := disagreement(member.settings, others):
        return problem
    if detected.start_id:
        member.known_starts.append(detected.start_id)
    return ""
