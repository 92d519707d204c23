"""The file formats of weights where their bits are kept, as far as native matrices have their formats."""

from inference.model.gguf.packed_file import open_keeping_bits
from inference.model.load.formats import FORMATS, WeightsFormat, is_gguf, safetensors_files
from inference.model.load.gguf.file.shards import shard_paths
from inference.model.weights.float16_checkpoint import has_float16_weights, open_keeping_float16
from inference.model.weights.mxfp4_checkpoint import has_mxfp4_weights, open_keeping_mxfp4

KEPT_FORMATS = (
    WeightsFormat(is_gguf, shard_paths, open_keeping_bits),
    WeightsFormat(has_mxfp4_weights, safetensors_files, open_keeping_mxfp4),
    WeightsFormat(has_float16_weights, safetensors_files, open_keeping_float16),
    *FORMATS,
)
