"""Converts a model's folder to a GGUF file: python -m scripts.bench.drivers.convert SOURCE FOLDER FILE

SOURCE is the source folder of llama.cpp, whose converter is used. The converter identifies a tokenizer by the
token ids of a test text and refuses unknown tokenizers. The benchmark's prompts are token ids, so the
tokenizer is never used, and it is declared as GPT-2's.
"""

import runpy
import sys
from pathlib import Path


def main(source: str, folder: str, file: str) -> None:
    sys.path[:0] = [source, str(Path(source, "gguf-py"))]
    from conversion.base import TextModel

    TextModel.get_vocab_base_pre = lambda self, tokenizer: "gpt-2"
    script = Path(source, "convert_hf_to_gguf.py")
    sys.argv = [str(script), folder, "--outtype", "bf16", "--outfile", file]
    runpy.run_path(str(script), run_name="__main__")


if __name__ == "__main__":
    main(*sys.argv[1:])
