"""Are Python and the packages that everything stands on new enough? Asked before any of them is imported.

Knows their oldest releases that work here; requirements.txt has those that are tested.
"""

import re
from importlib.metadata import PackageNotFoundError, version

OLDEST = {"torch": "2.11", "transformers": "5.17", "huggingface_hub": "1.0"}


def too_old() -> str:
    """What to say of the first package that is; empty where none is. One that is missing is not told here."""
    for package, oldest in OLDEST.items():
        try:
            installed = version(package)
        except PackageNotFoundError:
            continue
        if numbers(installed) < numbers(oldest):
            return (
                f"{package} {installed} is installed, and {oldest} or newer is needed: "
                "run scripts/setup.sh, or pip3 install --upgrade -r requirements.txt"
            )
    return ""


def numbers(release: str) -> tuple[int, ...]:
    """5.17.0.dev0 and 2.11.0+cpu are (5, 17) and (2, 11)."""
    return tuple(int(number) for number in re.findall(r"\d+", release)[:2])
