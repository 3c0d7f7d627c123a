"""`hone doctor` and `hone devices` on the machine at hand."""
import json
import os
import re
import socket


def test_devices_table(hone):
    done = hone("devices")
    assert done.returncode == 0
    assert re.search(r"^device +model +(memory +)?used", done.stdout, re.M) and re.search(r"^cpu +.* of .*iB", done.stdout, re.M)


def test_devices_for_programs(hone):
    cpu = json.loads(hone("devices", "--format", "json").stdout)[0]
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert cpu["name"] == "cpu" and abs(cpu["memory_total"] - pages) < 0.02 * pages and 0 < cpu["memory_used"] < pages
    assert 0 <= cpu["busy_percent"] <= 100


def test_device_links(hone):
    matrix = json.loads(hone("devices", "-t", "topo", "--format", "json").stdout)
    count = len(matrix["devices"])
    assert len(matrix["links"]) == count and all(row[i] == "X" for i, row in enumerate(matrix["links"]))
    assert hone("devices", "-t", "topo").returncode == 0


def test_doctor_sections(hone):
    done = hone("doctor")
    bad = done.stdout.count("✗")
    assert done.returncode == (1 if bad else 0), done.stdout
    for subject in ("libtorch", "CPU arithmetic", "CUDA driver", "CANN", "Parquet", "memory", "this folder", "file limit", "port 8000", "terminal"):
        assert subject in done.stdout
    assert "not checked" in done.stdout


def test_doctor_sees_a_taken_port(hone):
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind(("0.0.0.0", 29500))
        except OSError:
            pass  # somebody else holds it: just as well
        server.listen()
        done = hone("doctor")
    assert re.search(r"! +port 29500 +in use", done.stdout) and "set MASTER_PORT" in done.stdout


def test_doctor_names_a_broken_toolkit(hone):
    done = hone("doctor", env={"ASCEND_HOME_PATH": "/nowhere"})
    assert done.returncode == 1 and re.search(r"✗ +CANN", done.stdout) and "set_env.sh" in done.stdout


def test_doctor_lists_variables(hone):
    done = hone("doctor", "--env", env={"NPROC_PER_NODE": 2, "HCCL_BUFFSIZE": 200, "DISABLE_VERSION_CHECK": 1, "HF_TOKEN": "secret-word"})
    for name, effect in (("NPROC_PER_NODE", "supported"), ("HCCL_BUFFSIZE", "passed on"), ("DISABLE_VERSION_CHECK", "no effect")):
        assert re.search(rf"{name} .*{effect}", done.stdout)
    assert "secret-word" not in done.stdout
