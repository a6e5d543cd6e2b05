"""Shared by the bench scripts that simulate: one `r2ccl sim run`, and the operations in its
output."""
import json
import os
import pathlib
import subprocess
import tempfile


def scenario(fields, operation, fault=None):
    """Returns the TOML of one run, each part given as a dictionary of numbers and words."""
    def lines(values):
        return [f"{name} = {json.dumps(value)}" for name, value in values.items()]
    text = lines(fields) + ["[[operation]]"] + lines(operation)
    return "\n".join(text + (["[[fault]]"] + lines(fault) if fault else [])) + "\n"


def simulate(r2ccl, text):
    """Returns the document that `sim run` wrote, and its output if it wrote none."""
    with tempfile.TemporaryDirectory(prefix="r2sim-") as directory:
        file, out = (os.path.join(directory, each) for each in ("scenario.toml", "out.json"))
        pathlib.Path(file).write_text(text)
        done = subprocess.run([r2ccl, "sim", "run", file, "--json", out], text=True,
                              capture_output=True, check=False)
        if not os.path.exists(out):
            return None, done.stderr[-400:]
        return json.loads(pathlib.Path(out).read_text()), ""


def operations_of(document):
    """Returns (begin, end) of each operation, in ms: from the first rank's call to the last one's
    end."""
    ranks = {}
    for span in document["operations"]:
        ranks.setdefault(span["host"], []).append((span["from_ms"], span["to_ms"]))
    columns = zip(*(sorted(spans) for spans in ranks.values()))
    return [(min(begin for begin, _ in column), max(end for _, end in column)) for column in columns]
