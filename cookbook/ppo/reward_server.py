"""Your own reward as a server: long answers of many different words that end like a sentence.

    python cookbook/ppo/reward_server.py 9000
"""
import http.server
import json
import sys

ENOUGH = 12  # different words


def reward(completion):
    words = set(completion.lower().split())
    ends = completion.rstrip().endswith((".", "!", "?"))
    return min(len(words), ENOUGH) / ENOUGH * (1.0 if ends else 0.5)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = json.dumps([reward(text) for text in asked["completions"]]).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 9000), Handler).serve_forever()
