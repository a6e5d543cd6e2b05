"""The program under test, which every test here gets on its command line."""
import os
import subprocess
import sys
import tempfile
import unittest

PATH = "r2ccl"
# The bound of what must happen but has no bound of its own. It is below R2CCL_CUTOFF_S, so nothing
# that comes by the cutoff alone counts.
PATIENCE_S = 200

# Other tests run beside this one, and `r2ccl status` lists all jobs of the user. So each test's jobs
# have their sockets in a folder of its own, where no other test looks.
_FOLDER = tempfile.TemporaryDirectory(prefix="r2ccl-test-")
os.environ["XDG_RUNTIME_DIR"] = _FOLDER.name


def run(*words, timeout=PATIENCE_S, **options):
    """Runs it to its end; its output is text."""
    return subprocess.run([PATH, *map(str, words)], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=timeout, **options)


def start(*words, **options):
    """Starts it as run() does, but does not wait for its end."""
    return subprocess.Popen([PATH, *map(str, words)], text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, **options)


def main(usage, obstacle=None):
    """Runs the tests of the started file; `obstacle()` returns the reason why they cannot run
    here."""
    global PATH
    if len(sys.argv) < 2:
        sys.exit(usage)
    PATH = os.path.abspath(sys.argv.pop(1))
    missing = obstacle() if obstacle else None
    if missing:
        print("SKIPPED:", missing)
        sys.exit(77)
    unittest.main()
