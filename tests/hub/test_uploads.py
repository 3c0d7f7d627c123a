"""push_to_hub to a loopback hub, compared with uploads by the hubs' own clients."""
import json
import subprocess
import sys

import pytest
from hub_uploads import OWNER, TOKEN
from tiny_models import tiny_model

FILES = {"config.json": b'{"a": 1}', "model.safetensors": bytes(range(256)) * 40, "README.md": "数据\n".encode()}


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "result"
    folder.mkdir()
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture
def environment(hub, tmp_path, use_hf):
    return {**hub.environment(tmp_path / "home", use_hf), "HF_TOKEN": TOKEN, "MODELSCOPE_API_TOKEN": TOKEN}


@pytest.fixture
def export(hone, environment):
    return lambda *words, env={}: hone("export", "--push_to_hub", "true", *words, env={**environment, **env})


def test_the_hubs_own_clients_can_send_to_this_hub(hub, folder, tmp_path):
    import huggingface_hub as hf
    api = hf.HfApi(endpoint=hub.url, token=TOKEN)
    api.create_repo("someone/theirs", exist_ok=True)
    script = ("import sys, huggingface_hub; huggingface_hub.HfApi(endpoint=sys.argv[1], token=sys.argv[2])"
              ".upload_folder(repo_id='someone/theirs', folder_path=sys.argv[3], commit_message='hello')")
    done = subprocess.run([sys.executable, "-c", script, hub.url, TOKEN, str(folder)], capture_output=True, text=True, timeout=60,
                          env={"HF_HUB_DISABLE_XET": "1", "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})
    assert done.returncode == 0, done.stderr
    assert hub.commits[-1]["files"] == FILES and hub.commits[-1]["message"] == "hello"


def test_modelscopes_client_can_send_to_this_hub(hub, folder, monkeypatch):
    from modelscope_hub._legacy_api import LegacyClient
    client = LegacyClient(token=TOKEN, endpoint=hub.url)
    client.create_repo("model", {"Path": "someone", "Name": "theirs", "Visibility": 5, "License": "Apache-2.0"})
    import base64, hashlib
    large = FILES["model.safetensors"]
    digest = hashlib.sha256(large).hexdigest()
    (address,) = client.validate_blobs("someone/theirs", "model", [{"oid": digest, "size": len(large)}]).values()
    client.upload_blob(address, large, len(large))
    client.create_commit("someone/theirs", "model", [
        {"action": "create", "path": "model.safetensors", "type": "lfs", "size": len(large), "sha256": digest, "content": "", "encoding": ""},
        {"action": "create", "path": "config.json", "type": "normal", "size": 8, "sha256": "", "content": base64.b64encode(FILES["config.json"]).decode(), "encoding": "base64"}],
        "hello")
    assert hub.commits[-1]["files"] == {name: FILES[name] for name in ("model.safetensors", "config.json")}


def test_a_folder_is_sent_as_it_is(export, hub, folder, use_hf):
    done = export("--model", folder, "--hub_model_id", "someone/mine", "--hub_private_repo", "true", "--commit_message", "first")
    assert done.returncode == 0, done.stderr
    (commit,) = hub.commits
    assert commit == {"id": "someone/mine", "revision": "main" if use_hf else "master", "message": "first", "files": FILES}
    assert hub.created["someone/mine"]["private"] is True
    assert "someone/mine" in done.stdout
    (folder / "config.json").write_text("{}")
    again = export("--model", folder, "--hub_model_id", "someone/mine")
    assert again.returncode == 0 and hub.commits[-1]["files"]["config.json"] == b"{}"
    assert sum(r["method"] == "PUT" for r in hub.requests) == 1  # the large file is there already


@pytest.mark.parametrize("use_hf", ["hugging face"], indirect=True)
def test_a_large_file_goes_in_parts_when_the_hub_says_so(export, hub, folder):
    hub.in_parts = True
    done = export("--model", folder, "--hub_model_id", "mine")  # the owner is whoever the token belongs to
    assert done.returncode == 0, done.stderr
    assert hub.commits[-1]["id"] == f"{OWNER}/mine" and hub.commits[-1]["files"] == FILES
    assert sum(r["method"] == "PUT" for r in hub.requests) == 4


def test_a_busy_hub_is_retried(export, hub, folder, use_hf):
    path = "/api/models/someone/mine/commit/main" if use_hf else "/api/v1/repos/models/someone/mine/commit/master"
    hub.misbehave(path, (503,), (429,))
    done = export("--model", folder, "--hub_model_id", "someone/mine")
    assert done.returncode == 0 and hub.commits[-1]["files"] == FILES, done.stderr


@pytest.mark.parametrize("env,words", [({"HF_TOKEN": "", "MODELSCOPE_API_TOKEN": ""}, ["needs a token"]), ({"HF_TOKEN": "wrong", "MODELSCOPE_API_TOKEN": "wrong"}, ["does not let this token write"]),
                                       ({"HF_HUB_OFFLINE": "1"}, ["HF_HUB_OFFLINE"])])
def test_what_cannot_be_sent_is_reported(export, hub, folder, env, words):
    done = export("--model", folder, "--hub_model_id", "someone/mine", env=env)
    assert done.returncode == 2 and all(word in done.stderr for word in words), done.stderr
    assert not hub.commits


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return tiny_model(tmp_path_factory.mktemp("push") / "tiny")


@pytest.mark.parametrize("use_hf", ["hugging face"], indirect=True)
@pytest.mark.parametrize("strategy", ["end", "checkpoint", "all_checkpoints"])
def test_a_run_sends_its_checkpoints(swift, hub, environment, tiny, tmp_path, strategy):
    data = tmp_path / "rows.jsonl"
    data.write_text("".join(json.dumps({"query": f"say {i}", "response": "yes"}) + "\n" for i in range(8)))
    done = swift("sft", "--model", tiny, "--dataset", data, "--output_dir", tmp_path / "out", "--add_version", "false", "--max_steps", 4, "--save_steps", 2,
                 "--gradient_accumulation_steps", 1, "--push_to_hub", "true", "--hub_model_id", "someone/run", "--hub_strategy", strategy, "--hub_always_push", "true",
                 "--hub_revision", "trial", "--use_hf", "true", env=environment)
    assert done.returncode == 0, done.stderr
    assert {commit["revision"] for commit in hub.commits} == {"trial"}
    names = {name for commit in hub.commits for name in commit["files"]}
    last = tmp_path / "out/checkpoint-4"
    assert hub.commits[-1]["message"] == "End of training"
    assert hub.commits[-1]["files"]["adapter_model.safetensors"] == (last / "adapter_model.safetensors").read_bytes()
    assert not any(name.startswith("hone_state") for name in hub.commits[-1]["files"])
    folders = {"end": set(), "checkpoint": {"last-checkpoint"}, "all_checkpoints": {"checkpoint-2", "checkpoint-4"}}[strategy]
    assert {name.split("/")[0] for name in names if "/" in name} == folders


@pytest.mark.parametrize("use_hf", ["hugging face"], indirect=True)
def test_a_hub_that_fails_does_not_stop_training(swift, hub, environment, tiny, tmp_path):
    data = tmp_path / "rows.jsonl"
    data.write_text("".join(json.dumps({"query": f"say {i}", "response": "yes"}) + "\n" for i in range(8)))
    hub.misbehave("/api/models/someone/run/commit/main", (400,))
    done = swift("sft", "--model", tiny, "--dataset", data, "--output_dir", tmp_path / "out", "--add_version", "false", "--max_steps", 4, "--save_steps", 2,
                 "--gradient_accumulation_steps", 1, "--push_to_hub", "true", "--hub_model_id", "someone/run", "--hub_always_push", "true", "--use_hf", "true", env=environment)
    assert done.returncode == 0, done.stderr
    assert "checkpoint-2 was not sent" in done.stderr and "Training continues" in done.stderr
    assert [commit["message"] for commit in hub.commits] == ["Training in progress, step 4", "End of training"]
