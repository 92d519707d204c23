"""Exports a fine-tuned model: python -m tuning.export NAME --to FOLDER --format FORMAT [--push REPOSITORY].

NAME is a fine-tuned model of TUNING_DIR, or a folder; the base of an adapter is MODEL_NAME, or the fully
fine-tuned model that a job trained it over.
"""

import argparse
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from hub.push import push_folder
from hub.resolve import make_hub
from inference.errors import ServerError
from inference.finding import Refused
from inference.lora.file_names import ADAPTER_CONFIG
from settings.groups import tuning_folder
from settings.schema import BadSetting, Settings
from settings.sources import read_sources, resolve
from tuning.export.find_model import find_base, find_model, find_trained_base
from tuning.export.formats import FORMATS, write_adapter
from tuning.export.merge import MergedModel, merge_adapter, open_full_model

HOME = Path(__file__).resolve().parents[2]


def main(arguments: list[str]) -> int:
    """Returns 0 if the model was exported, 1 if it was refused, 2 for wrong settings."""
    options = make_parser().parse_args(arguments)
    try:
        return export(options)
    except BadSetting as error:
        print(f"hearth: {error}", file=sys.stderr)
        return 2
    except Refused as error:
        print(f"export: {error.finding.have}: {error.finding.fix}", file=sys.stderr)
    except (ServerError, OSError) as error:
        print(f"export: {error}", file=sys.stderr)
    return 1


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tuning.export", description="Export a fine-tuned model for other programs."
    )
    parser.add_argument(
        "name", metavar="NAME", help="a fine-tuned model, or the folder of an adapter or model"
    )
    parser.add_argument("--to", type=Path, required=True, metavar="FOLDER", help="a new folder")
    parser.add_argument(
        "--format", choices=(*FORMATS, "adapter"), default="safetensors", help="(%(default)s)"
    )
    parser.add_argument(
        "--dtype",
        choices=("float32", "bfloat16", "float16"),
        help="of safetensors (default: as the base model's files)",
    )
    parser.add_argument(
        "--base",
        help="name or folder of an adapter's base (default: what it was trained over here, else MODEL_NAME)",
    )
    parser.add_argument(
        "--push", metavar="OWNER/NAME", help="upload the folder to this repository of the Hub"
    )
    parser.add_argument("--public", action="store_true", help="a repository that --push creates is public")
    return parser


def export(options: argparse.Namespace) -> int:
    settings = resolve(read_sources(HOME, os.environ))
    if options.to.exists() and (not options.to.is_dir() or any(options.to.iterdir())):
        print(f"export: {options.to} exists and is not an empty folder: name a new one", file=sys.stderr)
        return 1
    source = find_model(options.name, tuning_folder(settings))
    options.to.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=f".{options.to.name}.", dir=options.to.parent) as partial:
        target = Path(partial) / "export"
        target.mkdir()
        if options.format == "adapter":
            messages = write_adapter(source, target)
        else:
            model = open_model(source, settings, find_base_of(source, settings, options.base))
            messages = FORMATS[options.format](model, target, options.dtype)
        if options.to.exists():
            options.to.rmdir()
        shutil.move(target, options.to)
    print(*(f"note: {message}" for message in messages), options.to, sep="\n")
    if options.push:
        print(push_folder(make_hub(settings), options.push, options.to, is_private=not options.public))
    return 0


def find_base_of(source: Path, settings: Settings, base: str | None) -> Path | None:
    """The folder of the model under an adapter; None for a whole model. base: as --base. Raises Refused."""
    if not (source / ADAPTER_CONFIG).is_file():
        return None
    trained = None if base else find_trained_base(source, tuning_folder(settings))
    return trained or find_base(replace(settings, model_name=base or settings.model_name), HOME)


def open_model(source: Path, settings: Settings, base: Path | None) -> MergedModel:
    """The model of a folder, or the base with the adapter in it."""
    if base is None:
        return open_full_model(source, trust_remote_code=settings.trust_remote_code)
    return merge_adapter(base, source, trust_remote_code=settings.trust_remote_code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
