"""Tiny models of every family, each made once."""
import pytest
from vision_models import write_vision_model

TIED = ("qwen2_vl", "qwen3_vl", "gemma3")


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    """The folder of a model by its family, and by whether its head is the embedding; nobody writes into it."""
    made = {}

    def make(family, tie=None):
        tie = family in TIED if tie is None else tie
        if (family, tie) not in made:
            made[family, tie] = write_vision_model(tmp_path_factory.mktemp(family), family, tie=tie)
        return made[family, tie]

    return make
