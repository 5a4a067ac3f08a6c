"""plan, save and load: the public seam."""

from __future__ import annotations

import contextlib
import os
import pickle
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from . import types, walk
from .limits import Limit, no_collection
from .loading import Loading, loading
from .parts import kernel
from .records import CaptureError, Record
from .seal import Seal
from .session import Session
from .stream.reader import CaptureReader, Content
from .stream.replay import Replay
from .stream.sink import CaptureSink
from .stream.writer import BlockWriter

Place = str | os.PathLike[str] | BinaryIO

#: Reducers install themselves when their module is imported.
_REDUCERS = types.ALL
#: How long one variable may take, in seconds.
LIMIT_S = 20.0


def plan(
    *, shell: Any = None, namespace: dict[str, Any] | None = None, limit_s: float = LIMIT_S
) -> list[Record]:
    """Tell what a save would carry, rebuild and refuse. Changes nothing in the session.

    Each variable is walked by the very pickler that would save it, into a null sink.

    Parameters
    ----------
    shell, namespace
        The session meant; by default the one that this is called in. A namespace alone has
        no history and no cell results.
    limit_s
        A variable whose pickling takes longer (seconds) is refused.

    Returns
    -------
    list of Record
        One for each variable, in the namespace's order; then one for each cell result
        (``Out[n]``); then a refusal for each live thread, task and hook of the person's, and
        a record for each IPython extension.
    """
    return walk.survey(Session.find(shell, namespace), Limit(limit_s))


def save(
    target: Place,
    *,
    shell: Any = None,
    namespace: dict[str, Any] | None = None,
    limit_s: float = LIMIT_S,
    seal: Seal | None = None,
) -> list[Record]:
    """Save the session and return what was saved, in the form of :func:`plan`.

    What cannot be carried is left out and reported; the rest is one graph.

    Parameters
    ----------
    target
        A path, which is replaced only when the capture is complete, or a binary stream.
    shell, namespace, limit_s
        As for :func:`plan`.
    seal
        Protects the capture against change; it can be loaded only with the same seal.

    Raises
    ------
    OSError
        If the target cannot be written; a file that was there before is still there.
    """
    session, limit = Session.find(shell, namespace), Limit(limit_s)
    if not isinstance(target, str | os.PathLike):
        return save_into(CaptureSink(BlockWriter(target, seal), limit.check), session, limit)
    with _replacing(Path(target)) as stream:
        return save_into(CaptureSink(BlockWriter(stream, seal), limit.check), session, limit)


def save_into(sink: CaptureSink, session: Session, limit: Limit) -> list[Record]:
    """Save a session into a sink, to its end; return what was saved."""
    try:
        records = walk.save_graph(session, limit, sink)
        sink.finish(records)
    except BaseException:
        sink.abandon()
        raise
    return records


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    # mkstemp: readable by the owner only, as a session's content should be.
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb", buffering=0) as stream:
            yield stream
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise


def load(
    source: Place,
    *,
    shell: Any = None,
    namespace: dict[str, Any] | None = None,
    seal: Seal | None = None,
) -> list[Record]:
    """Load a capture into the session, in place of what is there.

    Names that are not in the capture do not exist afterwards, IPython's own aside. Loading
    runs code of the capture: load only what you saved, or had saved for you.

    Parameters
    ----------
    source
        A path, or a binary stream at the capture's beginning.
    shell, namespace
        As for :func:`plan`.
    seal
        What the capture must be sealed with. Without one, only a capture without a seal loads.

    Returns
    -------
    list of Record
        The report that :func:`save` gave.

    Raises
    ------
    CaptureError
        If it is damaged, incomplete, no capture or not sealed as it should be, or a variable
        cannot be rebuilt; the namespace is then as it was before.
    """
    session = Session.find(shell, namespace)
    if not isinstance(source, str | os.PathLike):
        return load_content(CaptureReader(source, seal).read(), session)
    try:
        stream = open(source, "rb", buffering=0)  # noqa: SIM115  (with its own message)
    except OSError as error:
        raise CaptureError(f"The capture {os.fspath(source)} cannot be read: {error}") from error
    with stream:
        return load_content(CaptureReader(stream, seal).read(), session)


def load_content(content: Content, session: Session) -> list[Record]:
    """Load what was read and verified into a session, in place of what is there."""
    replay = Replay(content)
    names = session.namespace
    before = dict(names)
    managed = {name: value for name, value in names.items() if _stays(session, name)}
    with loading(session, replay) as load, no_collection():
        try:
            names.clear()
            names.update(managed)
            _fill(replay, load)
        except BaseException:
            names.clear()
            names.update(before)
            raise
    return content.records


def _stays(session: Session, name: str) -> bool:
    return session.is_managed(name) and not name.lstrip("_i").isdigit()


def _fill(replay: Replay, load: Loading) -> None:
    unpickler = pickle.Unpickler(replay, buffers=replay)
    with contextlib.ExitStack() as stack:
        with _named_errors(["the session"]):
            unpickler.load()  # the landmarks
            place = unpickler.load()
        stack.enter_context(kernel.unpacked_place(place))
        outputs, parts = _unpickle(unpickler, load)
        _order(load.session, parts["order"])
        kernel.unpack_after(load, parts, outputs)


def _unpickle(unpickler: pickle.Unpickler, load: Loading) -> tuple[dict[int, Any], dict[str, Any]]:
    names = load.session.namespace
    outputs: dict[int, Any] = {}
    doing = ["the list of variables"]
    with _named_errors(doing):
        for name in unpickler.load():
            doing[0] = f"Out[{name}]" if isinstance(name, int) else str(name)
            value = unpickler.load()
            if isinstance(name, int):
                outputs[name] = value
            elif not name.startswith("("):  # such as a widget that only its browser knows
                names[name] = value
        doing[0] = "the kernel's own state"
        parts = unpickler.load()
        for finish in load.finally_do:
            finish()
    return outputs, parts


@contextlib.contextmanager
def _named_errors(doing: list[str]) -> Iterator[None]:
    """Turn whatever goes wrong into a :class:`CaptureError` that names the variable in hand."""
    try:
        yield
    except (CaptureError, KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:
        raise CaptureError(
            f"{doing[0]} cannot be rebuilt: {type(error).__name__}: {error}. Nothing was changed."
        ) from error


def _order(session: Session, order: list[str]) -> None:
    """Give the namespace the order that it had."""
    names = session.namespace
    others = {name: value for name, value in names.items() if name not in set(order)}
    ordered = {name: names[name] for name in order if name in names}
    names.clear()
    names.update(others)
    names.update(ordered)
