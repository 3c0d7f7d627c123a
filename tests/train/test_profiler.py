"""enable_torch_profiler: a trace of exactly the requested steps, in TensorBoard's format."""
import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def start(factory, out, *more):
    return factory("train", ROOT / "cookbook" / "factory" / "sft.yaml", f"model_name_or_path={ROOT / 'models' / 'nano'}", f"dataset_dir={ROOT / 'data'}", f"output_dir={out}", "max_steps=4",
                   "enable_torch_profiler=true", *more)


def train(factory, out, *more):
    done = start(factory, out, *more)
    assert done.returncode == 0, done.stderr
    return sorted((out / "profiler" / "rank_0").iterdir())


def test_a_trace_of_one_step(factory, tmp_path):
    traces = train(factory, tmp_path / "a")
    assert [trace.name for trace in traces] == ["step-3.pt.trace.json"]  # one waits, one warms up, one is recorded
    events = json.loads(traces[0].read_text())["traceEvents"]
    names = {event.get("name", "") for event in events}
    assert any("LoraLinear" in name for name in names) and any(name.startswith("aten::") for name in names)


def test_cycles_repeat(factory, tmp_path):
    traces = train(factory, tmp_path / "b", "profiler_wait_steps=0", "profiler_warmup_steps=1", "profiler_repeat=0", "profiler_with_stack=false")
    assert [trace.name for trace in traces] == ["step-2.pt.trace.json", "step-4.pt.trace.json"]


def test_a_cycle_without_a_step_is_refused(factory, tmp_path):
    done = start(factory, tmp_path / "c", "profiler_wait_steps=0", "profiler_warmup_steps=0", "profiler_active_steps=0")
    assert done.returncode == 2 and "profiler_active_steps" in done.stderr


def test_a_resumed_run_keeps_counting(factory, tmp_path):
    assert train(factory, tmp_path / "d", "max_steps=2", "save_steps=2", "overwrite_output_dir=false") == []
    traces = train(factory, tmp_path / "d", "max_steps=6", "save_steps=2", "overwrite_output_dir=false")
    assert [trace.name for trace in traces] == ["step-5.pt.trace.json"]


def test_modules_are_timed(factory, tmp_path):
    """Blocks, attention and MLPs that a pattern names, forward and backward; a pattern that names nothing is remarked upon."""
    words = [ROOT / "cookbook/factory/sft.yaml", f"model_name_or_path={ROOT / 'models/nano'}", f"dataset_dir={ROOT / 'data'}", "max_steps=2", "logging_steps=1"]
    done = factory("train", *words, f"output_dir={tmp_path / 'a'}", "profile_modules=*.layers.0.self_attn,*.layers.*.mlp,model.layers.1")
    assert done.returncode == 0, done.stderr
    times = re.findall(r"^  (\S+): fwd=([\d.]+), bwd=([\d.]+), total=([\d.]+)", done.stderr, re.M)
    names = {name for name, *_ in times}
    assert {"model.layers.0.self_attn", "model.layers.0.mlp", "model.layers.1.mlp", "model.layers.1"} <= names and "model.layers.0" not in names and "model.layers.1.self_attn" not in names
    assert done.stderr.count("[ModuleProfiler] Timing (ms):") == 2
    within = {name: (float(forward), float(backward)) for name, forward, backward, _ in times}
    assert within["model.layers.1"][0] > within["model.layers.1.mlp"][0] > 0 and within["model.layers.1"][1] > within["model.layers.1.mlp"][1] > 0
    none = factory("train", *words, f"output_dir={tmp_path / 'b'}", "profile_modules=nothing")
    assert none.returncode == 0 and "no module matches" in none.stderr and "model.layers.0.self_attn" in none.stderr, none.stderr
