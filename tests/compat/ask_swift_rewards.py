"""Run by a Python with ms-swift: the names of what its trainer gives to a reward besides the row's columns."""
import json
import sys

from swift.rl_core.data import GRPOSample
from swift.rl_core.grpo_algorithm import compute_rewards_per_func

seen = []


def reward(completions, **kwargs):
    seen.extend(["completions", *kwargs])
    return [0.0] * len(completions)


sample = GRPOSample(messages=[{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], extra={"solution": "c"})
compute_rewards_per_func([sample], [reward], [None], device="cpu")
json.dump(seen, open(sys.argv[2], "w"))
