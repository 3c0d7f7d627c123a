"""Models, adapters and datasets by name in full commands, from a loopback hub, and errors when offline."""
import json
import shutil
from pathlib import Path

import pytest
from hub_testing import refused

ROOT = Path(__file__).resolve().parents[2]
ROWS = [json.loads(line) for line in (ROOT / "data/demo.jsonl").read_text().splitlines()]
TRAINING = ["--max_steps", "2", "--per_device_train_batch_size", "2", "--gradient_accumulation_steps", "1", "--learning_rate", "1e-4",
            "--logging_steps", "1", "--save_steps", "2", "--max_length", "128"]


def jsonl(rows):
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


@pytest.fixture
def tiny(hub):
    hub.add_folder("models", "org/tiny", ROOT / "models/nano")
    hub.add("datasets", "org/rows", {"README.md": b"rows", "train.jsonl": jsonl(ROWS)})
    return hub


def hubs_asked(hub):
    """By the form of the addresses."""
    return {"modelscope" if request["path"].startswith("/api/v1/") else "hugging face" for request in hub.requests if not request["cdn"]}


def succeeded(done):
    assert done.returncode == 0, done.stderr[-3000:]
    return done


def test_swift_trains_from_modelscope_then_offline(tiny, swift, tmp_path):
    environment = {key: value for key, value in tiny.environment(tmp_path, False).items() if key != "USE_HF"}
    words = ["sft", "--model", "org/tiny", "--dataset", "org/rows#20", "--output_dir", tmp_path / "out", "--add_version", "false", *TRAINING]
    succeeded(swift(*words, env=environment, cwd=tmp_path))
    assert hubs_asked(tiny) == {"modelscope"}
    assert (tmp_path / "out/checkpoint-2/adapter_model.safetensors").exists()
    asked = len(tiny.requests)
    shutil.rmtree(tmp_path / "out")
    succeeded(swift(*words, env={**environment, "HF_HUB_OFFLINE": "1"}, cwd=tmp_path))
    assert len(tiny.requests) == asked


def test_the_switches(tiny, swift, factory, hone, tmp_path):
    def asked(program, *words, **environment):
        del tiny.requests[:]
        cache = tmp_path / str(len(list(tmp_path.iterdir())))
        cache.mkdir()
        settings = {**tiny.environment(cache, False), **environment}
        if "USE_HF" not in environment:
            del settings["USE_HF"]
        succeeded(program(*words, env=settings, stdin="hello"))
        return hubs_asked(tiny)

    render = ["tokenize", "--model", "org/tiny"]
    assert asked(hone, *render) == {"modelscope"}
    assert asked(hone, *render, "--use_hf", "true") == {"hugging face"}
    assert asked(hone, *render, USE_HF="1") == {"hugging face"}
    assert asked(swift, *render, USE_HF="1") == {"hugging face"}
    render[1] = "--model_name_or_path"
    assert asked(factory, *render) == {"hugging face"}
    assert asked(factory, *render, USE_MODELSCOPE_HUB="1") == {"modelscope"}


def test_factory_trains_from_hugging_face(tiny, factory, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/dataset_info.json").write_text(json.dumps(
        {"rows": {"hf_hub_url": "org/rows", "ms_hub_url": "org/rows", "formatting": "sharegpt", "columns": {"messages": "messages"},
                  "tags": {"role_tag": "role", "content_tag": "content", "user_tag": "user", "assistant_tag": "assistant", "system_tag": "system"}}}))
    environment = {key: value for key, value in tiny.environment(tmp_path, True).items() if key != "USE_HF"}
    succeeded(factory("train", "stage=sft", "do_train=true", "finetuning_type=lora", "template=chatml", "model_name_or_path=org/tiny", "dataset=rows", "dataset_dir=data",
                      "output_dir=out", "max_steps=2", "cutoff_len=128", env=environment, cwd=tmp_path))
    assert hubs_asked(tiny) == {"hugging face"}
    assert (tmp_path / "hf/hub/datasets--org--rows").is_dir()


def test_subsets_splits_and_kinds_of_files(hub, hone, tmp_path):
    import pyarrow
    import io

    import pyarrow.parquet

    hub.add_folder("models", "org/tiny", ROOT / "models/nano")
    table = pyarrow.table({"messages": [row["messages"] for row in ROWS[:7]]})
    sink = io.BytesIO()
    pyarrow.parquet.write_table(table, sink)
    hub.add("datasets", "org/v2.5", {"en/train-00000-of-00001.parquet": sink.getvalue(), "zh/train.csv": "query,response\na,b\nc,d\n".encode(),
                                     "zh/test.jsonl": jsonl(ROWS[:3])})

    def rows(word, code=0):
        done = hone("preview", "--model", "org/tiny", "--dataset", word, "--rows", "100", "--format", "jsonl", env=hub.environment(tmp_path, False))
        assert done.returncode == code, done.stderr
        return len(done.stdout.splitlines())

    assert rows("org/v2.5:en") == 7
    assert rows("org/v2.5:zh") == 2
    assert rows("org/v2.5:zh/test") == 3
    assert rows("ms::org/v2.5:en#4") == 4
    assert hubs_asked(hub) == {"modelscope"}
    assert rows("hf::org/v2.5:en") == 7  # the cache of the other hub holds it


def test_adapters_by_name(tiny, hone, tmp_path):
    environment = tiny.environment(tmp_path, False)
    succeeded(hone("sft", "--model", "org/tiny", "--dataset", "org/rows", "--output_dir", tmp_path / "out", "--add_version", "false", *TRAINING, env=environment, cwd=tmp_path))
    tiny.add_folder("models", "org/lora", tmp_path / "out/checkpoint-2")
    done = succeeded(hone("export", "--adapters", "org/lora", "--merge_lora", "true", "--output_dir", tmp_path / "merged", env=environment, cwd=tmp_path))
    assert (tmp_path / "merged/model.safetensors").exists()
    assert (tmp_path / "ms/models/org--lora/snapshots/master/adapter_model.safetensors").exists()
    assert "merged" in done.stdout


def test_pickled_weights_are_refused_before_they_are_fetched(hub, hone, tmp_path):
    hub.add("models", "org/old", {"config.json": b"{}", "pytorch_model.bin": b"p" * 9000})
    refused(hone("tokenize", "--model", "org/old", env=hub.environment(tmp_path, False), stdin=""), 2, "pickled", "safetensors")
    assert not hub.bodies_sent("config.json")


def test_words_when_offline(tiny, hone, tmp_path):
    environment = {**tiny.environment(tmp_path, False), "HF_HUB_OFFLINE": "1"}
    done = hone("sft", "--model", "org/tiny", "--dataset", "org/rows", env=environment, cwd=tmp_path)
    refused(done, 2, "org/tiny: not in the caches", str(tmp_path / "ms"), str(tmp_path / "hf/hub"), "put it there or pass a folder")
    done = hone("preview", "--model", ROOT / "models/nano", "--dataset", "org/rows", env=environment)
    refused(done, 2, "org/rows: not in the caches", "put it there or pass a folder")


def test_two_processes_fetch_once(tiny, hone, tmp_path):
    environment = {**tiny.environment(tmp_path, False), "NPROC_PER_NODE": "2", "OMP_NUM_THREADS": "1"}
    succeeded(hone("sft", "--model", "org/tiny", "--dataset", "org/rows", "--output_dir", tmp_path / "out", *TRAINING, env=environment, cwd=tmp_path))
    assert len(tiny.bodies_sent("train.jsonl")) == 1 and len(tiny.bodies_sent("model.safetensors")) == 1


def test_models_and_scan_cache(tiny, hone, tmp_path):
    environment = tiny.environment(tmp_path, False)
    assert "no models in the caches" in succeeded(hone("models", env=environment)).stdout
    succeeded(hone("download", "org/tiny", env=environment))
    succeeded(hone("download", "org/rows", "--dataset", "true", "--use_hf", "true", env=environment))
    models = json.loads(succeeded(hone("models", "--format", "json", env=environment)).stdout)
    assert {"qwen2", "llama"} <= {family["family"] for family in models["families"]}
    assert [(m["id"], m["hub"], m["missing"]) for m in models["cached"]] == [("org/tiny", "ModelScope", [])] and models["cached"][0]["family"]
    found = json.loads(succeeded(hone("scan-cache", "--format", "json", env=environment)).stdout)
    sizes = {repo["id"]: repo["bytes"] for repo in found}
    assert sizes["org/tiny"] == sum(f.stat().st_size for f in (ROOT / "models/nano").iterdir())
    assert {(repo["id"], repo["kind"], repo["hub"]) for repo in found} == {("org/tiny", "model", "ModelScope"), ("org/rows", "dataset", "Hugging Face")}
    (tmp_path / "ms/models/org--tiny/snapshots/master/model.safetensors").unlink()
    assert "lacks *.safetensors" in succeeded(hone("scan-cache", env=environment)).stdout


def test_force_redownload_checks_for_changes(tiny, hone, tmp_path):
    environment = tiny.environment(tmp_path, False)
    preview = ["preview", "--model", ROOT / "models/nano", "--dataset", "org/rows", "--rows", "100", "--format", "jsonl"]
    assert len(succeeded(hone(*preview, env=environment)).stdout.splitlines()) == len(ROWS)
    tiny.repos["datasets", "org/rows"].files["train.jsonl"] = jsonl(ROWS[:9])
    assert len(succeeded(hone(*preview, env=environment)).stdout.splitlines()) == len(ROWS)
    assert len(succeeded(hone(*preview, "--download_mode", "force_redownload", env=environment)).stdout.splitlines()) == 9
