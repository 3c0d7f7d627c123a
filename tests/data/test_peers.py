"""Rows selected by sampling, splitting, mixing and shuffling, compared with NumPy and Hugging Face datasets."""
import json
import os
import random
import subprocess
from pathlib import Path

import datasets
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
HELD_OUT = "all_exhausted_without_replacement"


@pytest.fixture(scope="module")
def probe(tmp_path_factory):
    program = Path(os.environ.get("HONE_BUILD", ROOT / "build")) / "data_test"
    if not program.exists():
        pytest.fail(f"{program} is not built; make test builds it")

    def ask(requests):
        path = tmp_path_factory.mktemp("probe") / "requests.json"
        path.write_text(json.dumps(requests))
        subprocess.run([program, "--gtest_filter=PeerProbe.*"], check=True, capture_output=True, env={**os.environ, "HONE_DATA_PROBE": str(path)})
        return json.loads(Path(f"{path}.answer").read_text())

    return ask


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    for name, count in [("a", 137), ("b", 40), ("c", 11)]:
        rows = [{"query": f"{name}{i}", "response": "r"} for i in range(count)]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def load(files, name):
    return datasets.Dataset.from_list([json.loads(line) for line in (files / f"{name}.jsonl").read_text().splitlines()])


def test_generators_match_numpy(probe):
    requests = [
        {"seed": seed, "wide_seed": wide, "size": size, "probabilities": [0.2, 0.5, 0.3]}
        for seed, wide in [(0, 0), (42, 42), (2**32 - 1, 2**31 - 2), (7, 2**40 + 3)]
        for size in [1, 2, 3, 100, 4097]
    ]
    for request, answer in zip(requests, probe(requests)):
        legacy = np.random.RandomState(request["seed"])
        assert answer["draw_seed"] == legacy.randint(0, np.iinfo(np.int32).max)
        assert answer["legacy_permutation"] == legacy.permutation(request["size"]).tolist()
        assert answer["legacy_below"] == legacy.randint(0, request["size"])
        modern = np.random.default_rng(request["wide_seed"])
        assert answer["permutation"] == modern.permutation(request["size"]).tolist()
        assert answer["random"] == modern.random()
        assert answer["choice"] == modern.choice(3, size=1000, p=request["probabilities"]).tolist()
        own = random.Random(request["wide_seed"])
        assert answer["python_random"] == own.random()
        assert answer["python_samples"] == [own.sample(range(request["size"]), min(count, request["size"])) for count in (1, 3, 7, 40)]
        items = list(range(50))
        own.shuffle(items)
        assert answer["python_shuffled"] == items


def swift_sample(data, count, state, shuffle):
    repeats, rest = divmod(count, len(data))
    index = list(range(len(data))) * repeats
    if rest:
        index += (state.permutation(len(data))[:rest] if shuffle else np.arange(rest)).tolist()
    return data.select(index)


def swift_reference(files, words, ratio, seed, shuffle, probabilities, stopping):
    state = np.random.RandomState(seed)
    draw = lambda: int(state.randint(0, np.iinfo(np.int32).max))
    train, validation = [], []
    for word in words:
        draw()  # ms-swift 4.6: the seed of changes to decision data, drawn for every dataset
        name, _, count = word.partition("#")
        data = load(files, name)
        count = int(count) if count else len(data)
        if ratio:
            held = max(int(min(len(data), count) * ratio), 1)
            parts = data.train_test_split(test_size=held, shuffle=shuffle, seed=draw())
            data, count = parts["train"], count - held
            validation.append(parts["test"])
        train.append(swift_sample(data, count, state, shuffle))
    if probabilities:
        mix = lambda sets, number: datasets.interleave_datasets(sets, probabilities, seed=number, stopping_strategy=stopping) if sets else None
        train, validation = mix(train, draw()), mix(validation, draw())
    else:
        train = datasets.concatenate_datasets(train)
        validation = datasets.concatenate_datasets(validation) if validation else None
    if shuffle:
        train = train.shuffle(seed=draw())
        validation = validation.shuffle(seed=draw()) if validation else None
    return {"train": train["query"][:], "validation": validation["query"][:] if validation else []}


SWIFT_CASES = [
    (["a"], 0, 42, True, [], "first_exhausted"),
    (["a#50", "b#90"], 0, 42, True, [], "first_exhausted"),
    (["a", "b#25", "c#30"], 0.1, 7, True, [], "first_exhausted"),
    (["a", "b", "c"], 0.01, 42, False, [], "first_exhausted"),
    (["a", "b", "c"], 0, 1, True, [0.5, 0.3, 0.2], "first_exhausted"),
    (["a", "b"], 0.2, 1, False, [0.9, 0.1], "all_exhausted"),
]


def test_swift_rows_match(probe, files):
    requests = []
    for words, ratio, seed, shuffle, probabilities, stopping in SWIFT_CASES:
        paths = [str(files / f"{word.partition('#')[0]}.jsonl") + "".join(word.partition("#")[1:]) for word in words]
        requests.append({"datasets": paths, "split_dataset_ratio": ratio, "seed": seed, "shuffle": shuffle, "interleave_prob": probabilities, "stopping": stopping})
    for case, answer in zip(SWIFT_CASES, probe(requests)):
        expected = swift_reference(files, *case)
        assert answer["train"] == list(expected["train"]), case
        assert answer["validation"] == list(expected["validation"]), case


FACTORY_CASES = [
    (["a", "b"], {"a": None, "b": None}, 0.1, False, [], ""),
    (["a", "b"], {"a": 60, "b": 77}, 5, False, [], ""),
    (["a", "c"], {"a": None, "c": None}, 0, True, [], "first_exhausted"),
    (["a", "c"], {"a": None, "c": None}, 0, True, [0.5, 0.5], "all_exhausted"),
    (["a", "b", "c"], {"a": None, "b": 9, "c": None}, 0, True, [0.4, 0.4, 0.2], HELD_OUT),
]


def factory_reference(files, names, counts, val_size, interleave, probabilities, stopping, seed):
    np.random.seed(seed)
    sets = []
    for name in names:
        data = load(files, name)
        if counts[name]:
            index = np.random.permutation(len(data))[: counts[name]]
            missing = counts[name] - len(index)
            if missing > 0:
                index = np.concatenate((index, np.random.choice(len(data), missing)))
            data = data.select(index)
        sets.append(data)
    merged = datasets.interleave_datasets(sets, probabilities or None, seed=seed, stopping_strategy=stopping) if interleave else datasets.concatenate_datasets(sets)
    if not val_size:
        return {"train": merged["query"][:], "validation": []}
    parts = merged.train_test_split(test_size=int(val_size) if val_size > 1 else val_size, seed=seed)
    return {"train": parts["train"]["query"][:], "validation": parts["test"]["query"][:]}


def test_factory_rows_match(probe, files):
    requests = []
    for number, (names, counts, val_size, interleave, probabilities, stopping) in enumerate(FACTORY_CASES):
        folder = files / f"info{number}"
        folder.mkdir()
        columns = {"prompt": "query", "response": "response"}
        info = {name: {"file_name": f"../{name}.jsonl", "columns": columns, **({"num_samples": counts[name]} if counts[name] else {})} for name in names}
        (folder / "dataset_info.json").write_text(json.dumps(info))
        requests.append({"factory": True, "datasets": names, "dataset_dir": str(folder), "val_size": val_size, "seed": 13, "interleave": interleave, "interleave_prob": probabilities, "stopping": stopping or "first_exhausted"})
    for case, answer in zip(FACTORY_CASES, probe(requests)):
        expected = factory_reference(files, *case, seed=13)
        assert answer["train"] == list(expected["train"]), case
        assert answer["validation"] == list(expected["validation"]), case


def test_parquet_rows_match(probe, tmp_path):
    rows = [{"messages": [{"role": "user", "content": f"q{i} é"}, {"role": "assistant", "content": "r"}], "score": i / 2, "tags": ["x", None]} for i in range(2500)]
    datasets.Dataset.from_list(rows).to_parquet(str(tmp_path / "m.parquet"), batch_size=700)
    try:
        (answer,) = probe([{"datasets": [str(tmp_path / "m.parquet")], "shuffle": False}])
    except subprocess.CalledProcessError as failure:
        if b"cannot read Parquet" in failure.stdout:
            pytest.skip("built without Arrow")
        raise
    assert answer["train"] == [row["messages"][0]["content"] for row in rows]
