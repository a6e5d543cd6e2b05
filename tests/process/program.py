"""The program under test, which every test here gets on its command line."""
import os
import subprocess
import sys
import unittest

PATH = "r2ccl"


def run(*words, **options):
    """Runs it to its end; its output is text."""
    return subprocess.run([PATH, *map(str, words)], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, **options)


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
