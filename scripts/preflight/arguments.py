"""The command line of a comparison of predictions with measurements: which models, and where they stay."""

import argparse
from collections.abc import Collection
from pathlib import Path


def parse_args(description: str | None, models: Collection[str]) -> argparse.Namespace:
    """`models`, those named on the command line, none for all; and `folder`, None for a temporary one."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", metavar="model", help=f"{', '.join(models)} (default: all)")
    parser.add_argument("--folder", type=Path, help="keep the models in this folder (default: remove them)")
    args = parser.parse_args()
    if unknown := set(args.models) - set(models):
        parser.error(f"{', '.join(sorted(unknown))}: models are {', '.join(models)}")
    return args
