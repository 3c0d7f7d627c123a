"""The emulated cards refuse what hardware refuses, with its codes; what never reaches them is counted; a step does not wait for them."""
import json
import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SFT = ["sft", "--model", ROOT / "models/nano", "--dataset", ROOT / "data/demo.jsonl", "--split_dataset_ratio", 0, "--gradient_accumulation_steps", 1,
       "--add_version", "false", "--save_strategy", "no", "--lora_dropout", 0]


def report(path):
    return json.loads(path.read_text().splitlines()[-1])


def test_refused_calls(npu_python):
    done = npu_python(Path(__file__).with_name("refused.py"), env={"TASK_QUEUE_ENABLE": 0})  # at once, so that one process sees them all
    texts = {line["case"]: line["text"] for line in map(json.loads, filter(lambda l: l.startswith("{"), done.stdout.splitlines()))}
    assert len(texts) == 12 and texts.pop("fine") == "", done.stdout[-3000:] + done.stderr[-2000:]
    accepted = [name for name, text in texts.items() if not re.search("161002|EZ1001|ERR0", text)]
    assert not accepted, {name: texts[name] for name in accepted}


def test_operators_on_the_cpu_are_counted(npu_python, tmp_path):
    done = npu_python("-c", "import torch, torch_npu; a = torch.eye(4).npu(); [torch.linalg.cholesky(a + a) for _ in range(3)]; torch.linalg.cholesky(torch.eye(2))",
                      env={"HONE_EMULATED_REPORT": tmp_path / "report"})
    assert done.returncode == 0, done.stderr[-3000:]
    fallen = report(tmp_path / "report")["fallbacks"]
    assert [count for name, count in fallen.items() if name.startswith("aten::linalg_cholesky_ex")] == [3], fallen


def test_a_step_waits_for_the_card_only_at_its_end(npu, tmp_path):
    counts = {}
    for steps in (2, 4):
        path = tmp_path / f"report-{steps}"
        done = npu("swift", *SFT, "--max_steps", steps, "--logging_steps", 100, "--output_dir", tmp_path / str(steps), env={"HONE_EMULATED_REPORT": path})
        assert done.returncode == 0, done.stderr[-3000:]
        counts[steps] = report(path)
    added = {key: (counts[4][key] - counts[2][key]) / 2 for key in ("launches", "waits", "device_to_host")}
    # Reading the loss is one copy, for which torch_npu waits twice: for the stream, then for the bytes.
    assert added["launches"] > 100 and added["device_to_host"] <= 1 and added["waits"] <= 2 * added["device_to_host"], added
    assert counts[4]["fallbacks"] == {} and counts[4]["missing"] == {}


def test_processes_stay_near_their_cards(npu, tmp_path):
    cores = os.sched_getaffinity(0)
    if len(cores) < 2 or cores != set(range(os.cpu_count())):
        pytest.skip("needs two cores, all of them free")
    near = json.loads(npu("hone", "devices", "-t", "topo", "--format", "json", env={"HONE_EMULATED_NPUS": 2}).stdout)["cpus"]
    assert near[0] != near[1]
    for card in (0, 1):
        words = ["swift", *SFT, "--max_steps", 1, "--device", f"npu:{card}", "--log_level", "debug", "--output_dir", tmp_path / str(card)]
        assert f"npu:{card}: on the cores near it, {near[card]}" in npu(*words, env={"HONE_EMULATED_NPUS": 2}).stderr
    output = npu(*words, env={"HONE_EMULATED_NPUS": 2, "CPU_AFFINITY_CONF": 0}).stderr
    assert "on the cores near it" not in output




def rank_table(path, ranks, status="completed"):
    devices = [{"device_id": str(i), "device_ip": f"192.168.0.{i}", "rank_id": str(i)} for i in ranks]
    path.write_text(json.dumps({"version": "1.0", "status": status, "server_count": "1", "server_list": [{"server_id": "127.0.0.1", "device": devices}]}))
    return path


@pytest.mark.parametrize("env, message", [
    ({"HCCL_SOCKET_IFNAME": "=nosuch0"}, "HCCL_SOCKET_IFNAME==nosuch0 matches no network interface"),
    ({"HCCL_IF_IP": "203.0.113.9"}, "not an address of this machine"),
    ({"HCCL_CONNECT_TIMEOUT": 5}, "HCCL takes 120 to 7200 seconds"),
    ({"RANK_TABLE_FILE": "/nosuch.json"}, "/nosuch.json does not exist"),
    ({"RANK_TABLE_FILE": [0, 1, 2]}, "lists 3 ranks, this run has 2 processes"),
    ({"RANK_TABLE_FILE": "initializing"}, "status is not \"completed\"")], ids=["interface", "address", "seconds", "absent", "ranks", "unfinished"])
def test_hccl_variables_are_checked_first(npu, tmp_path, env, message):
    if isinstance(env.get("RANK_TABLE_FILE"), list):
        env = {"RANK_TABLE_FILE": rank_table(tmp_path / "table.json", env["RANK_TABLE_FILE"])}
    elif env.get("RANK_TABLE_FILE") == "initializing":
        env = {"RANK_TABLE_FILE": rank_table(tmp_path / "table.json", [0, 1], "initializing")}
    done = npu("swift", *SFT, "--max_steps", 1, "--output_dir", tmp_path / "out", env={"NPROC_PER_NODE": 2, **env})
    assert done.returncode == 2 and message in done.stderr, done.stderr[-2000:]


def test_a_rank_table_that_fits(npu, tmp_path):
    env = {"NPROC_PER_NODE": 2, "RANK_TABLE_FILE": rank_table(tmp_path / "table.json", [0, 1]), "HCCL_SOCKET_IFNAME": "lo"}
    done = npu("swift", *SFT, "--max_steps", 1, "--output_dir", tmp_path / "out", env=env)
    assert done.returncode == 0 and "2 ranks, as this run has" in done.stderr, done.stderr[-2000:]
