"""Bodies of training passes, in JSON and protobuf."""

from api.tinker.protobuf.wire import bytes_field
from tests.api.tinker.protobuf_bodies import MODEL_ID, REQUEST
from tests.api.tinker.scripted_runs import RUN

PROTOBUF = "application/x-protobuf"
OWN_REQUEST = REQUEST.replace(bytes_field(1, MODEL_ID.encode()), bytes_field(1, RUN.encode()))
CHUNK = {"type": "encoded_text", "tokens": [1, 2]}
TARGETS = {"data": [2, 3], "dtype": "int64", "shape": [2]}
JSON_PASS = {
    "data": [{"model_input": {"chunks": [CHUNK]}, "loss_fn_inputs": {"target_tokens": TARGETS}}],
    "loss_fn": "cross_entropy",
}
