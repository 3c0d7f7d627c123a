"""Command lines of the corpus, resolved by the program in one go."""
import json
import pathlib
import shlex

import pytest
import yaml

CORPUS = pathlib.Path(__file__).resolve().parent / "corpus"


def entries(pattern="*.yaml"):
    return [entry for path in sorted(CORPUS.glob(pattern)) for entry in yaml.safe_load(path.read_text())]


class Resolver:
    """resolve([words, …]) → what each command line resolves to, or its error."""

    def __init__(self, hone, folder):
        self.hone, self.folder = hone, folder

    def __call__(self, command_lines):
        done = self.hone("check-args", "-", stdin="".join(json.dumps(words) + "\n" for words in command_lines))
        assert done.returncode == 0, done.stderr
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        assert len(answers) == len(command_lines)
        return answers

    def words(self, number, entry):
        """The entry's words; its files lie in a folder of their own."""
        place = self.folder / str(number)
        for name, text in entry.get("files", {}).items():
            place.mkdir(exist_ok=True)
            (place / name).write_text(text)
        return [str(place / word) if word in entry.get("files", {}) else word for word in shlex.split(entry["command"])]


@pytest.fixture(scope="session")
def resolve(hone, tmp_path_factory):
    return Resolver(hone, tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="session")
def rows(hone):
    return json.loads(hone("options", "--format", "json").stdout)
