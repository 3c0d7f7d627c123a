"""Dangerous primitives are confined to few files. Security bugs tend to return through a second implementation, so opening files, connecting, starting
programs, mapping memory and parsing untrusted numbers are allowed only in the files listed here; a new use fails until it is reviewed."""
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2] / "src/hone"

# What is looked for -> the files that may.
DOORS = {
    "opens files": (r"(?<![\w.>])(?:::open|fopen|freopen|open64|creat)\s*\(|std::(?:basic_)?(?:if|of|f)stream\b", {
        "base/file.cpp": "the door", "io/safetensors.cpp": "weights", "io/safetensors_writer.cpp": "weights", "data/readers/record_file.cpp": "rows",
        "hub/with_curl/download.cpp": "a lock needs a descriptor", "hub/partial_file.cpp": "downloads", "parallel/launch/rank_files.cpp": "what ranks leave for their supervisor",
        "train/reports/event_file.cpp": "TensorBoard", "train/checkpoints/checkpoint.cpp": "syncs its own files", "train/run_lock.cpp": "a lock needs a descriptor",
        "train/checkpoints/node_replication.cpp": "pieces between nodes", "train/rl/completions_log.cpp": "appends and truncates its own log", "data/datasets/write_rows.cpp": "rows it makes",
        "hub/with_curl/http.cpp": "certificates", "parallel/launch/rank_process.cpp": "output of ranks", "device/memory.cpp": "/proc", "base/usable_cores.cpp": "/proc and /sys", "device/inventory.cpp": "/proc and /sys",
        "device/cpu_features.cpp": "/proc", "device/npu/install.cpp": "version files", "cli/with_libedit/line_editor.cpp": "the history of the chat"}),
    "maps memory": (r"(?<![\w.>])(?:::)?mmap\s*\(", {"base/file.cpp": "the door", "io/safetensors.cpp": "weights", "device/cpu_caching_allocator.cpp": "memory without a file"}),
    "connects": (r"(?<![\w.>])(?:::(?:connect|socket|getaddrinfo)|getaddrinfo)\s*\(|asio::(?:async_)?connect\s*\(|curl_easy_init", {
        "hub/with_curl/http.cpp": "the door to hubs, rewards and messages", "notify/with_curl/mail.cpp": "mail", "hub/with_curl/post_json.cpp": "rewards and messages", "serve/proxy/upstream.cpp": "the server a person named",
        "serve/bench/client.cpp": "the server a person named", "parallel/launch/rendezvous.cpp": "ranks of a run", "parallel/launch/supervisor.cpp": "ranks of a run",
        "cli/doctor/machine.cpp": "doctor"}),
    "starts programs": (r"(?<![\w.>:])(?:std::system|popen|posix_spawnp?)\s*\(|(?<!\w)::(?:system|popen|v?fork|posix_spawnp?|exec[vl]p?e?)\s*\(", {
        "parallel/launch/rank_process.cpp": "ranks, by argument vector", "cli/main.cpp": "itself, again", "cli/commands/ray_submit.cpp": "by argument vector",
        "cli/commands/emulate_npu.cpp": "by argument vector", "base/child_process.cpp": "by argument vector"}),
    "starts other programs": (r"\b(?:start_program|program_output)\s*\(", {
        "base/child_process.h": "the door", "base/child_process.cpp": "the door", "device/npu/smi.cpp": "npu-smi", "train/reports/swanlab.cpp": "swanlab",
        "train/rl/rewards/plugin_worker.cpp": "the interpreter that a person named for plugins", "train/rl/rewards/sandbox.cpp": "bubblewrap, with an empty environment"}),
    "runs code of others": (r"\bdlopen\s*\(|torch::(?:jit::)?load\s*\(|\bUnpickler\b|pickle_load", {
        "device/npu.cpp": "drivers of this machine", "device/npu/dcmi.cpp": "drivers of this machine", "device/nvml.cpp": "drivers of this machine",
        "device/without_cuda/cuda_library.cpp": "our own library", "media/with_video/ffmpeg.cpp": "FFmpeg of this machine, when a video is read"}),
    "trusts the text of a number": (r"\b(?:std::)?(?:atoi|atol|atoll|stoi|stol|stoll|stoul|stoull)\s*\(|\bsscanf\s*\(", {
        "cli/": "options that were checked, and the environment", "base/terminal.cpp": "the environment", "device/": "the environment and drivers", "parallel/": "the environment",
        "hub/access.cpp": "the environment", "hub/with_curl/http.cpp": "the environment", "hub/with_curl/hugging_face_api.cpp": "digits, and a throw is an error", "engine/constraints/decimal.cpp": "digits it has counted",
        "optim/optimizers/block_adam.cpp": "names of our own", "text/jinja/repr.cpp": "what it has printed", "text/tokenizer/formats/load_tokenizer.cpp": "ids, which are looked up", "train/run_folder.cpp": "names of our own",
        "train/reports/run_log.cpp": "lines of our own", "tuner/lora_init.cpp": "options that were checked", "tuner/model_folder.cpp": "names of our own"}),
    # Values come down from cli in config structs, so that a program on libhone decides by itself.
    "touches the environment": (r"\b(?:get|set|unset|put)env\s*\(|\benviron\b", {
        "cli/": "the command line's own", "base/terminal.cpp": "what the terminal can do", "device/npu/variables.cpp": "CANN, HCCL and torch_npu have no other way",
        "parallel/launch/world.cpp": "what launchers say", "parallel/launch/supervisor.cpp": "what a supervisor and its ranks tell each other",
        "parallel/launch/rank_files.cpp": "the same", "parallel/launch/rank_process.cpp": "the same", "base/child_process.cpp": "handed on to the program it starts"}),
    "switches the whole process": (r"globalContext\(\)\.set|fused_operators\(\)\s*=", {"cli/": "once per command"}),
    "copies by pointer": (r"\b(?:strcpy|strcat|sprintf|gets|alloca)\s*\(", {}),
}


def uses(pattern):
    found = {}
    for path in sorted(ROOT.rglob("*")):
        if path.suffix not in (".cpp", ".h", ".cu", ".cuh"):
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            code = re.sub(r'"(?:[^"\\]|\\.)*"', '""', line).split("//")[0]
            if re.search(pattern, code):
                found.setdefault(str(path.relative_to(ROOT)), []).append(number)
    return found


@pytest.mark.reliability(30)
@pytest.mark.parametrize("what", DOORS)
def test_only_the_listed_files_do(what, figure):
    pattern, doors = DOORS[what]
    found = uses(pattern)
    figure(f"{what}: {len(found)} files")
    strangers = [f"{path}:{lines[0]}" for path, lines in found.items() if path not in doors and path.split("/")[0] + "/" not in doors]
    assert not strangers, f"{what}: {strangers}; go through base/file.h, hub/, serve/http/ or parallel/, or list the file with its reason"
    gone = {door for door in doors if not door.endswith("/")} - set(found)
    assert not gone, f"{what}: {sorted(gone)} do so no more; take them off the list"
