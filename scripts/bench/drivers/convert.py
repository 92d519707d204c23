"""Writes a model's folder as a GGUF file: python -m scripts.bench.drivers.convert SOURCE FOLDER FILE

With the converter of llama.cpp, whose source is in SOURCE. It knows tokenizers by what they make of a text,
and refuses others. How a text is split does not matter where prompts are token ids: ours passes for GPT-2's,
with a merge that is never met, as llama.cpp wants one.
"""

import runpy
import sys
from pathlib import Path
from typing import Any

MERGE = "Ġ Ġ"


def main(source: str, folder: str, file: str) -> None:
    sys.path[:0] = [source, str(Path(source, "gguf-py"))]
    from conversion.base import TextModel
    from gguf import SpecialVocab

    TextModel.get_vocab_base_pre = known
    written = SpecialVocab.add_to_gguf

    def merging(self: Any, *args: Any, **kwargs: Any) -> None:
        self.merges = self.merges or [MERGE]
        written(self, *args, **kwargs)

    SpecialVocab.add_to_gguf = merging
    script = Path(source, "convert_hf_to_gguf.py")
    sys.argv = [str(script), folder, "--outtype", "bf16", "--outfile", file]
    runpy.run_path(str(script), run_name="__main__")


def known(self: Any, tokenizer: Any) -> str:
    return "gpt-2"


if __name__ == "__main__":
    main(*sys.argv[1:])
