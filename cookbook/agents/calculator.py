"""A calculator as a tool server: plain HTTP at /call, and the Model Context Protocol over streamable HTTP at /mcp. Nothing but Python's own library.

    python cookbook/agents/calculator.py 9000
"""
import ast
import http.server
import json
import operator
import sys
import uuid

OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv, ast.USub: operator.neg}
TOOL = {"name": "calculator", "description": "Evaluates arithmetic.", "inputSchema": {"type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]}}


def calculate(expression):
    """Numbers and + - * / alone; anything else is an error that the model reads."""
    if len(expression) > 200:
        raise ValueError("the expression is too long")

    def value(node):
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            return node.value
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            return OPERATORS[type(node.op)](value(node.left), value(node.right))
        if isinstance(node, ast.UnaryOp) and type(node.op) in OPERATORS:
            return OPERATORS[type(node.op)](value(node.operand))
        raise ValueError("only numbers and + - * / are known")

    return str(value(ast.parse(expression, mode="eval").body))


class Handler(http.server.BaseHTTPRequestHandler):
    sessions = set()

    def answer(self, status, body=b"", kind="application/json", **headers):
        self.send_response(status)
        for name, text in {"Content-Type": kind, "Content-Length": str(len(body)), **{key.replace("_", "-"): value for key, value in headers.items()}}.items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/mcp":
            return self.speak_mcp(asked)
        try:
            found = {"result": calculate(str(asked["arguments"]["expression"]))}
        except Exception as problem:
            found = {"error": str(problem)}
        self.answer(200, json.dumps(found).encode())

    def speak_mcp(self, asked):
        method, session = asked["method"], self.headers.get("Mcp-Session-Id")
        if method == "initialize":
            session = uuid.uuid4().hex
            self.sessions.add(session)
            result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "calculator", "version": "1"}}
            return self.answer(200, json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}).encode(), Mcp_Session_Id=session)
        if session not in self.sessions:
            return self.answer(404)
        if "id" not in asked:
            return self.answer(202)
        if method == "tools/list":
            result = {"tools": [TOOL]}
        else:
            try:
                result = {"content": [{"type": "text", "text": calculate(str(asked["params"]["arguments"]["expression"]))}], "isError": False}
            except Exception as problem:
                result = {"content": [{"type": "text", "text": str(problem)}], "isError": True}
        message = json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result})
        self.answer(200, f"event: message\ndata: {message}\n\n".encode(), "text/event-stream")

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 9000), Handler).serve_forever()
