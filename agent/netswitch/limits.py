"""Bounds on time, number and bytes, so that no peer can hold the Net Switch up or fill it."""

from __future__ import annotations

from dataclasses import dataclass

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


@dataclass(frozen=True)
class Limits:
    """Seconds, counts and bytes; the traits of ``NetSwitch`` say what each is for."""

    connect_s: float = 5.0
    handshake_s: float = 60.0
    drain_s: float = 10.0
    drain_safe_s: float = 2.0
    hold_s: float = 240.0
    max_held: int = 200
    max_waiting: int = 5000
    redial_s: float = 15.0
    close_s: float = 2.0
    max_message_bytes: int = GIB
    max_held_bytes: int = 8 * MIB
    cache_body_bytes: int = 256 * KIB
    cache_entries: int = 64
    keepalive_s: int = 20
    user_timeout_s: int = 60
    retry_after_s: int = 2
