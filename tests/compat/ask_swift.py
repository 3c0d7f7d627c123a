"""Resolves command lines with ms-swift. Arguments: a JSON file with lists of arguments, the output file."""
import dataclasses
import json
import sys


def plain(value):
    return json.loads(json.dumps(value, default=str))


def resolved(args, name):
    value = getattr(args, name, None)
    return getattr(getattr(args, "training_args", None), name, None) if value is None else value


def main():
    from swift.arguments import InferArguments, SftArguments
    from swift.utils import parse_args
    answers = []
    for verb, *words in json.load(open(sys.argv[1])):
        try:
            args, rest = parse_args({"sft": SftArguments, "infer": InferArguments}[verb], words)
            answers.append({"left": rest, **{f.name: plain(resolved(args, f.name)) for f in dataclasses.fields(args)}})
        except Exception as error:  # the peer's own refusal is an answer
            answers.append({"error": f"{type(error).__name__}: {error}"})
    json.dump(answers, open(sys.argv[2], "w"))


if __name__ == "__main__":
    main()
