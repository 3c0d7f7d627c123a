"""A hub on loopback that speaks Hugging Face's and ModelScope's interfaces, and misbehaves on request."""
import functools
import hashlib
import json
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

from hub_uploads import OWNER, Uploads

LFS_FROM = 4096  # larger files are LFS: on Hugging Face these are redirected to another host


@functools.cache
def git_sha1(content):
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@functools.cache
def sha256(content):
    return hashlib.sha256(content).hexdigest()


class Repo:
    def __init__(self, files, commit="c0ffee" * 6 + "0123", private=None, gated=False):
        self.files, self.commit, self.private, self.gated = dict(files), commit, private, gated
        self.branches = {"main": commit, "master": commit, commit: commit}
        self.listed_names = {}  # path -> the name the listing gives it
        self.listed_sizes = {}
        self.listed_sha256 = {}

    def entries(self):
        for path, content in self.files.items():
            name, size = self.listed_names.get(path, path), self.listed_sizes.get(path, len(content))
            yield name, size, content, self.listed_sha256.get(path, sha256(content))


class Hub:
    """hub.url is the address of the hub; large files live on hub.cdn, another origin. `faults[path]` is a list: one for each request of a file."""

    def __init__(self):
        self.repos, self.faults, self.requests, self.page = {}, {}, [], 1000
        self.blobs, self.parts, self.commits, self.created, self.in_parts = {}, {}, [], {}, False
        self.lock = threading.Lock()
        self.servers = [ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Handler,), {"hub": self, "is_cdn": is_cdn})) for is_cdn in (False, True)]
        for server in self.servers:
            server.daemon_threads = True
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        self.url, self.cdn = (f"http://127.0.0.1:{server.server_port}" for server in self.servers)

    def close(self):
        for server in self.servers:
            server.shutdown()
            server.server_close()

    def add(self, kind, id, files, **settings):
        self.repos[kind, id] = Repo(files, **settings)
        return self.repos[kind, id]

    def add_folder(self, kind, id, folder, **settings):
        files = {str(f.relative_to(folder)): f.read_bytes() for f in sorted(folder.rglob("*")) if f.is_file()}
        return self.add(kind, id, files, **settings)

    def misbehave(self, path, *faults):
        self.faults[path] = list(faults)

    def next_fault(self, path):
        with self.lock:
            waiting = self.faults.get(path)
            return waiting.pop(0) if waiting else None

    def bodies_sent(self, path):
        """Requests that asked for the bytes of this file, redirects not counted."""
        return [r for r in self.requests if r["file"] == path and not r["redirected"]]

    def environment(self, cache, use_hf):
        return {"HF_ENDPOINT": self.url, "MODELSCOPE_ENDPOINT": self.url, "HF_HOME": str(cache / "hf"), "MODELSCOPE_CACHE": str(cache / "ms"),
                "HF_HUB_DISABLE_XET": "1", "HF_HUB_OFFLINE": "0", "USE_HF": "1" if use_hf else "0", "HOME": str(cache)}


class Handler(Uploads, BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub = None
    is_cdn = False

    def log_message(self, *args):
        pass

    def do_HEAD(self):
        self.answer()

    def do_GET(self):
        self.answer()

    def answer(self):
        self.record = {"method": self.command, "path": self.path, "headers": {k.lower(): v for k, v in self.headers.items()}, "cdn": self.is_cdn, "file": None, "redirected": False}
        self.hub.requests.append(self.record)
        try:
            self.route()
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def route(self):
        url = urlsplit(self.path)
        path, query = unquote(url.path), {k: v[0] for k, v in parse_qs(url.query).items()}
        if self.is_cdn:
            kind, id, file = query["kind"], query["id"], query["file"]
            self.record["file"] = file
            return self.send_file(file, self.hub.repos[kind, id].files[file], etag='"storage-%s"' % sha256(self.hub.repos[kind, id].files[file])[:8])
        if found := re.fullmatch(r"/api/(models|datasets)/([^/]+/[^/]+)/revision/(.+)", path):
            return self.hf_revision(*found.groups())
        if found := re.fullmatch(r"/api/(models|datasets)/([^/]+/[^/]+)/tree/([^/]+)/?", path):
            return self.hf_tree(*found.groups(), query)
        if found := re.fullmatch(r"/api/v1/(models|datasets)/([^/]+/[^/]+)/repo/(?:files|tree)", path):
            return self.ms_files(*found.groups(), query)
        if found := re.fullmatch(r"/api/v1/(models|datasets)/([^/]+/[^/]+)/repo", path):
            return self.ms_file(*found.groups(), query)
        if found := re.fullmatch(r"/(datasets/)?([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            return self.hf_file("datasets" if found[1] else "models", *found.groups()[1:])
        if path == "/api/whoami-v2":
            return self.send_json({"type": "user", "name": OWNER, "auth": {"accessToken": {"role": "write"}}})
        if found := re.fullmatch(r"/api/v1/models/([^/]+/[^/]+)", path):
            return self.send_json({"Code": 200, "Success": True, "Data": {"Path": found[1]}}) if ("models", found[1]) in self.hub.repos else self.refuse(404)
        self.refuse(404)

    # What the repository's owner decided.
    def repo_of(self, kind, id, hf):
        repo = self.hub.repos.get((kind, id))
        if self.hub.faults.get("listing") and (fault := self.hub.next_fault("listing")):
            self.refuse(fault[0], {"Retry-After": str(fault[1])} if fault[1] is not None else {})
            return None
        if not repo:
            self.refuse(401 if hf else 404, {"X-Error-Code": "RepoNotFound"} if hf else {})
            return None
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if repo.gated and token != repo.gated:
            self.refuse(403, {"X-Error-Code": "GatedRepo"})
            return None
        if repo.private and token != repo.private:
            self.refuse(401 if not token else 403)
            return None
        return repo

    def hf_revision(self, kind, id, revision):
        if repo := self.repo_of(kind, id, True):
            if revision not in repo.branches:
                return self.refuse(404, {"X-Error-Code": "RevisionNotFound"})
            siblings = [{"rfilename": name} for name, *_ in repo.entries()]
            self.send_json({"id": id, "modelId": id, "sha": repo.branches[revision], "siblings": siblings, "tags": [], "downloads": 0, "likes": 0, "private": False})

    def hf_tree(self, kind, id, commit, query):
        if not (repo := self.repo_of(kind, id, True)):
            return
        rows = []
        for name, size, content, digest in repo.entries():
            row = {"type": "file", "path": name, "size": size, "oid": git_sha1(content)}
            if len(content) >= LFS_FROM:
                row["lfs"] = {"oid": digest, "size": size, "pointerSize": 134}
            rows.append(row)
        first = int(query.get("cursor", 0))
        more = {}
        if first + self.hub.page < len(rows):
            more["Link"] = f'<https://the.mirrored.hub/api/{kind}/{id}/tree/{commit}?recursive=true&cursor={first + self.hub.page}>; rel="next"'
        self.send_json(rows[first:first + self.hub.page], more)

    def hf_file(self, kind, id, commit, path):
        if not (repo := self.repo_of(kind, id, True)):
            return
        if path not in repo.files:
            return self.refuse(404, {"X-Error-Code": "EntryNotFound"})
        self.record["file"] = path
        content = repo.files[path]
        about = {"X-Repo-Commit": repo.branches.get(commit, repo.commit)}
        if len(content) < LFS_FROM:
            return self.send_file(path, content, '"%s"' % git_sha1(content), about)
        self.redirect(f"{self.hub.cdn}/blob?kind={kind}&id={id}&file={path}", {**about, "X-Linked-Etag": '"%s"' % sha256(content), "X-Linked-Size": str(len(content))}, path)

    def ms_files(self, kind, id, query):
        if not (repo := self.repo_of(kind, id, False)):
            return
        if query.get("Revision") not in repo.branches:
            return self.refuse(404)
        rows = [{"Name": name.split("/")[-1], "Path": name, "Type": "blob", "Size": size, "Sha256": digest, "Revision": repo.commit} for name, size, _, digest in repo.entries()]
        rows += [{"Name": d, "Path": d, "Type": "tree", "Size": 0} for d in sorted({name.split("/")[0] for name in repo.files if "/" in name})]
        if kind == "datasets":
            size = int(query.get("PageSize", 200))
            first = (int(query.get("PageNumber", 1)) - 1) * size
            rows = rows[first:first + size]
        self.send_json({"Code": 200, "Success": True, "Message": "", "Data": {"Files": rows}})

    def ms_file(self, kind, id, query):
        if not (repo := self.repo_of(kind, id, False)):
            return
        path = query["FilePath"]
        if path not in repo.files:
            return self.refuse(404)
        self.record["file"] = path
        if len(repo.files[path]) >= LFS_FROM:
            return self.redirect(f"{self.hub.cdn}/blob?kind={kind}&id={id}&file={path}", {"X-Linked-Etag": sha256(repo.files[path])}, path)
        self.send_file(path, repo.files[path], '"%s"' % sha256(repo.files[path]))

    # How it is sent.
    def redirect(self, target, headers, path):
        self.record["redirected"] = True
        for fault in self.hub.faults.get(path, [])[:1]:
            if isinstance(fault, tuple) and fault[0] == "redirect":
                self.hub.next_fault(path)
                target = fault[1]
        self.send_response(302)
        self.send_header("Location", target)
        self.finish_head(0, headers)

    def refuse(self, status, headers={}):
        body = json.dumps({"error": "no", "Code": status, "Success": False, "Message": "no"}).encode()
        self.send_response(status)
        self.finish_head(len(body), {"Content-Type": "application/json", **headers})
        self.wfile.write(body)

    def send_json(self, value, headers={}):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.finish_head(len(body), {"Content-Type": "application/json", **headers})
        self.wfile.write(body)

    def finish_head(self, length, headers):
        self.send_header("Content-Length", str(length))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def send_file(self, path, content, etag, headers={}):
        fault = self.hub.next_fault(path) if self.command == "GET" else None
        fault, value = fault if isinstance(fault, tuple) else (fault, None)
        if fault == "status":
            return self.refuse(value[0], {"Retry-After": value[1]} if len(value) > 1 else {})
        if fault == "hang":
            return time.sleep(value)
        if fault == "gate":
            value.wait(60)
        if fault == "wrong":
            content = bytes(255 - b for b in content[:10]) + content[10:]
        if fault == "resized":  # a server whose copy is not the listed one
            content = (content * 2)[:len(content) + value]
        if fault == "etag":
            etag = value
        begin, end, status = 0, len(content), 200
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        same = self.headers.get("If-Range", etag) == etag
        if asked and same and fault != "no ranges":
            begin, end, status = int(asked[1]), min(int(asked[2] or len(content) - 1) + 1, len(content)), 206
            if begin >= len(content):
                return self.refuse(416)
            headers = {**headers, "Content-Range": f"bytes {begin}-{end - 1}/{len(content)}"}
        body = content[begin:end]
        self.send_response(status)
        if fault == "endless":  # says nothing about its length and never stops by itself
            self.send_header("ETag", etag)
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(body + b"x" * (1 << 20))
            self.close_connection = True
            return
        self.finish_head(len(body), {**headers, "ETag": etag, "Accept-Ranges": "bytes"})
        if self.command == "HEAD":
            return
        if fault == "cut":
            self.wfile.write(body[:value])
            self.wfile.flush()
            self.connection.close()
            self.close_connection = True
        elif fault == "slow":
            for at in range(0, len(body), max(1, len(body) // value)):
                self.wfile.write(body[at:at + max(1, len(body) // value)])
                self.wfile.flush()
                time.sleep(0.05)
        else:
            self.wfile.write(body)
