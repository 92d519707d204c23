"""Are there weights in a form that is safe to read, all of them, and those that the model has?"""

from checks.finding import Finding, listed, size
from checks.machine import Machine
from checks.plan import Plan
from checks.source.file import File
from checks.source.repository import Repository
from inference.model.architecture import no_weights
from inference.model.gguf.parts import GGUF

FORMS = {
    ".safetensors": "safetensors",
    GGUF: "GGUF, unpacked at load",
    ".bin": "pickles, which ALLOW_PICKLE lets in",
}


def check(plan: Plan, machine: Machine) -> Finding:
    source = plan.repository
    files = source.held
    if not files:
        return Finding("weights", "safetensors", "none", False, f"the model {no_weights(source.names)}")
    if missing := [file.name for file in source.files if not there(file, source)]:
        verb = "are" if len(missing) > 1 else "is"
        have = f"{len(source.files) - len(missing)}"
        return Finding(
            "weights",
            f"{len(source.files)} files",
            have,
            False,
            f"{listed(missing)} {verb} missing: {elsewhere(source)}",
        )
    need, have = (
        f"{size(source.weights)} of {form(files[0].name)}",
        "1 file" if len(files) == 1 else f"{len(files)} files",
    )
    if wrong := fault(plan):
        return Finding("weights", need, *wrong)
    return Finding("weights", need, f"{have}{told(plan)}", True)


def there(file: File, source: Repository) -> bool:
    """Whether the file is where the model is; an index may name others."""
    return file.here if source.folder else file.name in source.names


def elsewhere(source: Repository) -> str:
    """Where the files that are missing may be."""
    if source.folder is None:
        return "its authors have left it so, choose another MODEL_REVISION or model"
    if source.commit:
        return "fetch what is, with the Hub in reach and OFFLINE = False"
    return f"copy what is into {source.folder}"


def form(name: str) -> str:
    return next(form for ending, form in FORMS.items() if name.endswith(ending))


def fault(plan: Plan) -> tuple[str, bool, str] | None:
    """What the files' headers show to be wrong: what there is, that it is not ok, and what to do."""
    headers, measure = plan.repository.headers, plan.measure
    if headers and headers.damaged:
        why = headers.malformed or "not as long as its header says"
        return f"{listed(list(headers.damaged))}: {why}", False, anew(plan.repository, headers.damaged[0])
    if measure and measure.missing:
        have = f"{len(measure.missing)} are missing, such as {measure.missing[0]}"
        return have, False, "choose a model whose config.json and weights belong together"
    if measure and measure.wrong:
        name, file, own = measure.wrong[0]
        have = f"{len(measure.wrong)} of another shape, such as {name}: {shown(file)} for {shown(own)}"
        return have, False, "choose a model whose config.json and weights belong together"
    return None


def anew(source: Repository, name: str) -> str:
    """How to have a file again that is no good: what the cache has of it stays there until it is removed."""
    kept = source.notes / name if source.commit and source.notes else None
    if kept and kept.is_file():
        return f"remove {kept.resolve()}, and start again; if it comes so again, tell its authors"
    return f"fetch {source.name} again, or tell its authors"


def told(plan: Plan) -> str:
    """What is worth knowing of files that are well."""
    headers, measure = plan.repository.headers, plan.measure
    said = plan.repository.config.get("dtype") or plan.repository.config.get("torch_dtype")
    if headers and headers.unread:
        return f"; not looked into: {headers.unread}"
    if headers and measure and measure.stored and said and measure.stored != said and not quantised(plan):
        return f" of {measure.stored}, whatever config.json says of {said}"
    return ""


def quantised(plan: Plan) -> bool:
    return "quantization_config" in plan.repository.config


def shown(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape)) or "a number"
