"""Make a home like the manifest of another: below one descriptor, never through a symlink."""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
from collections.abc import Callable
from types import TracebackType

from .delta import Delta
from .manifest import Entry

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_NAME_ONLY = os.O_PATH | os.O_NOFOLLOW


class Home:
    """A home opened for reading and changing names below it.

    Each component is opened by itself and never a symbolic link, so no name, whatever
    is in the home, leads out of it. Keeps the last folder open: names come in order.
    """

    def __init__(self, root: str | bytes) -> None:
        self._root = os.open(root, _FOLDER)
        self._at: tuple[bytes, int] | None = None

    def __enter__(self) -> Home:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leave()
        os.close(self._root)

    @property
    def root(self) -> int:
        """The home's own descriptor."""
        return self._root

    def parent(self, path: bytes) -> tuple[int, bytes]:
        """Return the folder that holds a path, as a descriptor, and the last name."""
        folder, _, name = path.rpartition(b"/")
        # ".." is no symbolic link, so opening each component by itself would follow it.
        if b"\0" in path or any(part in (b"", b".", b"..") for part in path.split(b"/")):
            raise FileNotFoundError(2, "is not a plain path below the home", path)
        if not folder:
            return self._root, name
        if self._at is None or self._at[0] != folder:
            self._leave()
            fd = os.dup(self._root)
            try:
                for part in folder.split(b"/"):
                    deeper = os.open(part, _FOLDER, dir_fd=fd)
                    os.close(fd)
                    fd = deeper
            except BaseException:
                os.close(fd)
                raise
            self._at = (folder, fd)
        return self._at[1], name

    def open_file(self, path: bytes) -> int:
        """Open a regular file for reading."""
        fd, name = self.parent(path)
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=fd)
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            raise FileNotFoundError(path)
        return file

    def _leave(self) -> None:
        if self._at is not None:
            os.close(self._at[1])
            self._at = None

    # --- changes -----------------------------------------------------------------------

    def remove(self, path: bytes) -> None:
        """Remove a name; a folder with what is left in it (sockets, say)."""
        fd, name = self.parent(path)
        with contextlib.suppress(FileNotFoundError):
            if stat.S_ISDIR(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode):
                self._leave_if_below(path)
                fd, name = self.parent(path)
                _remove_tree(fd, name)
            else:
                os.unlink(name, dir_fd=fd)

    def _leave_if_below(self, path: bytes) -> None:
        if self._at is not None and (self._at[0] + b"/").startswith(path + b"/"):
            self._leave()

    def make(self, entry: Entry) -> None:
        """Make a folder or a symbolic link."""
        fd, name = self.parent(entry.path)
        if entry.kind == "d":
            os.mkdir(name, 0o700, dir_fd=fd)
        else:
            os.symlink(entry.target, name, dir_fd=fd)

    def place(self, staged: str, path: bytes) -> None:
        """Put a staged file in its place, in one step."""
        fd, name = self.parent(path)
        os.rename(staged, name, dst_dir_fd=fd)

    def link(self, first: bytes, path: bytes, staged: str) -> None:
        """Make ``path`` a further name of the file ``first``; ``staged`` is a free name."""
        fd, name = self.parent(first)
        os.link(name, staged, src_dir_fd=fd, follow_symlinks=False)
        self.place(staged, path)

    def dress(self, entry: Entry) -> None:
        """Set owner, attributes, mode and times; times last, since the rest may touch them."""
        fd, name = (self._root, b".") if not entry.path else self.parent(entry.path)
        if os.geteuid() == 0:
            os.chown(name, entry.uid, entry.gid, dir_fd=fd, follow_symlinks=False)
        if entry.kind != "l":
            held = os.open(name, _NAME_ONLY, dir_fd=fd)
            try:
                _attributes(f"/proc/self/fd/{held}", entry)
            finally:
                os.close(held)
        times = (entry.mtime_ns, entry.mtime_ns)
        os.utime(name, ns=times, dir_fd=fd, follow_symlinks=False)


def _attributes(path: str, entry: Entry) -> None:
    with contextlib.suppress(OSError):  # the file system may have no attributes
        have = {os.fsencode(n) for n in os.listxattr(path) if n.startswith("user.")}
        want = dict(entry.xattrs)
        if have or want:
            os.chmod(path, entry.mode | 0o600)
        for name in have - want.keys():
            os.removexattr(path, name)
        for name, value in want.items():
            os.setxattr(path, name, value)
    os.chmod(path, entry.mode)


def _remove_tree(parent: int, name: bytes) -> None:
    fd = os.open(name, _FOLDER, dir_fd=parent)
    try:
        with os.scandir(fd) as listing:
            found = [(os.fsencode(one.name), one.is_dir(follow_symlinks=False)) for one in listing]
        for child, is_folder in found:
            if is_folder:
                _remove_tree(fd, child)
            else:
                os.unlink(child, dir_fd=fd)
    finally:
        os.close(fd)
    os.rmdir(name, dir_fd=parent)


def apply(home: Home, delta: Delta, staged: dict[bytes, str], free_name: Callable[[], str]) -> None:
    """Carry out a delta. Only names whose content is staged are replaced.

    Parameters
    ----------
    staged
        The verified content of each file of ``delta.fetch``, as a path on the same file
        system as the home. A file that is not in it stays as it is (the pre-copy of a
        live home leaves out what was changing).
    free_name
        Gives a path on that file system where nothing is.
    """
    skipped = {entry.path for entry in delta.fetch} - staged.keys()
    for path in delta.delete:
        home.remove(path)
    for entry in delta.make:
        home.make(entry)
    for entry in delta.fetch:
        if entry.path in staged:
            home.place(staged[entry.path], entry.path)
    for entry in delta.link:
        if entry.link not in skipped:
            home.link(entry.link, entry.path, free_name())
    for entry in delta.meta:
        if entry.path not in skipped:
            home.dress(entry)


def sync_file_system(fd: int) -> None:
    """Write all that is pending on a descriptor's file system to the disk (``syncfs(2)``)."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syncfs(fd) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
