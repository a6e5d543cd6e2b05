"""Status sockets of another user, beside which the program under test runs as root.

They are in a /tmp of their own, a mount namespace's, so that the program finds no other jobs of
this machine, and no file is left.
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

import program

UID = 65534
COUNT_MAX = 4000

# Runs in its own mount namespace.
SCRIPT = """
import json, os, resource, selectors, signal, socket, subprocess, sys, time
uid, count, answer, command, programs = json.load(sys.stdin)
subprocess.run(["mount", "--make-rprivate", "/"], check=True)
# The program may lie in /tmp.
subprocess.run(["mount", "--bind", os.path.dirname(command[0]), programs], check=True)
command[0] = os.path.join(programs, os.path.basename(command[0]))
for place in ("/tmp", "/run/user"):
    os.makedirs(place, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=1777", "tmpfs", place], check=True)
place = f"/tmp/r2ccl-{uid}"
os.mkdir(place, 0o700)
os.chown(place, uid, uid)
ready, tell = os.pipe()
child = os.fork()
if child == 0:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    os.setuid(uid)
    chooser = selectors.DefaultSelector()
    for number in range(count):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(f"{place}/{number + 1}-{number:016x}-0.sock")
        listener.listen()
        chooser.register(listener, selectors.EVENT_READ)
    os.write(tell, b"x")
    held = []
    while True:
        for key, _ in chooser.select():
            connection, _ = key.fileobj.accept()
            if answer is None:
                held.append(connection)  # silent
                continue
            connection.makefile().readline()
            connection.sendall(answer.encode() + b"\\n")
            connection.close()
os.read(ready, 1)
begin = time.monotonic()
try:
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
finally:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
seconds = time.monotonic() - begin
print(json.dumps([done.returncode, done.stdout, done.stderr, seconds]))
"""


def run_beside(count, answer, *words, environment):
    """Runs `r2ccl words` beside `count` sockets; each answers all requests with `answer`, text or
    an object, or not at all. Returns the exit status, both outputs and the seconds that it took."""
    assert count <= COUNT_MAX
    if answer is not None and not isinstance(answer, str):
        answer = json.dumps(answer)
    command = [program.PATH, *map(str, words)]
    with tempfile.TemporaryDirectory(dir="/var/tmp") as programs:
        done = subprocess.run(["unshare", "-m", sys.executable, "-c", SCRIPT],
                              input=json.dumps([UID, count, answer, command, programs]),
                              env=environment, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=program.PATIENCE_S)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)


def need_namespaces():
    """Skips the test where the machine permits no mount namespace."""
    if os.geteuid() != 0:
        raise unittest.SkipTest("only root asks other users' jobs")
    if subprocess.run(["unshare", "-m", "mount", "--make-rprivate", "/"], capture_output=True,
                      check=False).returncode != 0:
        raise unittest.SkipTest("no mount namespace can be made here")
