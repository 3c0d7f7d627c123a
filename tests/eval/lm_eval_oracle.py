"""lm-evaluation-harness over a folder of task files; run by eval_testing.py in a process of its own: MODEL FOLDER OUTPUT RUNS, the runs as
JSON: a list of settings, each with its tasks."""
import json
import sys
import time

from lm_eval import evaluator
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager

model, folder, output, runs = sys.argv[1:]
language_model = HFLM(pretrained=model, dtype="float32", device="cpu", batch_size=8)
tasks = TaskManager(include_path=folder, include_defaults=False)
results = []
for settings in json.loads(runs):
    began = time.perf_counter(), time.process_time()
    found = evaluator.simple_evaluate(model=language_model, bootstrap_iters=2, log_samples=True, task_manager=tasks, **settings)
    samples = {name: [{key: row[key] for key in ("target", "resps", "filtered_resps", "filter", "arguments")} for row in rows] for name, rows in found["samples"].items()}
    results.append({**{key: found[key] for key in ("results", "n-shot", "versions", "n-samples")}, "groups": found.get("groups", {}), "samples": samples,
                    "seconds": time.perf_counter() - began[0], "processor_seconds": time.process_time() - began[1]})
with open(output, "w") as file:
    json.dump(results, file, default=str)
