"""What hardware a host has: declared, or asked of a driver that may be sick in any way."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from devcluster.agent.hosts_file import parse_hosts
from devcluster.agent.inventory import Inventory
from devcluster.agent.nvml_probe import as_text
from devcluster.core.errors import BadRequest

GOOD = "hosts: {h: {cpus: 8, memory: 32Gi, gpus: [{model: V100, count: 2, memory: 16Gi}]}}"


def test_declared_gpus_have_stable_ids() -> None:
    host = parse_hosts(GOOD)["h"]
    gpus = host.declared_gpus("h")
    assert [gpu.uuid for gpu in gpus] == ["GPU-declared-h-0", "GPU-declared-h-1"]
    assert (gpus[0].model, gpus[0].memory, host.memory) == ("V100", 16 << 30, 32 << 30)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hosts: [", "line 1"),
        ("hosts:\n  a: {cpus: 1}\n b: 2", "line 3"),
        ("", "whole file"),
        ("hosts: {h: {cpus: 0, memory: 1Gi}}", "hosts.h.cpus"),
        ("hosts: {h: {cpus: 1, memory: lots}}", "hosts.h.memory.*no amount"),
        ("hosts: {h: {cpus: 1, memory: -5}}", "hosts.h.memory"),
        ("hosts: {h: {cpus: 1, memory: 1Gi, gpu: 1}}", "hosts.h.gpu:"),
        (GOOD.replace("count: 2", "count: -2"), "hosts.h.gpus.*count"),
        (GOOD.replace("model: V100, ", ""), "model"),
        ("- h", "whole file"),
    ],
)
def test_a_malformed_hosts_file_names_the_place_and_the_shape(text: str, words: str) -> None:
    with pytest.raises(BadRequest, match=words) as caught:
        parse_hosts(text)
    assert "gpus: [{model: V100" in caught.value.message


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("NVIDIA A100", "NVIDIA A100"),
        (b"NVIDIA A100", "NVIDIA A100"),
        (b"A100\0\0  ", "A100"),
        (" A100 ", "A100"),
        (b"\xf8\xff", ""),
        (None, ""),
        ("", ""),
        ("\x1b[31m", ""),
    ],
)
def test_b55_names_in_any_form_become_text(given: object, text: str) -> None:
    assert as_text(given) == text


# NVML as the binding of nvidia-ml-py loads it, with what a test asks for by macros.
FAKE_NVML = r"""
#include <string.h>
#include <unistd.h>
typedef struct { unsigned long long total, free, used; } memory_t;
int nvmlInitWithFlags(unsigned f) {
  if (HANG) pause();
  if (CRASH) *(volatile int*)0 = 1;
  return INIT; }
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = COUNT; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **h) {
  if (i == LOST) return 15;
  *h = (void *)(long)(i + 1); return 0; }
int nvmlDeviceGetUUID(void *h, char *s, unsigned n) {
  strcpy(s, "GPU-0"); s[4] += (long)h; return 0; }
int nvmlDeviceGetName(void *h, char *s, unsigned n) { strcpy(s, NAME); return 0; }
int nvmlDeviceGetMemoryInfo(void *h, memory_t *m) { m->total = 1ULL << 34; return 0; }
const char *nvmlErrorString(int code) { return "driver trouble"; }
"""


def fake_driver(folder: Path, **macros: object) -> list[str]:
    """Compile a fake NVML and return the command that probes it."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is needed to build a fake NVML library")
    values = {"INIT": 0, "COUNT": 2, "LOST": 99, "HANG": 0, "CRASH": 0, "NAME": '"A100"', **macros}
    source = folder / "nvml.c"
    source.write_text(FAKE_NVML)
    library = folder / "libnvidia-ml.so.1"
    subprocess.run(
        ["gcc", "-w", "-shared", "-fPIC", "-o", str(library), str(source)]
        + [f"-D{name}={value}" for name, value in values.items()],
        check=True,
    )
    probe = [sys.executable, "-m", "devcluster.agent.nvml_probe"]
    return ["env", f"LD_LIBRARY_PATH={folder}", *probe]


def asked(folder: Path, command: list[str], deadline_s: float = 60.0) -> Inventory:
    return Inventory("h", None, folder / "gpus.json", deadline_s, command)


async def test_gpus_are_found_through_the_real_binding(tmp_path: Path) -> None:
    one = asked(tmp_path, fake_driver(tmp_path))
    await one.refresh()
    assert [(g.uuid, g.model, g.memory) for g in one.gpus] == [
        ("GPU-1", "A100", 1 << 34),
        ("GPU-2", "A100", 1 << 34),
    ]
    assert (one.trouble, one.probes) == ("", True)


async def test_b57_a_lost_card_is_named_and_the_others_keep_their_ids(tmp_path: Path) -> None:
    await asked(tmp_path, fake_driver(tmp_path)).refresh()
    one = asked(tmp_path, fake_driver(tmp_path, LOST=0))
    await one.refresh()
    assert [gpu.uuid for gpu in one.gpus] == ["GPU-2"]
    assert "GPU 0 does not answer" in one.trouble
    assert "GPU-1 is no longer there" in one.trouble


async def test_b55_a_name_that_is_garbage_is_an_unknown_model(tmp_path: Path) -> None:
    one = asked(tmp_path, fake_driver(tmp_path, NAME=r'"\xf8\xff"'))
    await one.refresh()
    assert [gpu.model for gpu in one.gpus] == ["unknown model"] * 2


async def test_a_driver_of_another_version_is_explained(tmp_path: Path) -> None:
    one = asked(tmp_path, fake_driver(tmp_path, INIT=18))
    await one.refresh()
    assert one.gpus == []
    assert "Reboot the host" in one.trouble


async def test_b57_a_library_that_crashes_takes_nothing_along(tmp_path: Path) -> None:
    one = asked(tmp_path, fake_driver(tmp_path))
    await one.refresh()
    fake_driver(tmp_path, CRASH=1)
    await one.refresh()
    assert len(one.gpus) == 2
    assert "no new work" in one.trouble


async def test_no_driver_means_no_gpus_and_no_more_questions(tmp_path: Path) -> None:
    answer = json.dumps({"gpus": [], "trouble": "", "driver": False})
    one = asked(tmp_path, ["echo", answer])
    await one.refresh()
    assert (one.gpus, one.trouble, one.probes) == ([], "", False)


async def test_b52_a_driver_that_never_answers_blocks_nothing_and_is_asked_once(
    tmp_path: Path,
) -> None:
    ready = tmp_path / "asked"
    code = (
        "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        f"open({str(ready)!r}, 'a').write('!'); time.sleep(600)"
    )
    one = asked(tmp_path, [sys.executable, "-I", "-S", "-c", code], deadline_s=0.5)
    began = time.monotonic()
    await one.refresh()
    assert time.monotonic() - began < 10
    assert "has not answered since" in one.trouble
    stuck = one._stuck
    assert stuck is not None
    await asyncio.wait_for(stuck.wait(), 10)  # killed, where the kernel lets it
