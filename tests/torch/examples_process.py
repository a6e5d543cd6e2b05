"""examples/pytorch: each script under torchrun on this host, and a job in a lab that loses a NIC."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

from run import free_port

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
COMMAND = os.environ.get("R2CCL", str(ROOT / "build/r2ccl"))


def run(*command, limit_s=200):
    """Returns the output of the command. Fails the test with it when the command fails."""
    process = subprocess.Popen([sys.executable, "-B", *map(str, command)], text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        said, _ = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        process.terminate()  # torchrun ends its ranks, and the bench its lab
        said, _ = process.communicate()
    if process.returncode:
        raise AssertionError(f"{command} ended with {process.returncode}:\n{said}")
    return said


def torchrun(script, *options):
    return run("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2",
               ROOT / "examples/pytorch" / script, *options)


def first_script(page):
    """Returns the first script of Python in a document of the repository."""
    return re.search(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL).group(1)


class ScriptsTest(unittest.TestCase):
    def test_the_lines_of_the_documents_show_a_result(self):
        script = first_script("README.md")
        self.assertEqual(script, first_script("docs/pytorch.md"))
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "train.py")
            path.write_text(script)
            said = torchrun(path)
        losses = [float(text) for text in re.findall(r"step +\d+: loss (\d+\.\d+)", said)]
        self.assertEqual(len(losses), 5, said)
        self.assertLess(losses[-1], losses[0] / 2)

    def test_a_record_replaces_that_of_an_earlier_run_and_goes_on_after_a_restart(self):
        with mock.patch.object(sys, "path", [str(ROOT / "examples/pytorch"), *sys.path]):
            import steplog
        with tempfile.TemporaryDirectory() as folder:
            lines = []
            for restarts in ("0", "0", "1"):
                with mock.patch.dict(os.environ, TORCHELASTIC_RESTART_COUNT=restarts):
                    log = steplog.StepLog(f"{folder}/record.%r", 3)
                    log.write(step=0)
                    log.file.close()
                lines.append(len(pathlib.Path(folder, "record.3").read_text().splitlines()))
        self.assertEqual(lines, [1, 1, 2])

    def test_the_hash_of_the_weights_needs_no_numpy_which_torch_does_not_bring(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "numpy.py").write_text("raise ModuleNotFoundError('there is none')")
            places = (folder, str(ROOT / "examples/pytorch"), os.environ.get("PYTHONPATH", ""))
            with mock.patch.dict(os.environ, PYTHONPATH=os.pathsep.join(places)):
                said = run("-c", "import steplog, torch\n"
                           "print(steplog.weight_hash(torch.nn.Linear(2, 2)))")
        self.assertRegex(said, "(?m)^[0-9a-f]{16}$")

    def weights(self, *command):
        """Returns the hash of the weights, on which both ranks agree."""
        # The ranks share a pipe, and one may write between another's text and its end of line.
        hashes = re.findall(r": weights ([0-9a-f]{16})", torchrun(*command))
        self.assertEqual(len(hashes), 2)
        self.assertEqual(hashes[0], hashes[1])
        return hashes[0]

    def test_fsdp_and_ddp_give_the_weights_of_gloo(self):
        # A sum of two ranks' gradients has the same bits in each order.
        common = ("train_text.py", "--steps", "6", "--width", "64")
        of_gloo = self.weights(*common, "--backend", "gloo")
        self.assertEqual(self.weights(*common), of_gloo)
        self.assertEqual(self.weights(*common, "--fsdp"), of_gloo)

    def test_the_server_answers_as_with_gloo(self):
        with tempfile.TemporaryDirectory() as folder:
            for backend in ("r2ccl", "gloo"):
                torchrun("serve.py", "--steps", "3", "--width", "64", "--backend", backend,
                         "--record", f"{folder}/{backend}.%r")
            answers = [[json.loads(line)["answer"] for line in path.read_text().splitlines()]
                       for path in sorted(pathlib.Path(folder).iterdir())]
        self.assertEqual(len(answers), 4)
        self.assertEqual(len(answers[0]), 3)
        for other in answers[1:]:
            self.assertEqual(other, answers[0])


class ElasticTest(unittest.TestCase):
    def train(self, folder, *options):
        """Returns the record of each worker: {its number: rows}."""
        run(ROOT / "examples/pytorch/elastic.py", "--processes", "3", "--dies-at", "5", "--steps",
            "40", "--width", "32", "--listen", f"127.0.0.1:{free_port()}", "--record",
            f"{folder}/%r", *options)
        return {int(path.name.rsplit("-", 1)[1]): [
            json.loads(line) for line in path.read_text().splitlines()]
            for path in pathlib.Path(folder).iterdir()}

    def check(self, records, survivors, first_of_new):
        """The workers have each step once, and the same weights."""
        hashes = set()
        for worker, rows in records.items():
            steps = [row["step"] for row in rows if "step" in row]
            if worker == 0:
                self.assertEqual(steps, list(range(5)))
                continue
            first = 0 if worker in survivors else first_of_new
            self.assertEqual(steps, list(range(first, 40)), worker)
            hashes.add(rows[-1]["weights"])
        self.assertEqual(len(hashes), 1)

    def test_the_others_go_on_without_a_dead_worker_or_with_another_one(self):
        with tempfile.TemporaryDirectory() as folder:
            records = self.train(folder)
            # It may come when all is done.
            late = [row["step"] for row in records.get(3, []) if "step" in row]
            if not late:
                records.pop(3, None)
            self.assertLessEqual({0, 1, 2}, set(records))
            self.check(records, (1, 2), late[0] if late else None)
        with tempfile.TemporaryDirectory() as folder:
            records = self.train(folder, "--least", "3")
            self.assertEqual(sorted(records), [0, 1, 2, 3])
            self.check(records, (1, 2), 5)


class LabTest(unittest.TestCase):
    def test_a_pulled_cable_changes_no_bit_of_losses_and_weights(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "result.json")
            run(ROOT / "bench/torch_faults.py", "--quick", "--r2ccl", COMMAND, "--name",
                f"torch{os.getpid()}", "--json", path)
            result = json.loads(path.read_text())["digits"]
        self.assertEqual([change["words"][0] for change in result["applied"]], ["fault", "fix"])
        self.assertEqual(result["steps"], [60, 60])
        self.assertEqual(result["different_losses"], 0)
        without, under = result["weights"]
        self.assertEqual(len(set(without + under)), 1)
        self.assertNotIn(None, without)
        self.assertEqual(len(without), 2)
