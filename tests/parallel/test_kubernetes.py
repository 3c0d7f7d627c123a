"""The example manifests fit the schemas of what reads them, and the environment those set starts the right processes."""
import pathlib

import jsonschema
import pytest
import yaml
from parallel_testing import assert_same_training, environment, hone_binary, words
from test_launching import STAGES, finish, start
from workers import free_port

ROOT = pathlib.Path(__file__).resolve().parents[2]

# The fields of batch.volcano.sh/v1alpha1 Job that stand around its pods; Volcano publishes no package that knows them.
EVENTS = ["*", "PodFailed", "PodEvicted", "PodPending", "Unknown", "TaskCompleted", "OutOfSync", "CommandIssued", "JobUpdated", "TaskFailed"]
ACTIONS = ["AbortJob", "RestartJob", "RestartTask", "RestartPod", "RestartPartition", "TerminateJob", "CompleteJob", "ResumeJob"]
POLICIES = {"type": "array", "items": {"type": "object", "required": ["action"], "additionalProperties": False, "properties": {
    "action": {"enum": ACTIONS}, "event": {"enum": EVENTS}, "events": {"type": "array", "items": {"enum": EVENTS}}, "exitCode": {"type": "integer"}, "timeout": {"type": "string"}}}}
NAME = {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "maxLength": 63}
VOLCANO = {
    "type": "object", "required": ["apiVersion", "kind", "metadata", "spec"], "additionalProperties": False,
    "properties": {"apiVersion": {"const": "batch.volcano.sh/v1alpha1"}, "kind": {"const": "Job"}, "metadata": {"type": "object"}, "spec": {
        "type": "object", "required": ["tasks"], "additionalProperties": False,
        "properties": {
            "minAvailable": {"type": "integer", "minimum": 1}, "minSuccess": {"type": "integer", "minimum": 1}, "maxRetry": {"type": "integer"}, "queue": {"type": "string"},
            "schedulerName": {"type": "string"}, "priorityClassName": {"type": "string"}, "ttlSecondsAfterFinished": {"type": "integer"}, "policies": POLICIES,
            "plugins": {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "string"}}},
            "tasks": {"type": "array", "minItems": 1, "items": {
                "type": "object", "required": ["name", "replicas", "template"], "additionalProperties": False,
                "properties": {"name": NAME, "replicas": {"type": "integer", "minimum": 1}, "minAvailable": {"type": "integer"}, "maxRetry": {"type": "integer"},
                               "policies": POLICIES, "template": {"type": "object"}}}}}}},
}


def built(kind, value, path):
    """`value` as an object of the Kubernetes or Kubeflow client, which knows what must be there; what it does not know is an error."""
    from kubeflow.training import models
    from kubernetes import client

    if kind.startswith(("list[", "dict(")):
        inner = kind[5:-1] if kind.startswith("list[") else kind[5:-1].split(", ", 1)[1]
        assert isinstance(value, list if kind.startswith("list[") else dict), f"{path} is {value!r}"
        if inner == "str" and path.endswith((".limits", ".requests")):  # quantities are numbers or words
            return {key: str(each) for key, each in value.items()}
        if isinstance(value, list):
            return [built(inner, each, f"{path}[{i}]") for i, each in enumerate(value)]
        return {key: built(inner, each, f"{path}.{key}") for key, each in value.items()}
    simple = {"str": str, "int": int, "bool": bool, "float": (int, float), "object": object}
    if kind in simple:
        assert isinstance(value, simple[kind]) and (kind != "int" or not isinstance(value, bool)), f"{path} is {value!r}, not {kind}"
        return value
    model = getattr(models, kind, None) or getattr(client, kind)
    names = {word: name for name, word in model.attribute_map.items()}
    assert isinstance(value, dict) and value.keys() <= names.keys(), f"{path}: {kind} has no {sorted(value.keys() - names.keys())}"
    return model(**{names[word]: built(model.openapi_types[names[word]], each, f"{path}.{word}") for word, each in value.items()})


def fits(name, manifest):
    if name == "pytorchjob.yaml":
        job = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob"}
        assert {key: manifest[key] for key in job} == job
        built("KubeflowOrgV1PyTorchJob", {**manifest, "spec": {"runPolicy": {}, **manifest["spec"]}}, "job")  # which the operator's defaults fill in
        assert manifest["spec"]["pytorchReplicaSpecs"].keys() <= {"Master", "Worker"}
    else:
        jsonschema.validate(manifest, VOLCANO)
        built("V1ObjectMeta", manifest["metadata"], "metadata")
        for task in manifest["spec"]["tasks"]:
            built("V1PodTemplateSpec", task["template"], f"task {task['name']}")


@pytest.mark.parametrize("name", ["pytorchjob.yaml", "volcano.yaml"])
def test_manifest_fits_its_schema_and_its_command_parses(hone, name):
    manifest = yaml.safe_load((ROOT / "cookbook/kubernetes" / name).read_text())
    fits(name, manifest)
    spec = manifest["spec"]
    pods = [part["template"] for part in (spec["pytorchReplicaSpecs"].values() if "pytorchReplicaSpecs" in spec else spec["tasks"])]
    for pod in pods:
        (container,) = pod["spec"]["containers"]
        assert hone("check-args", "--", *container["command"]).returncode == 0
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        assert mounted <= {volume["name"] for volume in pod["spec"]["volumes"]}
    if name == "volcano.yaml":
        assert spec["minAvailable"] == sum(task["replicas"] for task in spec["tasks"])


def test_the_manifest_of_a_tinker_server(hone):
    """Objects that Kubernetes knows, commands that parse, and addresses that are those of its own pods."""
    kinds = {"Service": "V1Service", "StatefulSet": "V1StatefulSet", "Deployment": "V1Deployment"}
    objects = list(yaml.safe_load_all((ROOT / "cookbook/kubernetes/tinker.yaml").read_text()))
    pods, services = set(), {each["metadata"]["name"]: each["spec"] for each in objects if each["kind"] == "Service"}
    for each in objects:
        built(kinds[each["kind"]], each, each["metadata"]["name"])
        if each["kind"] == "Service":
            continue
        spec, pod = each["spec"], each["spec"]["template"]
        labels, (container,) = pod["metadata"]["labels"], pod["spec"]["containers"]
        assert spec["selector"]["matchLabels"].items() <= labels.items()
        assert any(service["selector"].items() <= labels.items() for service in services.values())
        parsed = hone("check-args", "--", *container["command"])
        assert parsed.returncode == 0, parsed.stderr
        volumes = {volume["name"] for volume in pod["spec"]["volumes"]} | {claim["metadata"]["name"] for claim in spec.get("volumeClaimTemplates", [])}
        assert {mount["name"] for mount in container["volumeMounts"]} == volumes
        if each["kind"] == "StatefulSet":
            pods |= {f"http://{each['metadata']['name']}-{i}.{spec['serviceName']}:8000" for i in range(spec["replicas"])}
            assert spec["serviceName"] in services
        else:
            gateway = container["command"]
    assert {word for word in gateway if word.startswith("http")} == pods
    objects[1]["spec"]["template"]["spec"]["container"] = []
    with pytest.raises(AssertionError):
        built("V1StatefulSet", objects[1], "wrong")


@pytest.mark.parametrize("name, place, key", [("pytorchjob.yaml", ["spec", "pytorchReplicaSpecs", "Master"], "replica"), ("volcano.yaml", ["spec", "tasks", 0], "replica"),
                                              ("volcano.yaml", ["spec", "tasks", 0, "template", "spec"], "volume")])
def test_a_wrong_field_would_be_found(name, place, key):
    manifest = yaml.safe_load((ROOT / "cookbook/kubernetes" / name).read_text())
    inner = manifest
    for step in place:
        inner = inner[step]
    inner[key] = 1
    with pytest.raises((AssertionError, jsonschema.ValidationError)):
        fits(name, manifest)


def test_a_pod_of_a_pytorchjob_starts_its_processes(reference, tmp_path, model_folder, dataset):
    """The operator sets RANK to the pod's index and PET_NPROC_PER_NODE to the processes of each."""
    port, pods = free_port(), []
    for pod in (0, 1):
        operator = dict(MASTER_ADDR="127.0.0.1", MASTER_PORT=port, WORLD_SIZE=4, RANK=pod, PET_NPROC_PER_NODE=2, PET_NNODES=2, PET_NODE_RANK=pod, PET_MASTER_ADDR="127.0.0.1",
                        PET_MASTER_PORT=port, PYTHONUNBUFFERED=1)
        pods.append(start([hone_binary(), "sft", *words(model_folder, dataset, tmp_path, 4, tuner_type="lora", tensor_parallel_size=2, **STAGES)], environment(1, **operator)))
    first, second = (finish(pod, tmp_path) for pod in pods)
    assert second.code == 0, second.err
    assert_same_training(first, reference("lora", 1))
