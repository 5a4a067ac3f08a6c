"""What the parts tell each other, as frozen values that validate themselves.

Every message on the wire is one of these, so JSON in and out is
``model_dump_json`` and ``model_validate_json``; an unknown field or a value out
of range is an error that names the field.

Amounts: memory and sizes in bytes, CPUs in cores, times as seconds since the
epoch (UTC) unless a field says otherwise.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from .lifecycle import MoveKind, State, Step, Wish
from .resources import Flavor, Gpu

Name = Annotated[str, Field(min_length=1, max_length=300)]


class Record(BaseModel):
    """Base of all records: immutable, and strict about what it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


# --- what a workspace is made of -------------------------------------------------


class Launch(Record):
    """How to start a workspace's server; made anew by the hub at each spawn."""

    command: list[str] = Field(min_length=1)
    #: Environment for the server. Holds the hub token: never logged, never captured.
    env: dict[str, str]
    #: The workspace's path at its one address, with both slashes: ``/user/alice/``.
    prefix: str = Field(pattern=r"^/.*/$")


class KernelHint(Record):
    """A kernel that a target should have warm before the state arrives."""

    kernel_id: str
    kernel_name: str
    #: The notebook folder, relative to the home; where the kernel starts.
    path: str = ""
    #: Top-level modules that the source's kernel has imported, to be imported beforehand.
    modules: list[str] = []


class VariablePlan(Record):
    """What becomes of one variable; ``kernel_state.plan()`` gives the same fields."""

    name: str
    kind: Literal["carried", "rebuilt", "refused"]
    bytes: int = Field(0, ge=0)
    reason: str = ""
    remedy: str = ""


class KernelPlan(Record):
    """What becomes of one kernel."""

    kernel_id: str
    kernel_name: str
    path: str = ""
    #: The notebook (or console) it belongs to, for people.
    title: str = ""
    busy: bool = False
    #: False for kernels that restart empty on the target (other languages).
    portable: bool = True
    reason: str = ""
    bytes: int = Field(0, ge=0)
    modules: list[str] = []
    #: Empty while the kernel is busy: a busy kernel cannot be asked.
    variables: list[VariablePlan] = []

    @property
    def hint(self) -> KernelHint:
        """What the target needs to know to have this kernel warm."""
        return KernelHint(
            kernel_id=self.kernel_id,
            kernel_name=self.kernel_name,
            path=self.path,
            modules=self.modules,
        )

    @property
    def losses(self) -> list[str]:
        """Sentences about what would not survive, empty if nothing is lost."""
        if not self.portable:
            return [f"{self.title or self.kernel_id}: {self.reason}"]
        return [
            f"{v.name}: {v.reason}" + (f" {v.remedy}" if v.remedy else "")
            for v in self.variables
            if v.kind == "refused"
        ]


class Plan(Record):
    """What a move of the whole workspace would carry, rebuild and lose."""

    kernels: list[KernelPlan] = []
    #: Terminals end with their host; their number, so that the person can be told.
    terminals: int = Field(0, ge=0)

    @property
    def busy(self) -> list[KernelPlan]:
        """The kernels that run a cell just now."""
        return [k for k in self.kernels if k.busy]

    @property
    def losses(self) -> list[str]:
        """Everything that would be lost, as sentences."""
        lost = [line for k in self.kernels for line in k.losses]
        if self.terminals:
            noun = "terminal" if self.terminals == 1 else "terminals"
            lost.append(f"{self.terminals} open {noun}: running programs end with the host.")
        return lost


class CaptureReport(Record):
    """What a capture holds; the sidecar that others read instead of unpickling."""

    capture: str
    bytes: int = Field(0, ge=0)
    kernels: list[KernelPlan] = []


class RestoreReport(Record):
    """What came back on the target."""

    kernels: list[KernelPlan] = []


# --- hosts and leases --------------------------------------------------------------


class LeasePhase(StrEnum):
    """What an agent sees of a lease."""

    starting = "starting"
    running = "running"
    frozen = "frozen"
    exited = "exited"


class LeaseRequest(Record):
    """Ask an agent to have a workspace's server on its host. Idempotent by ``lease``."""

    lease: Name
    workspace: Name
    #: Rises with each change of owner; an agent refuses one below what it has seen.
    epoch: int = Field(ge=0)
    flavor: Flavor
    #: UUIDs of the GPUs that the server may see.
    gpus: list[str] = []
    launch: Launch
    #: Kernels to start empty, with modules imported, before the state comes.
    warm: list[KernelHint] = []


class WarmRequest(Record):
    """Start these kernels empty, with their modules imported."""

    kernels: list[KernelHint]


class LeaseReport(Record):
    """A lease as its agent finds it."""

    lease: str
    workspace: str
    epoch: int
    phase: LeasePhase
    gpus: list[str] = []
    #: Where the Net Switch reaches the server: ``http://host:port``.
    url: str | None = None
    reason: str = ""


class HostReport(Record):
    """An agent's full account of its host; sent with each heartbeat."""

    host: Name
    url: str
    #: New whenever the agent's state is not a continuation of the former.
    boot: str
    #: Rises with each report of one boot; older ones are ignored.
    sequence: int = Field(ge=0)
    cpus: float = Field(gt=0)
    memory: int = Field(gt=0)
    gpus: list[Gpu] = []
    leases: list[LeaseReport] = []
    #: What keeps the host from taking new work, for people; empty if nothing does.
    trouble: str = ""
    runtime: str = "process"


class HeartbeatReply(Record):
    """The manager's answer: which leases the agent should not have."""

    #: Leases that the manager has given up for good: remove them.
    remove: list[str] = []


class Fetch(Record):
    """Ask a target's agent to pull a workspace from the host that has it."""

    workspace: Name
    #: Base URL of the source's agent.
    source: str
    #: The capture to pull, or None for the home alone (the pre-copy).
    capture: str | None = None
    #: False where source and target are one host, so the home is there already.
    home: bool = True


class FetchReport(Record):
    """What was sent."""

    home_bytes: int = 0
    home_files: int = 0
    home_deleted: int = 0
    capture_bytes: int = 0
    seconds: float = 0.0


# --- the Net Switch ------------------------------------------------------------------


class RouteMode(StrEnum):
    """What the Net Switch does with a workspace's traffic."""

    open = "open"
    parked = "parked"
    deflated = "deflated"
    closed = "closed"


class Route(Record):
    """Where one workspace's address leads now."""

    workspace: Name
    prefix: str = Field(pattern=r"^/.*/$")
    #: Rises with each change; a lower one is ignored.
    revision: int = Field(ge=0)
    mode: RouteMode
    backend: str | None = None
    #: Sent along to the server, which refuses any other: a reused port harms nobody.
    lease: str | None = None
    #: For people who meet a route that is not open.
    message: str = ""


# --- what the manager tells people ------------------------------------------------------


class StepReport(Record):
    """One step of a move, for the progress list."""

    step: Step
    began: float
    ended: float | None = None
    note: str = ""


class Question(Record):
    """What the person must decide before the move goes on; nothing was touched yet."""

    kind: Literal["busy", "loss"]
    text: str
    items: list[str] = []
    #: What may be answered.
    choices: list[str]


class MoveView(Record):
    """A move, as clients see it."""

    id: str
    workspace: str
    kind: MoveKind
    flavor: str | None = None
    #: queued, running, asking, done, failed, cancelled
    status: Literal["queued", "running", "asking", "done", "failed", "cancelled"]
    #: Place in the queue, from 1; None once admitted.
    place: int | None = None
    steps: list[StepReport] = []
    question: Question | None = None
    #: Why it waits, failed or was cancelled, for people.
    reason: str = ""
    created: float
    ended: float | None = None
    #: Seconds between the last answer on the source and the first on the target.
    pause_s: float | None = None
    plan: Plan | None = None


class WorkspaceView(Record):
    """A workspace, as clients see it."""

    id: str
    user: str
    name: str
    state: State
    wish: Wish
    flavor: str | None = None
    host: str | None = None
    gpus: list[Gpu] = []
    reason: str = ""
    prefix: str | None = None
    #: The newest move, ended or not.
    move: MoveView | None = None
    since: float


class FlavorView(Record):
    """A flavor and how many of it could start now."""

    flavor: Flavor
    free: int = Field(ge=0)
    total: int = Field(ge=0)


class HostView(Record):
    """A host, as clients see it."""

    name: str
    state: Literal["fresh", "suspect", "lost"]
    cpus: float
    memory: int
    gpus: list[Gpu]
    #: UUIDs of the GPUs that are taken.
    taken: list[str] = []
    workspaces: list[str] = []
    trouble: str = ""
    last_seen: float
    runtime: str = "process"


class EventView(Record):
    """One line of a workspace's story."""

    id: int
    time: float
    workspace: str
    was: State
    now: State
    reason: str
    cause: str


# --- what people ask of the manager --------------------------------------------------------


class StartRequest(Record):
    """The spawner's wish: have this workspace running. Only the hub may send it."""

    flavor: Name
    launch: Launch


class SwitchRequest(Record):
    """Change a running workspace's hardware."""

    flavor: Name
    on_busy: Literal["ask", "wait", "interrupt"] = "ask"
    on_loss: Literal["ask", "accept"] = "ask"


class DeflateRequest(Record):
    """Free the hardware and keep everything warm."""

    on_busy: Literal["ask", "wait", "interrupt"] = "ask"
    on_loss: Literal["ask", "accept"] = "ask"


class InflateRequest(Record):
    """Take hardware up again; without a flavor, the one it had."""

    flavor: Name | None = None


class PlanRequest(Record):
    """Ask what a switch would carry and lose, without moving anything."""

    flavor: Name


class PlanAnswer(Record):
    """The plan of a switch that was not made."""

    flavor: Flavor
    #: Whether hardware is free for it now.
    free: bool
    plan: Plan


class AnswerRequest(Record):
    """Answer the question of the move in progress."""

    move: str
    choice: Name


class ErrorBody(Record):
    """The body of every answer that is not 2xx."""

    error: str
    message: str
    retry: bool = False
    details: dict[str, Any] = {}
