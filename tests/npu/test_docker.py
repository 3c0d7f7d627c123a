"""The container files of docker/npu and `hone docker-run`, compared with each other and with the guides' list of devices and mounts."""
import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docker/npu"
NODES = {"/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc"}
MOUNTS = {"/usr/local/dcmi", "/usr/local/bin/npu-smi", "/usr/local/Ascend/driver", "/usr/local/Ascend/firmware", "/etc/ascend_install.info"}


@pytest.fixture(scope="module")
def service():
    return yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]["hone"]


def test_docker_run_gives_a_container_the_cards_of_the_machine(hone, tmp_path):
    (tmp_path / "dev").mkdir()
    for card in range(3):
        (tmp_path / f"dev/davinci{card}").touch()
    line = hone("docker-run", "swift", "sft", "--model", "m", env={"HONE_MACHINE_ROOT": tmp_path}).stdout
    assert set(re.findall(r"--device=(\S+)", line)) == {f"/dev/davinci{card}" for card in range(3)} | NODES
    assert set(re.findall(r"-v (\S+):\1:ro", line)) == MOUNTS
    assert line.startswith("docker run ") and "hone-npu:a2 swift sft --model m" in " ".join(line.split())


def test_compose_file_gives_the_same(service):
    assert set(service["devices"]) == {"/dev/davinci0"} | NODES
    assert {volume.removesuffix(":ro").split(":")[0] for volume in service["volumes"] if volume.endswith(":ro")} == MOUNTS
    assert (FOLDER / service["build"]["context"]).resolve() == ROOT and (ROOT / service["build"]["dockerfile"]).is_file()
    assert service["entrypoint"][0] == "/usr/local/bin/with-cann"


def test_image_is_made_of_what_is_here():
    text = (FOLDER / "Dockerfile").read_text().replace("\\\n", " ")
    for sources in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.M):
        assert all((ROOT / source).exists() for source in sources.split())
    for path in re.findall(r"(?:-r|-a|-m 755) (\S+)", text):
        assert (ROOT / path).exists(), path
    torch = re.search(r"torch==([\d.]+)", text)[1]
    assert f"torch_npu=={torch}" in (ROOT / "tools/npu-requirements.txt").read_text() and f"torch=={torch}" in (ROOT / "tools/setup.sh").read_text()


def test_commands_run_in_the_environment_of_cann(tmp_path):
    (tmp_path / "cann").mkdir()
    (tmp_path / "cann/set_env.sh").write_text("export ASCEND_HOME_PATH=/somewhere\n")
    done = subprocess.run([FOLDER / "with-cann", "sh", "-c", "echo $ASCEND_HOME_PATH $1; exit 3", "sh", "two words"], capture_output=True, text=True,
                          env={**os.environ, "ASCEND_INSTALL_PATH": str(tmp_path)})
    assert done.returncode == 3 and done.stdout == "/somewhere two words\n"
