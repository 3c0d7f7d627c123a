"""thinking_tips_scheduler compared with ms-swift's own class (HONE_PEERS_PYTHON)."""
import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "train"))
from test_peer_parsers import ask as ask_peer  # noqa: E402
from turn_testing import ask, caller, completions, grpo, rlhf  # noqa: E402, F401


def sequences_of(run, tokenizer):
    """Of the rollout that a checkpoint keeps: each sequence's prompt as token ids, and its completion as text."""
    for batch in json.loads((run.folder / "checkpoint-1/hone_state.json").read_text())["loader"]["batches"]:
        begin = 0
        for length in batch["lengths"]:
            tokens, targets = batch["tokens"][begin:begin + length], batch["targets"][begin:begin + length]
            prompt = 1 + next(i for i, target in enumerate(targets) if target >= 0)
            yield tokens[:prompt], tokenizer.decode(tokens[prompt:], skip_special_tokens=True)
            begin += length


@pytest.mark.peer("swift")
def test_rounds_and_their_prompts_are_ms_swifts(grpo, caller, tmp_path):  # noqa: F811
    from transformers import AutoTokenizer
    tokenizer = AutoTokenizer.from_pretrained(caller)
    rows = [ask("one and one", solution="2"), ask("four and five", solution="9"), ask("two and three", solution="5")]
    run = grpo(*rows, multi_turn_scheduler="thinking_tips_scheduler", template="qwen3", enable_thinking="true", max_turns=3, per_device_train_batch_size=6, num_iterations=2, save_strategy="steps", save_steps=1)
    assert run.code == 0, run.err
    table, sequences, episodes = completions(run), list(sequences_of(run, tokenizer)), []
    for prompt, turns, last, reward in zip(table["prompt"], table["num_turns"], table["completion"], table["MathAccuracy"], strict=True):
        rounds, sequences = sequences[:int(turns)], sequences[int(turns):]
        question = next(row["messages"] for row in rows if row["messages"][0]["content"] in prompt)
        episodes.append({"messages": question, "completions": [text for _, text in rounds], "right": [last] if reward == 1 else [], "prompts": [ids for ids, _ in rounds]})
    assert not sequences and {len(episode["prompts"]) for episode in episodes} == {1, 2}
    theirs = ask_peer("swift", "ask_swift_turns.py", {"model": str(caller), "max_turns": 3, "episodes": episodes}, tmp_path)
    for episode, wanted in zip(episodes, theirs, strict=True):
        assert wanted["rounds"] == len(episode["prompts"]) and wanted["prompts"] == episode["prompts"], episode
