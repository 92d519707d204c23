"""The real server as neodim-chat uses it: every field in every request, most of them null."""

import json

import pytest
import requests

from tests.api.neodim.chat_body import CHAT
from tests.servers.serving import ServerProcess

BODY = CHAT | {"prompt": "Q: What's the capital of France?\nA:", "generated_tokens_count": 12}
END = r"(?i)(?<!\W(?:dr|jr|mr|mrs|ms|prof|sr|st))[.!?](?=\s|$)"


@pytest.mark.slow
def test_a_chat_client_gets_all_the_fields_it_reads(server: ServerProcess) -> None:
    response = server.post("/generate", BODY | {"stop_strings": [END, r"\n"], "sequences_count": 4})
    assert response.status_code == 200, response.text
    report = response.json()
    assert report["used_prompt"] == BODY["prompt"]
    assert (
        report["output_tokens_count"] == report["used_input_tokens_count"] + report["generated_tokens_count"]
    )
    assert len(report["sequences"]) == 4
    for sequence in report["sequences"]:
        generated = sequence["generated_text"] + sequence["stop_string_match"] + sequence["trimmed_tail"]
        assert sequence["output_text"] == BODY["prompt"] + generated
        assert generated[:1] not in ("\n", "<")
    for gpu in report["gpus"]:
        assert 0 <= gpu["memory_free_min"] <= gpu["memory_total"]


@pytest.mark.slow
def test_a_stream_sends_what_the_whole_answer_contains(server: ServerProcess) -> None:
    body = BODY | {"seed": 5, "stream": True}
    with server.post("/generate", body, stream=True) as response:
        *tokens, report = map(json.loads, response.iter_lines())
    unstreamed = server.post("/generate", body | {"stream": False}).json()
    assert report | {"gpus": []} == unstreamed | {"gpus": []}
    assert len(tokens) >= 2 * report["generated_tokens_count"]


@pytest.mark.slow
def test_neodim_and_tgi_share_a_path_and_a_seed_gives_both_the_same_text(server: ServerProcess) -> None:
    prompt, seed = "Q: What's the capital of France?\nA:", 11
    neodim = {"prompt": prompt, "generated_tokens_count": 8, "max_total_tokens": 256, "seed": seed}
    tgi = {"do_sample": True, "temperature": 0.9, "seed": seed, "max_new_tokens": 8}
    reply = server.post("/generate", neodim | {"temperature": 0.9, "can_stop_early": True}).json()
    other = server.post("/generate", {"inputs": prompt, "parameters": tgi}).json()
    assert reply["sequences"][0]["generated_text"] == other["generated_text"]


@pytest.mark.slow
def test_a_file_opened_in_a_browser_may_call(server: ServerProcess) -> None:
    headers = {"Origin": "null", "Access-Control-Request-Method": "POST"}
    allowed = requests.options(server.url + "/generate", headers=headers, timeout=60)
    assert (allowed.status_code, allowed.headers["Access-Control-Allow-Origin"]) == (200, "null")
    refused = server.post("/generate", BODY | {"tfs": 7}, headers={"Origin": "null"})
    assert (refused.status_code, refused.headers["Access-Control-Allow-Origin"]) == (400, "null")
    assert refused.json()["error"] == "ValueError: tfs must be between 0 and 1, got 7.0"
