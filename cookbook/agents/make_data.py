"""Rows of a model that may ask a calculator. In half of those to imitate it asks, in the other half it guesses: which one pays is for GRPO to find out.

    python cookbook/agents/make_data.py output/agents
"""
import json
import pathlib
import random
import sys


def question(rng):
    a, b = rng.randint(2, 9), rng.randint(2, 9)
    return f"What is {a} + {b}?", f"{a}+{b}", a + b


def user(text):
    return {"role": "user", "content": text}


def answer(number):
    return {"role": "assistant", "content": f"\\boxed{{{number}}}"}


def asking(text, expression, number):
    call = {"name": "calculator", "arguments": {"expression": expression}}
    return [user(text), {"role": "tool_call", "content": json.dumps(call)}, {"role": "tool", "content": str(number)}, answer(number)]


def guessing(rng, text):
    return [user(text), answer(rng.randint(4, 18))]


def main(folder, imitated=2000, learnt=2000):
    rng = random.Random(5)
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "imitate.jsonl", "w") as file:
        for i in range(imitated):
            text, expression, number = question(rng)
            file.write(json.dumps({"messages": asking(text, expression, number) if i % 2 else guessing(rng, text)}) + "\n")
    with open(folder / "learn.jsonl", "w") as file:
        for _ in range(learnt):
            text, _, number = question(rng)
            file.write(json.dumps({"messages": [user(text)], "solution": str(number)}) + "\n")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "output/agents"))
