"""The line protocol of the conformance peers: one JSON object per line in, one per line out.

A peer calls `serve({"name": function})`; each function takes the arguments as one dict and returns a JSON value.
What it raises becomes the question's error, as `Type: words`.
"""

import json
import os
import sys

# The folder in which the published packages were installed.
folder = sys.argv[1]

# Packages may print; standard output belongs to the protocol.
_output = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8", newline="\n")
sys.stdout = sys.stderr


def serve(functions):
    for line in sys.stdin.buffer:
        question = json.loads(line)
        answer = {"id": question["id"]}
        try:
            answer["ok"] = functions[question["fn"]](question["args"])
            text = json.dumps(answer)
        except Exception as error:
            text = json.dumps({"id": question["id"], "error": f"{type(error).__name__}: {error}"})
        _output.write(text + "\n")
        _output.flush()
