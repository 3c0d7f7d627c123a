"""Your own reward as a server: short answers that end like a sentence. Any language can serve it; this is all there is to it.

    python cookbook/grpo/reward_server.py 9000
"""
import http.server
import json
import sys


def reward(completion, columns):
    if not completion:
        return None  # nothing to say: this answer's total leaves the reward out
    return (1.0 if completion.rstrip().endswith((".", "!", "?")) else 0.0) - len(completion) / 200


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        columns = [{name: values[i] for name, values in asked["columns"].items()} for i in range(len(asked["completions"]))]
        body = json.dumps([reward(text, row) for text, row in zip(asked["completions"], columns)]).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 9000), Handler).serve_forever()
