"""pandas: the tracking of copy-on-write comes along with the memory that it guards.

Blocks and indexes that share memory know of each other through one
``BlockValuesRefs``; a write to one first copies if others live. Plain pickle drops it,
so what shares memory after the move would also share later writes. Here it is
part of the graph. (Read from pandas 3.1: ``core/internals/blocks.py``,
``core/indexes/base.py``, ``_libs/internals.pyi``.)
"""

from __future__ import annotations

from typing import Any

from ..pickler import StatePickler, for_library, reducer


@for_library("pandas")
def install() -> None:
    """Install the reducers."""
    import pandas as pd
    from pandas._libs.internals import BlockValuesRefs
    from pandas.core.internals.blocks import Block
    from pandas.core.internals.managers import BlockManager, SingleBlockManager

    reducer(Block)(_reduce_block)
    reducer(BlockValuesRefs)(lambda _pickler, _refs: (BlockValuesRefs, ()))
    reducer(BlockManager)(lambda _pickler, m: (type(m), (tuple(m.blocks), list(m.axes))))
    reducer(SingleBlockManager)(lambda _pickler, m: (type(m), (m.blocks[0], m.axes[0])))
    reducer(pd.Index)(_reduce_index)


def _reduce_block(_pickler: StatePickler, block: Any) -> Any:
    return _block, (block.values, block.mgr_locs.indexer, block.ndim, block.refs)


def _block(values: Any, places: Any, ndim: int, refs: Any) -> Any:
    from pandas._libs.internals import BlockPlacement
    from pandas.core.internals.blocks import new_block

    return new_block(values, BlockPlacement(places), ndim=ndim, refs=refs)


def _reduce_index(_pickler: StatePickler, index: Any) -> Any:
    make, arguments, *_ = index.__reduce__()
    if type(index)._references is not None:  # computed when asked for: a RangeIndex
        return make, arguments
    refs = index._references
    if refs is None:
        return make, arguments
    return make, arguments, refs, None, None, _track


def _track(index: Any, refs: Any) -> None:
    index._references = refs
    refs.add_index_reference(index)
