"""The example manifests fit the schemas of what reads them, and the environment those set starts the right processes."""
import pathlib

import pytest
from parallel_testing import assert_same_training, environment, hone_binary, words
from test_launching import finish, free_port, start

ROOT = pathlib.Path(__file__).resolve().parents[2]

NAME = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"}}}
CONTAINER = {
    "type": "object", "required": ["name", "image", "command"], "additionalProperties": False,
    "properties": {"name": {"type": "string"}, "image": {"type": "string"}, "command": {"type": "array", "items": {"type": "string"}},
                   "env": {"type": "array", "items": {"type": "object", "required": ["name", "value"], "properties": {"value": {"type": "string"}}}},
                   "resources": {"type": "object", "properties": {"limits": {"type": "object"}}, "additionalProperties": False},
                   "volumeMounts": {"type": "array", "items": {"type": "object", "required": ["name", "mountPath"]}}},
}
POD = {"type": "object", "required": ["spec"], "properties": {"spec": {
    "type": "object", "required": ["containers"], "additionalProperties": False,
    "properties": {"containers": {"type": "array", "minItems": 1, "items": CONTAINER}, "volumes": {"type": "array"}, "restartPolicy": {"enum": ["OnFailure", "Never", "Always"]}}}}}
# The fields of kubeflow.org/v1 PyTorchJob and of batch.volcano.sh/v1alpha1 Job that the manifests use.
SCHEMAS = {
    "pytorchjob.yaml": {
        "type": "object", "required": ["apiVersion", "kind", "metadata", "spec"], "additionalProperties": False,
        "properties": {"apiVersion": {"const": "kubeflow.org/v1"}, "kind": {"const": "PyTorchJob"}, "metadata": NAME, "spec": {
            "type": "object", "required": ["pytorchReplicaSpecs"], "additionalProperties": False,
            "properties": {"nprocPerNode": {"type": "string"}, "pytorchReplicaSpecs": {
                "type": "object", "required": ["Master"], "propertyNames": {"enum": ["Master", "Worker"]},
                "additionalProperties": {"type": "object", "required": ["replicas", "template"], "additionalProperties": False,
                                         "properties": {"replicas": {"type": "integer", "minimum": 1}, "restartPolicy": {"enum": ["OnFailure", "Never", "Always", "ExitCode"]}, "template": POD}}}}}}},
    "volcano.yaml": {
        "type": "object", "required": ["apiVersion", "kind", "metadata", "spec"], "additionalProperties": False,
        "properties": {"apiVersion": {"const": "batch.volcano.sh/v1alpha1"}, "kind": {"const": "Job"}, "metadata": NAME, "spec": {
            "type": "object", "required": ["tasks", "schedulerName"], "additionalProperties": False,
            "properties": {"minAvailable": {"type": "integer"}, "schedulerName": {"const": "volcano"}, "plugins": {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "string"}}},
                           "policies": {"type": "array"}, "tasks": {"type": "array", "items": {
                               "type": "object", "required": ["name", "replicas", "template"], "additionalProperties": False,
                               "properties": {"name": {"type": "string"}, "replicas": {"type": "integer"}, "policies": {"type": "array"}, "template": POD}}}}}}},
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_manifest_fits_its_schema_and_its_command_parses(hone, name):
    yaml, jsonschema = pytest.importorskip("yaml"), pytest.importorskip("jsonschema")
    manifest = yaml.safe_load((ROOT / "cookbook/kubernetes" / name).read_text())
    jsonschema.validate(manifest, SCHEMAS[name])
    spec = manifest["spec"]
    pods = [part["template"] for part in (spec["pytorchReplicaSpecs"].values() if "pytorchReplicaSpecs" in spec else spec["tasks"])]
    for pod in pods:
        (container,) = pod["spec"]["containers"]
        assert hone("check-args", "--", *container["command"]).returncode == 0
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        assert mounted <= {volume["name"] for volume in pod["spec"]["volumes"]}
    if name == "volcano.yaml":
        assert spec["minAvailable"] == sum(task["replicas"] for task in spec["tasks"])


def test_a_pod_of_a_pytorchjob_starts_its_processes(reference, tmp_path, model_folder, dataset):
    """The operator sets RANK to the pod's index and PET_NPROC_PER_NODE to the processes of each."""
    port, pods = free_port(), []
    for pod in (0, 1):
        operator = dict(MASTER_ADDR="127.0.0.1", MASTER_PORT=port, WORLD_SIZE=4, RANK=pod, PET_NPROC_PER_NODE=2, PET_NNODES=2, PET_NODE_RANK=pod, PET_MASTER_ADDR="127.0.0.1",
                        PET_MASTER_PORT=port, PYTHONUNBUFFERED=1)
        pods.append(start([hone_binary(), "sft", *words(model_folder, dataset, tmp_path, 4, tuner_type="lora")], environment(1, **operator)))
    first, second = (finish(pod, tmp_path) for pod in pods)
    assert second.code == 0, second.err
    assert_same_training(first, reference("lora", 1))
