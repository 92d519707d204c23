"""Runs two recipes of tinker-cookbook as they are, and prints the curve of each as JSON.

Runs in its own environment: python drive_tinker_cookbook.py URL MODEL FOLDER PACKAGES. FOLDER has the
tokenizer and the data under the names that the recipes look for; torch comes from PACKAGES, the server's.
"""

import contextlib
import json
import os
import runpy
import sys
from pathlib import Path

os.environ["TINKER_API_KEY"] = "tml-any"
os.environ["HF_HUB_OFFLINE"] = "1"

SUPERVISED = ("chat_sl.train", "train_mean_nll", "dataset=chat.jsonl", "learning_rate=3e-3")
PREFERENCE = ("preference.dpo.train", "dpo_loss", "dataset=hhh", "learning_rate=1e-3")
MAX_STEPS, BATCH_SIZE = 4, 8


def main(url: str, model: str, folder: str, packages: str) -> None:
    os.environ["TINKER_BASE_URL"] = url
    os.environ["HF_HOME"] = f"{folder}/cache"
    sys.path.append(packages)
    os.chdir(folder)
    with contextlib.redirect_stdout(sys.stderr):
        curves = {recipe[0]: run(model, *recipe) for recipe in (SUPERVISED, PREFERENCE)}
    print(json.dumps(curves))


def run(model: str, name: str, metric: str, *arguments: str) -> list[float]:
    """The metric of each step."""
    sys.argv = [
        name,
        f"model_name={model}",
        f"log_path={name}",
        "renderer_name=role_colon",
        f"batch_size={BATCH_SIZE}",
        f"max_steps={MAX_STEPS}",
        *arguments,
    ]
    runpy.run_module(f"tinker_cookbook.recipes.{name}", run_name="__main__")
    rows = map(json.loads, Path(name, "metrics.jsonl").read_text().splitlines())
    return [row[metric] for row in rows if metric in row]


if __name__ == "__main__":
    main(*sys.argv[1:])
