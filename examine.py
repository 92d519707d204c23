"""What the checks find of the port, the machine and the model, before anything large is fetched; and how that
is told.

Knows the checks; wiring.py says to them what they need of the settings.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from ahead import Source, hub_of
from checks import connections, every, memory, port, prompt
from checks.finding import Finding, Refused
from checks.machine import Machine, look, taken
from checks.nearest import Configuration, nearest
from checks.plan import Plan
from checks.source.file import File
from settings.fields import Settings
from wiring import plan_of


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the checks found, and what would fit where the plan does not; `plan` is None where they did not
    come that far."""

    findings: tuple[Finding, ...]
    machine: Machine
    plan: Plan | None
    fitting: tuple[Configuration, ...] = ()

    @property
    def ok(self) -> bool:
        return all(finding.ok for finding in self.findings)

    @property
    def files(self) -> list[File]:
        """Those that are to be fetched."""
        return self.plan.repository.wanted if self.plan else []


def examine(settings: Settings, source: Source) -> Verdict:
    """Look at the machine and the model, and compare. Nothing but small files is fetched."""
    machine = look(
        cache=hub_of(settings).cache,
        host=settings.host,
        port=settings.port,
        gpu_share=settings.cuda_memory_fraction,
    )
    listening = [
        *ports(settings, machine),
        connections.check(settings.max_concurrent_requests, machine.open_files),
    ]
    try:
        planned = plan_of(settings, source(), machine)
    except Refused as error:
        return Verdict((*listening, error.finding), machine, None)
    verdict = Verdict((*listening, *every.run(planned, machine)), machine, planned)
    if not verdict.ok:
        return replace(verdict, fitting=tuple(nearest(planned, machine)))
    if not settings.max_input_tokens:
        return verdict
    room = prompt.check(settings.max_input_tokens, memory.budget(planned, machine).context)
    return Verdict((*verdict.findings, room), machine, planned)


def ports(settings: Settings, machine: Machine) -> list[Finding]:
    findings = [port.check(settings.host, settings.port, machine.taken)]
    if other := settings.prometheus_port:
        findings.append(port.check(settings.host, other, taken(settings.host, other), "PROMETHEUS_PORT"))
    return findings


def show(verdict: Verdict, *, as_json: bool) -> None:
    write = every.as_json if as_json else every.table
    print(write(verdict.findings, verdict.fitting, verdict.files))


def tell(
    findings: Sequence[Finding],
    settings: Settings,
    fitting: Sequence[Configuration] = (),
    files: Sequence[File] = (),
) -> None:
    """Print the findings as the log is written: for people, or on one line for programs."""
    write = partial(every.as_json, indent=None) if settings.json_output else every.table
    print(write(findings, fitting, files), flush=True)
