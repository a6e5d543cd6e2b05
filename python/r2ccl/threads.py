"""Calls that block in C, for a thread that must react to Ctrl-C meanwhile.

Python handles signals in the main thread, and only between two steps of Python. So a long call of
the main thread runs in another thread, while the main thread waits for a lock, which a signal
interrupts.
"""

import threading

_MAIN = threading.main_thread().ident


def on_main():
    """Returns whether this is the main thread, which alone gets signals."""
    return threading.get_ident() == _MAIN


def interruptible(call):
    """Returns call(), or raises its exception. Ctrl-C raises KeyboardInterrupt at once, while the
    call goes on in its thread."""
    if not on_main():
        return call()
    outcome, ended = [], threading.Event()

    def run():
        try:
            outcome.append((call(), None))
        except BaseException as error:
            outcome.append((None, error))
        ended.set()
    try:
        threading.Thread(target=run, name="r2ccl-wait", daemon=True).start()
    except RuntimeError:  # no thread is to be had; from Python 3.12 on so at the interpreter's exit
        return call()
    ended.wait()
    value, error = outcome[0]
    if error is not None:
        raise error
    return value
