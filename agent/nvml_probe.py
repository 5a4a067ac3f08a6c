"""Ask the NVIDIA driver for its GPUs, once, and print them as one line of JSON.

Runs as a process of its own: a sick driver can block a call in the kernel, or crash
the process that makes it, and neither may touch the agent.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def as_text(value: object) -> str:
    """Return what NVML gave as a name: text, whatever version and binding it came from."""
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            return ""
    text = str(value or "").split("\0")[0].strip()
    return text if text.isprintable() else ""


def probe() -> dict[str, Any]:
    """Return ``{"gpus": [...], "trouble": "", "driver": bool}``."""
    try:
        import pynvml
    except ImportError:
        return {"gpus": [], "trouble": "", "driver": False}
    error = pynvml.NVMLError
    try:
        pynvml.nvmlInit()
    except error as problem:
        code = problem.value
        if code in (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, pynvml.NVML_ERROR_DRIVER_NOT_LOADED):
            return {"gpus": [], "trouble": "", "driver": False}
        if code == pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
            text = (
                "The NVIDIA driver was updated but not loaded anew: its library and its kernel "
                "module differ in version. Reboot the host, or reload the nvidia modules."
            )
        else:
            text = f"The NVIDIA driver does not start: {problem}."
        return {"gpus": [], "trouble": text, "driver": True}
    gpus: list[dict[str, Any]] = []
    lost: list[str] = []
    for index in range(pynvml.nvmlDeviceGetCount()):
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            uuid = as_text(pynvml.nvmlDeviceGetUUID(handle))
            memory = int(pynvml.nvmlDeviceGetMemoryInfo(handle).total)
        except (error, UnicodeDecodeError) as problem:
            lost.append(f"GPU {index} does not answer: {problem}.")
            continue
        try:
            model = as_text(pynvml.nvmlDeviceGetName(handle))
        except (error, UnicodeDecodeError):  # the binding decodes by itself, and may fail to
            model = ""
        if uuid:
            gpus.append({"uuid": uuid, "model": model or "unknown model", "memory": memory})
        else:
            lost.append(f"GPU {index} tells no UUID, so it is not offered.")
    return {"gpus": gpus, "trouble": " ".join(lost), "driver": True}


if __name__ == "__main__":
    json.dump(probe(), sys.stdout)
