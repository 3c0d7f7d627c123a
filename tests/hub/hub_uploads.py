"""The part of the hub on loopback that takes files: Hugging Face's preupload, LFS and commit; ModelScope's blobs and commit."""
import base64
import hashlib
import json
import re

TOKEN, OWNER = "hf_writes", "someone"
LARGE_FROM = 1000  # bytes: sent by themselves
PART = 3000        # bytes of a part where parts are asked for


class Uploads:
    """Mixed into the handler; the hub keeps `blobs` by SHA-256, `commits` and the settings of created repositories."""

    def do_POST(self):
        self.answer_upload()

    def do_PUT(self):
        self.answer_upload()

    def answer_upload(self):
        length = int(self.headers.get("Content-Length", 0))
        self.content = self.rfile.read(length)
        self.hub.requests.append({"method": self.command, "path": self.path, "headers": {k.lower(): v for k, v in self.headers.items()}, "cdn": self.is_cdn, "file": None})
        path = self.path.split("?")[0]
        if fault := self.hub.next_fault(path):
            return self.refuse(fault[0], {"Retry-After": "0"})
        if self.is_cdn:
            return self.take_blob(path)
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self.refuse(401)
        for pattern, handler in ((r"/api/repos/create", self.hf_create), (r"/api/models/([^/]+/[^/]+)/branch/(.+)", self.hf_branch),
                                 (r"/api/models/([^/]+/[^/]+)/preupload/(.+)", self.hf_preupload), (r"/([^/]+/[^/]+)\.git/info/lfs/objects/batch", self.hf_batch),
                                 (r"/api/models/([^/]+/[^/]+)/commit/(.+)", self.hf_commit), (r"/verify", self.hf_verify), (r"/api/v1/models", self.ms_create),
                                 (r"/api/v1/repos/models/([^/]+/[^/]+)/info/lfs/objects/batch", self.ms_batch),
                                 (r"/api/v1/repos/models/([^/]+/[^/]+)/commit/(.+)", self.ms_commit), (r"/api/validate-yaml", lambda: self.send_json({"errors": [], "warnings": []}))):
            if found := re.fullmatch(pattern, path):
                return handler(*found.groups())
        self.refuse(404)

    def body(self):
        return json.loads(self.content)

    # Hugging Face
    def hf_create(self):
        id = f"{self.body().get('organization') or OWNER}/{self.body()['name']}"
        if ("models", id) in self.hub.repos:
            return self.refuse(409)
        self.hub.add("models", id, {})
        self.hub.created[id] = self.body()
        self.send_json({"url": f"{self.hub.url}/{id}", "name": id, "id": "1"})

    def hf_branch(self, id, branch):
        repo = self.hub.repos["models", id]
        if branch in repo.branches:
            return self.refuse(409)
        repo.branches[branch] = repo.commit
        self.send_json({"success": True})

    def hf_preupload(self, id, revision):
        if revision not in self.hub.repos["models", id].branches:
            return self.refuse(404)
        self.send_json({"files": [{"path": f["path"], "uploadMode": "lfs" if f["size"] >= LARGE_FROM else "regular", "shouldIgnore": False} for f in self.body()["files"]]})

    def hf_batch(self, id):
        objects = []
        for wanted in self.body()["objects"]:
            entry = {"oid": wanted["oid"], "size": wanted["size"]}
            if wanted["oid"] not in self.hub.blobs:
                address = f"{self.hub.cdn}/put/{wanted['oid']}"
                header = {}
                if self.hub.in_parts:
                    header = {"chunk_size": str(PART), **{f"{n + 1:05}": f"{address}/{n}" for n in range(-(-wanted["size"] // PART))}}
                entry["actions"] = {"upload": {"href": address, "header": header}, "verify": {"href": f"{self.hub.url}/verify"}}
            objects.append(entry)
        self.send_json({"transfer": "multipart" if self.hub.in_parts else "basic", "objects": objects})

    def hf_verify(self):
        self.send_json({}) if self.body()["oid"] in self.hub.blobs else self.refuse(404)

    def hf_commit(self, id, revision):
        lines = [json.loads(line) for line in self.content.decode().splitlines()]
        files = {}
        for line in lines[1:]:
            value = line["value"]
            files[value["path"]] = base64.b64decode(value["content"]) if line["key"] == "file" else self.hub.blobs[value["oid"]]
        self.keep_commit(id, revision, lines[0]["value"]["summary"], files)
        self.send_json({"commitUrl": f"{self.hub.url}/{id}/commit/1", "commitOid": "1" * 40, "hookOutput": "", "pullRequestUrl": None})

    # ModelScope
    def ms_create(self):
        id = f"{self.body()['Path']}/{self.body()['Name']}"
        self.hub.add("models", id, {})
        self.hub.created[id] = {"private": self.body()["Visibility"] == 1}
        self.send_json({"Code": 200, "Success": True, "Data": {"Id": 1, "Path": self.body()["Path"], "Name": self.body()["Name"]}})

    def ms_batch(self, id):
        objects = [{"oid": o["oid"], "size": o["size"], "actions": {} if o["oid"] in self.hub.blobs else {"upload": {"href": f"{self.hub.cdn}/put/{o['oid']}"}}}
                   for o in self.body()["objects"]]
        self.send_json({"Code": 200, "Success": True, "Data": {"objects": objects}})

    def ms_commit(self, id, revision):
        files = {a["path"]: base64.b64decode(a["content"]) if a["type"] == "normal" else self.hub.blobs[a["sha256"]] for a in self.body()["actions"]}
        self.keep_commit(id, revision, self.body()["commit_message"], files)
        self.send_json({"Code": 200, "Success": True, "Data": {"oid": "1" * 40}})

    # Both
    def keep_commit(self, id, revision, message, files):
        self.hub.repos["models", id].files.update(files)
        self.hub.commits.append({"id": id, "revision": revision, "message": message, "files": files})

    def take_blob(self, path):
        _, _, digest, *part = path.split("/")
        if self.command == "POST":  # all parts are there
            parts = self.hub.parts[digest]
            assert [p["etag"] for p in self.body()["parts"]] == [f"part-{n}" for n in range(len(parts))]
            return self.keep_blob(digest, b"".join(parts[n] for n in range(len(parts))))
        if part:
            self.hub.parts.setdefault(digest, {})[int(part[0])] = self.content
            self.send_response(200)
            return self.finish_head(0, {"ETag": f"part-{part[0]}"})
        self.keep_blob(digest, self.content)

    def keep_blob(self, digest, content):
        if hashlib.sha256(content).hexdigest() != digest:
            return self.refuse(400)
        self.hub.blobs[digest] = content
        self.send_json({})
