"""Trains, samples, saves, loads and lists with the installed tinker client, and prints all results as JSON.

Runs in its own environment: python drive_tinker.py URL MODEL TOKENS, where TOKENS is JSON. It knows only the
client, of any version since 0.3; tests check what it prints.
"""

import io
import json
import os
import sys
import tarfile
import warnings
from typing import Any
from urllib.request import urlopen

os.environ.setdefault("TINKER_API_KEY", "tml-any")
warnings.simplefilter("ignore")

import tinker  # noqa: E402
from tinker import types  # noqa: E402

LEARNING_RATE = 5e-3


def wait(future: Any) -> Any:
    """The result of a future; newer clients return one where older ones return the value."""
    return future.result() if hasattr(future, "result") else future


def numbers(tensor: Any) -> list[float]:
    return list(map(float, tensor.data))


def make_datum(tokens: list[int], **inputs: Any) -> types.Datum:
    arrays = {"target_tokens": (tokens[1:], "int64")}
    arrays |= {name: (values, "float32") for name, values in inputs.items()}
    return types.Datum(
        model_input=types.ModelInput.from_ints(tokens[:-1]),
        loss_fn_inputs={
            name: types.TensorData(data=values, dtype=dtype, shape=[len(values)])
            for name, (values, dtype) in arrays.items()
        },
    )


def main(url: str, model: str, tokens_json: str) -> None:
    tokens: list[int] = json.loads(tokens_json)
    service = tinker.ServiceClient(base_url=url)
    trainer = wait(service.create_lora_training_client(base_model=model, rank=4, seed=1))
    model_data = wait(trainer.get_info()).model_data
    results = {
        "models": [each.model_name for each in wait(service.get_server_capabilities()).supported_models],
        "model": model_data.model_name,
        "arch": model_data.arch,
        **train(trainer, tokens),
        **sample(trainer, tokens),
        **save_and_load(service, trainer, tokens),
    }
    if hasattr(service, "create_rest_client"):
        results |= download(service.create_rest_client(), trainer, results["path"])
        results |= list_and_delete(service.create_rest_client(), trainer)
    print(json.dumps(results))


def train(trainer: Any, tokens: list[int]) -> dict[str, Any]:
    """Cross entropy, submitted ahead; then a pass with each loss of reinforcement learning."""
    weights = [1.0] * (len(tokens) - 1)
    datum, losses, norms = make_datum(tokens, weights=weights), [], []
    pending = []
    for _ in range(4):
        forward = trainer.forward_backward([datum, datum], "cross_entropy")
        pending.append((forward, trainer.optim_step(types.AdamParams(learning_rate=LEARNING_RATE))))
    for forward, step in pending:
        losses.append(forward.result().metrics["loss:sum"])
        norms.append((getattr(step.result(), "metrics", None) or {}).get("grad_norm:mean"))
    logprobs = numbers(trainer.forward([datum], "cross_entropy").result().loss_fn_outputs[0]["logprobs"])
    sampled = make_datum(tokens, logprobs=logprobs, advantages=weights)
    ratios = {
        loss_fn: trainer.forward([sampled], loss_fn).result().metrics["loss:sum"]
        for loss_fn in ("importance_sampling", "ppo")
    }
    return {"losses": losses, "norms": norms, "logprobs": logprobs, "ratios": ratios}


def sample(trainer: Any, tokens: list[int]) -> dict[str, Any]:
    sampler = trainer.save_weights_and_get_sampling_client(name="s1")
    prompt = types.ModelInput.from_ints(tokens[:4])
    greedy = types.SamplingParams(max_tokens=4, temperature=0.0)
    seeded = types.SamplingParams(max_tokens=6, temperature=1.5, seed=3)
    results = sampler.sample(prompt=prompt, num_samples=1, sampling_params=greedy).result()
    several = [sampler.sample(prompt=prompt, num_samples=3, sampling_params=seeded) for _ in range(2)]
    return {
        "greedy": list(results.sequences[0].tokens),
        "greedy_logprobs": list(map(float, results.sequences[0].logprobs)),
        "seeded": [[list(each.tokens) for each in future.result().sequences] for future in several],
        "prompt_logprobs": [
            None if value is None else float(value)
            for value in sampler.compute_logprobs(types.ModelInput.from_ints(tokens)).result()
        ],
    }


def save_and_load(service: Any, trainer: Any, tokens: list[int]) -> dict[str, Any]:
    path = trainer.save_state("0001").result().path
    datum = make_datum(tokens, weights=[1.0] * (len(tokens) - 1))
    again = wait(service.create_training_client_from_state(path))
    losses = [
        client.forward([datum], "cross_entropy").result().metrics["loss:sum"] for client in (trainer, again)
    ]
    named = trainer.save_weights_for_sampler("named").result().path
    return {"path": path, "loaded_losses": losses, "named": named, "refusal": refusal(trainer)}


def refusal(trainer: Any) -> list[str]:
    """What the client raises for a refused pass and for a refused save; the run goes on behind them."""
    texts = []
    for call in (
        lambda: trainer.forward_backward([make_datum([1, 2, 10**6], weights=[1.0, 1.0])], "cross_entropy"),
        lambda: trainer.save_state("../x"),
    ):
        try:
            call().result()
        except Exception as error:
            texts.append(str(error))
    trainer.optim_step(types.AdamParams(learning_rate=0.0)).result()
    return texts


def download(rest: Any, trainer: Any, path: str) -> dict[str, Any]:
    """The files of a tar file, which clients before 0.36 ask for, and of external weights, known since 0.28.

    Their URLs are opened without a key.
    """
    contents: dict[str, dict[str, bytes]] = {}
    if hasattr(rest, "get_checkpoint_archive_url_from_tinker_path"):
        url = rest.get_checkpoint_archive_url_from_tinker_path(path).result().url
        with tarfile.open(fileobj=io.BytesIO(read(url))) as archive:
            files = [member for member in archive.getmembers() if member.isfile()]
            contents["archive"] = {file.name: archive.extractfile(file).read() for file in files}  # type: ignore[union-attr]
    if hasattr(trainer, "save_weights_external"):
        external = trainer.save_weights_external("out").result().path
        urls = rest.get_external_weights_urls(external).result().urls
        contents["external"] = {name: read(url) for name, url in urls.items()}
        rest.delete_checkpoint(trainer.model_id, "external_weights/out").result()
    return {
        "downloads": {kind: sorted(files) for kind, files in contents.items()},
        "ranks": [json.loads(files["adapter_config.json"])["r"] for files in contents.values()],
        "sizes": [len(files["adapter_model.safetensors"]) for files in contents.values()],
    }


def read(url: str) -> bytes:
    with urlopen(url, timeout=60) as response:
        return bytes(response.read())


def list_and_delete(rest: Any, trainer: Any) -> dict[str, Any]:
    run_id = trainer.model_id
    checkpoints = rest.list_checkpoints(run_id).result().checkpoints
    results = {
        "checkpoints": sorted(each.checkpoint_id for each in checkpoints),
        "run": rest.get_training_run(run_id).result().training_run_id == run_id,
        "listed": run_id
        in [each.training_run_id for each in rest.list_training_runs().result().training_runs],
    }
    rest.delete_checkpoint(run_id, "weights/0001").result()
    remaining = rest.list_checkpoints(run_id).result().checkpoints
    return results | {"left": [each.checkpoint_id for each in remaining]}


if __name__ == "__main__":
    main(*sys.argv[1:])
