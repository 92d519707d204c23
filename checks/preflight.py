"""Runs the checks before the weights are fetched.

Knows the settings and the checks; fetches only small files. report.py prints the findings.
"""

from dataclasses import dataclass, replace
from pathlib import Path

from checks.draft_model import check_draft_model, plan_draft_model
from checks.execution import device, kv_dtype, layers, quantize, runner, shards, triton
from checks.machine import Machine, inspect
from checks.memory.overhead import measure_overhead
from checks.memory.plan import Plan, make_plan, replan
from checks.memory.plan_request import PlanRequest
from checks.model import architecture, chat_template, prequantized, tokenizer, weights
from checks.model.adapters import check_adapters, num_resident_values
from checks.model.repository import check_access, check_licence, check_remote_code
from checks.resources import disk, enough_memory
from checks.resources.network import check_network
from checks.speed.estimate import Speed
from checks.speed.plan_speed import estimate_speed
from checks.suggestions import Configuration, as_list, suggest
from hub.download.fetch import with_resumable_bytes
from hub.repository import RepoFile, Repository
from hub.resolve import PendingRepository, make_hub
from hub.weight_headers.gguf import with_gguf_config
from inference.finding import Finding, Refused
from inference.model.load.device_dtype import resolve_device
from inference.model.load.rope import rope_scaling
from inference.native.weight_cache.source_files import weight_cache_folder
from settings.device_defaults import fill_defaults
from settings.groups import tuning_memory_bytes, tuning_processes
from settings.schema import Settings

ALL_CHECKS = (
    check_access,
    check_licence,
    architecture.check,
    check_remote_code,
    layers.check,
    tokenizer.check,
    chat_template.check,
    shards.check,
    prequantized.check,
    quantize.check,
    runner.check,
    kv_dtype.check,
    weights.check,
    disk.check,
    device.check,
    triton.check,
    enough_memory.check_ram,
    enough_memory.check_gpus,
    enough_memory.check_context,
)


@dataclass(frozen=True, slots=True)
class PreflightReport:
    """The findings of all checks.

    plan         None if the model was refused before it could be planned
    suggestions  configurations that fit, if the plan does not
    speed        None if it was not estimated
    """

    findings: tuple[Finding, ...]
    machine: Machine
    plan: Plan | None
    suggestions: tuple[Configuration, ...] = ()
    speed: Speed | None = None

    @property
    def ok(self) -> bool:
        return all(finding.ok for finding in self.findings)

    @property
    def files_to_fetch(self) -> list[RepoFile]:
        """The plan's files that the cache does not have, the draft model's among them."""
        plans = (self.plan, self.plan.draft_plan) if self.plan else ()
        return [file for plan in plans if plan for file in plan.repository.files_to_fetch]


def preflight(settings: Settings, pending: PendingRepository) -> PreflightReport:
    """Inspect the machine, resolve the model, and run all checks. Fetches only small files."""
    machine = inspect(
        cache_dir=make_hub(settings).cache_dir,
        host=settings.host,
        port=settings.port,
        cuda_memory_fraction=settings.cuda_memory_fraction,
    )
    early_findings = (
        *device.check_auto(settings.device, settings.layers, machine),
        *check_network(fill_defaults(settings, resolve_device(settings.device)), machine),
    )
    try:
        plan = plan_repository(settings, pending(), machine)
        plan = replace(plan, draft_plan=plan_draft_model(settings, plan, machine, plan_repository))
    except Refused as error:
        return PreflightReport((*early_findings, error.finding), machine, None)
    adapter_checks = check_adapters(settings, plan, make_hub(settings))
    plan = replan(plan, num_adapter_values=num_resident_values(adapter_checks, settings.max_loras))
    findings = (
        *early_findings,
        *run_checks(plan, machine),
        *disk.check_weight_cache(weight_cache_folder(settings.weight_cache_dir), plan, machine),
        *device.check_tuning(tuning_processes(settings, len(machine.gpus)), plan, machine),
        *check_draft_model(plan, machine),
        *(each.finding for each in adapter_checks),
    )
    report = PreflightReport(findings, machine, plan)
    if not report.ok:
        return replace(report, suggestions=tuple(suggest(plan, machine)))
    if not settings.max_input_tokens:
        return report
    prompt_finding = enough_memory.check_prompt(
        settings.max_input_tokens,
        enough_memory.plan_budget(plan, machine).context,
        is_context_lowered=plan.is_context_lowered,
    )
    return PreflightReport((*report.findings, prompt_finding), machine, plan)


def with_speed(report: PreflightReport) -> PreflightReport:
    """The report with the estimated speed of a model that fits. Measures the device."""
    if not report.ok or report.plan is None:
        return report
    return replace(report, speed=estimate_speed(report.plan, report.machine))


def plan_repository(settings: Settings, repository: Repository, machine: Machine) -> Plan:
    """Make the memory plan of the model for these settings. Raises Refused."""
    hub = make_hub(settings)
    described = with_gguf_config(repository, hub) if repository.gguf_file else repository
    resumable = with_resumable_bytes(described, hub)
    device, layer_devices = devices_of(settings, resumable, machine)
    settings = fill_defaults(settings, device)
    request = PlanRequest(
        device=device,
        dtype=settings.dtype,
        bfloat16_devices=machine.bfloat16_devices,
        context=settings.context,
        max_sequences=settings.max_sequences,
        kv_memory_bytes=int(settings.kv_memory_gb * 1e9),
        tuning_memory_bytes=tuning_memory_bytes(settings),
        trust_remote_code=settings.trust_remote_code,
        max_batch_total_tokens=settings.max_batch_total_tokens,
        num_shard=settings.num_shard or max(1, len(machine.gpus) if device == "cuda" else 1),
        layer_devices=layer_devices,
        quantize=settings.quantize_at_load,
        imatrix=Path(settings.imatrix) if settings.imatrix else None,
        stored_quantization=settings.stored_quantization,
        runner=settings.runner,
        kv_dtype=settings.kv_dtype,
        deterministic=settings.deterministic,
        rope_scaling=rope_scaling(settings.rope_scaling, settings.rope_factor),
        tokenizer_config_path=Path(settings.tokenizer_config_path)
        if settings.tokenizer_config_path
        else None,
        chat_template=settings.chat_template,
        max_batch_tokens=settings.max_batch_tokens,
    )
    plan = make_plan(resumable, request)
    return replan(plan, overhead=measure_overhead())  # with what a first measurement of the model imports


def devices_of(settings: Settings, repository: Repository, machine: Machine) -> tuple[str, tuple[str, ...]]:
    """Returns "cpu" or "cuda", and the device of each layer if LAYERS splits the model. Raises Refused."""
    if settings.layers:
        return layers.place_layers(settings.layers, repository.config, num_gpus=len(machine.gpus))
    return resolve_device(settings.device), ()


def run_checks(plan: Plan, machine: Machine) -> list[Finding]:
    """The findings of all checks; a check that does not apply has none."""
    return [finding for check in ALL_CHECKS for finding in as_list(check(plan, machine))]
