"""A split of a dataset is fetched from the Hub: its files, once, from no other host."""

from pathlib import Path
from typing import Any

import pytest

from hub.client import Hub
from hub.dataset_files import DatasetSource, select_by_name, select_files
from hub.fetch_dataset import fetch_dataset
from inference.finding import Finding, Refused
from tests.fakes import fake_hub

FILES = {
    "README.md": b"# Questions",
    ".gitattributes": b"",
    "data/train-00000-of-00002.jsonl": b'{"question": "1", "answer": "2"}\n',
    "data/train-00001-of-00002.jsonl": b'{"question": "3", "answer": "4"}\n' * 100,
    "data/test.jsonl": b'{"question": "5", "answer": "6"}\n',
    "data/train.parquet": b"PAR1",
}
SOURCE = DatasetSource("acme/questions")


@pytest.fixture
def repo(fake: fake_hub.FakeHub, tmp_path: Path) -> fake_hub.Repo:
    folder = tmp_path / "questions"
    for name, content in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    fake.repos["datasets/acme/questions"] = fake_hub.Repo(folder, tags=("v1",))
    return fake.repos["datasets/acme/questions"]


def fetch(client: Hub, source: DatasetSource = SOURCE, **options: Any) -> list[Path]:
    return fetch_dataset(client, source, **({"max_bytes": 10**6, "offline": False} | options))


def refusal(client: Hub, source: DatasetSource = SOURCE, **options: Any) -> Finding:
    with pytest.raises(Refused) as caught:
        fetch(client, source, **options)
    return caught.value.finding


@pytest.mark.parametrize("revision", ["main", "v1"])
def test_the_files_of_a_split_are_fetched_in_order(repo: fake_hub.Repo, client: Hub, revision: str) -> None:
    paths = fetch(client, DatasetSource("acme/questions", revision))
    assert [path.name for path in paths] == ["train-00000-of-00002.jsonl", "train-00001-of-00002.jsonl"]
    assert [path.read_bytes() for path in paths] == [FILES[f"data/{path.name}"] for path in paths]
    assert "datasets--acme--questions" in str(paths[0])
    assert [path.name for path in fetch(client, DatasetSource("acme/questions", split="test"))] == [
        "test.jsonl"
    ]


def test_files_in_the_cache_are_not_fetched_again(
    repo: fake_hub.Repo, client: Hub, fake: fake_hub.FakeHub
) -> None:
    paths = fetch(client)
    fake.requests.clear()
    assert fetch(client) == paths
    assert not [request for request in fake.requests if "/resolve/" in request.what]
    fake.requests.clear()
    assert fetch(client, offline=True) == paths
    assert not fake.requests
    fake.broken = 503
    assert fetch(client) == paths


def test_what_cannot_be_fetched_is_refused_with_what_to_do(
    repo: fake_hub.Repo, client: Hub, fake: fake_hub.FakeHub
) -> None:
    assert refusal(client, offline=True).have == "OFFLINE is set, and the cache has no copy"
    assert refusal(client, DatasetSource("acme/none")).have == "no such dataset, or a private one"
    assert refusal(client, DatasetSource("acme/questions", "v9")).have == "no such version"
    assert (
        "no files of the split 'validation'"
        in refusal(client, DatasetSource("acme/questions", split="validation")).have
    )
    assert "no configuration 'x'" in refusal(client, DatasetSource("acme/questions", subset="x")).have
    assert refusal(client, max_bytes=100).fix == "choose a smaller split, or raise MAX_FILE_MB"
    repo.gated = True
    assert "consent to the licence" in refusal(client).have
    repo.gated, fake.broken = False, 500
    assert "answers 500" in refusal(client).have


def test_nothing_but_the_split_is_fetched_and_only_from_the_hub(
    repo: fake_hub.Repo, client: Hub, fake: fake_hub.FakeHub
) -> None:
    fetch(client)
    fetched = {
        request.what.partition("/resolve/")[2] for request in fake.requests if "/resolve/" in request.what
    }
    assert {name.partition("/")[2] for name in fetched} == {
        "data/train-00000-of-00002.jsonl",
        "data/train-00001-of-00002.jsonl",
    }
    assert {request.host for request in fake.requests} == {fake.url.removeprefix("http://")}


def test_a_path_out_of_the_folder_is_refused(repo: fake_hub.Repo, client: Hub) -> None:
    repo.info_overrides = {"siblings": [{"rfilename": "../train.jsonl", "size": 10, "blobId": "0" * 40}]}
    assert "../train.jsonl" in str(refusal(client))


@pytest.mark.parametrize(
    ("names", "split", "selected_names"),
    [
        (["a.csv", "b.csv"], "train", ["a.csv", "b.csv"]),
        (["a.csv", "dev.csv"], "train", []),
        (["train.csv", "dev.csv"], "validation", ["dev.csv"]),
        (
            ["x/train/1.json", "x/training.json", "constraint.json"],
            "train",
            ["x/train/1.json", "x/training.json"],
        ),
        (["train.parquet", "train.csv"], "train", ["train.csv"]),
        (["train_sft-0.parquet", "train_gen-0.parquet"], "train_sft", ["train_sft-0.parquet"]),
        (["train.jsonl.gz", "dataset_infos.json"], "train", []),
    ],
)
def test_files_say_their_split_in_their_names(
    names: list[str], split: str, selected_names: list[str]
) -> None:
    assert select_by_name(names, split) == selected_names


CONFIGS = [
    {"config_name": "small", "data_files": "small/*.csv"},
    {
        "config_name": "large",
        "default": True,
        "data_files": [
            {"split": "train", "path": ["large/a-*.csv", "large/b.csv"]},
            {"split": "test", "path": "large/c.csv"},
        ],
    },
]
NAMES = ["small/1.csv", "large/a-1.csv", "large/a-2.csv", "large/b.csv", "large/c.csv"]


@pytest.mark.parametrize(
    ("source", "selected_names"),
    [
        (DatasetSource("a/b"), NAMES[1:4]),
        (DatasetSource("a/b", split="test"), NAMES[4:]),
        (DatasetSource("a/b", subset="small"), NAMES[:1]),
        (DatasetSource("a/b", subset="large"), NAMES[1:4]),
    ],
)
def test_a_card_says_which_files_are_a_split(source: DatasetSource, selected_names: list[str]) -> None:
    assert select_files(NAMES, {"configs": CONFIGS}, source) == selected_names


@pytest.mark.parametrize(
    "configs", [None, 1, [1], [{}], [{"data_files": 1}], [{"data_files": [{"path": 1}]}]]
)
def test_a_broken_card_is_refused_or_passed_over(configs: Any) -> None:
    try:
        assert select_files(["train.csv"], {"configs": configs}, SOURCE) == ["train.csv"]
    except Refused as refused:
        assert "no files of the split" in refused.finding.have
