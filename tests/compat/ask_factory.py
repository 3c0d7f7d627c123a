"""Resolves configurations with LLaMA-Factory. Arguments: a JSON file with a list of mappings, the output file."""
import dataclasses
import importlib.machinery
import json
import sys
import types

try:
    import torchaudio  # noqa: F401  imported by the peer for audio only
except ImportError:
    stub = types.ModuleType("torchaudio")
    stub.__spec__ = importlib.machinery.ModuleSpec("torchaudio", None)
    sys.modules["torchaudio"] = stub


def plain(value):
    return json.loads(json.dumps(value, default=str))


def main():
    from llamafactory.hparams import get_infer_args, get_train_args
    answers = []
    for verb, config in json.load(open(sys.argv[1])):
        try:
            groups = (get_train_args if verb == "train" else get_infer_args)(dict(config))
            answers.append({f.name: plain(getattr(group, f.name, None)) for group in groups for f in dataclasses.fields(group)})
        except Exception as error:  # the peer's own refusal is an answer
            answers.append({"error": f"{type(error).__name__}: {error}"})
    json.dump(answers, open(sys.argv[2], "w"))


if __name__ == "__main__":
    main()
