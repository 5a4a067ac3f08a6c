"""The process between the agent and a workspace's server. Standard library only.

Runs as ``python -I -S launcher.py FOLDER`` in a session of its own, so that it outlives
the agent. Everything that the server starts, however it detaches, comes back to it as
child (``PR_SET_CHILD_SUBREAPER``): what is below the launcher is the workspace.

In ``FOLDER``: ``lock`` (held while it lives, so there is never a second), ``spec.json``
(read), ``pids.json`` (written before the server begins), ``exit.json`` (written when the
server has ended).
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import signal
import sys
from typing import Any

CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
MS_BIND, MS_REC, MS_SLAVE = 0x1000, 0x4000, 0x80000
PR_SET_CHILD_SUBREAPER = 36
#: Ended because another launcher of this lease lives, or the lease was removed.
NOT_NEEDED = 75


def _checked(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def enter_namespace(source: str, target: str) -> None:
    """Show ``source`` at ``target`` to this process and its children alone.

    Without the right to mount, a user namespace of one's own gives it.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    uid, gid = os.getuid(), os.getgid()
    try:
        _checked(libc.unshare(CLONE_NEWNS))
    except PermissionError:
        _checked(libc.unshare(CLONE_NEWNS | CLONE_NEWUSER))
        for name, line in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"),
                           ("gid_map", f"{gid} {gid} 1")):  # fmt: skip
            with open(f"/proc/self/{name}", "w") as file:
                file.write(line)
    # Mounts of the host still appear here (a share that is mounted later), never the reverse.
    _checked(libc.mount(b"none", b"/", None, MS_REC | MS_SLAVE, None))
    _checked(libc.mount(os.fsencode(source), os.fsencode(target), None, MS_BIND | MS_REC, None))


def start_ticks(pid: int) -> int:
    """Return when a process started, in clock ticks since boot: with the pid, its identity."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[19])


def write(path: str, content: Any) -> None:
    """Replace a small file durably."""
    with open(f"{path}.new", "w") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(f"{path}.new", path)


def _hold(path: str, kind: int) -> int:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(fd, kind | fcntl.LOCK_NB)
    return fd


def _become_server(spec: dict[str, Any], go: int) -> None:
    """Run the server; never returns."""
    try:
        os.read(go, 1)  # until the launcher has written down who we are
        for folder in spec["cgroups"]:
            with open(os.path.join(folder, "cgroup.procs"), "w") as file:
                file.write("0")
        os.chdir(spec["cwd"])
        for number in (signal.SIGPIPE, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        os.execvpe(spec["command"][0], spec["command"], spec["env"])  # noqa: S606
    except BaseException as error:
        os.write(2, f"The server could not be started: {error}\n".encode())
    finally:
        os._exit(127)


def main(folder: str) -> int:
    """Start the server and stay until nothing of it is left."""

    def at(name: str) -> str:
        return os.path.join(folder, name)

    try:
        lock = _hold(at("lock"), fcntl.LOCK_EX)
        with open(at("spec.json")) as file:
            spec = json.load(file)
    except OSError:
        return NOT_NEEDED
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the agent ends the server, then us
    libc = ctypes.CDLL(None, use_errno=True)
    _checked(libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
    held = [lock]
    if spec["in_use"]:
        held.append(_hold(spec["in_use"], fcntl.LOCK_SH))
    if spec["mount"]:
        enter_namespace(*spec["mount"])
    go, told = os.pipe()
    server = os.fork()
    if server == 0:
        os.close(told)
        _become_server(spec, go)
    os.close(go)
    me = os.getpid()
    write(at("pids.json"), {
        "launcher": [me, start_ticks(me)],
        "server": [server, start_ticks(server)],
    })  # fmt: skip
    os.write(told, b"!")
    os.close(told)
    while True:
        try:
            pid, status = os.wait()
        except ChildProcessError:
            return 0
        if pid == server:
            write(at("exit.json"), {
                "code": os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
                "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
            })  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
