"""A misbehaving hub, an empty cache, and `download(...)` against them."""
import random

import pytest
from hub_server import Hub
from hub_testing import SMALL


@pytest.fixture
def hub():
    hub = Hub()
    yield hub
    hub.close()


@pytest.fixture(scope="session")
def content():
    """Three ranges of bytes of which no part looks like another."""
    return random.Random(7).randbytes(20 << 20)


@pytest.fixture
def small(hub):
    return hub.add("models", "org/small", {**SMALL, "model.safetensors": bytes(range(256)) * 64})


@pytest.fixture(params=["modelscope", "hugging face"])
def use_hf(request):
    return request.param == "hugging face"


@pytest.fixture
def download(hone, hub, tmp_path, use_hf):
    def run(*words, env={}, timeout=300):
        return hone("download", *words, env={**hub.environment(tmp_path, use_hf), **env}, timeout=timeout)

    return run
