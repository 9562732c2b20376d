"""Makes an iteration fit: learns what it keeps for its backward pass, plans, and follows the plan.

    watch ─▶ idle                            (Auto: the first iterations stay below the mark: nothing is done, nothing is in the way any more)
      └─▶ warm ─▶ learn ─▶ [warm ─▶ learn, with modules that compute again] ─▶ planned ─▶ (a surprise) learn …

- *watch* keeps everything, unless memory runs short: then the oldest leaves first. `Offload` and `Recompute` do without it.
- *warm* and *learn* move everything. The first iteration is not like the others: optimizers have no state yet, and host memory is fresh.
- *planned*: an iteration that is none of those known is a surprise: what it saves from there on leaves, and the next ones are learned.

The hooks are on autograd's stack inside iterations only. A fault of ours ends all this, and the script goes on.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Optional, Union

from laneway.client.compiled_code import has_compiled
from laneway.client.fit.custody import Custody
from laneway.client.fit.doubling import Doubling
from laneway.client.fit.ground import COMPILED, survey
from laneway.client.fit.hook_stack import HookStack
from laneway.client.fit.host import PinnedHost, SimulatedHost
from laneway.client.fit.module_watch import ModuleWatch
from laneway.client.fit.planner import Means, plan
from laneway.client.fit.policies import Everything, Known, Planned, UnderPressure
from laneway.client.fit.recompute import Recomputing
from laneway.client.fit.recorder import LivenessRecorder

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger("laneway.client")

WATCHED_ITERATIONS: Final = 3
MARGIN_PERCENT: Final = 3
"""Of the budget, for what the learned iterations did not show."""
LEARNED_AFTER_SURPRISE: Final = 4
"""Iterations of several kinds may follow one another in turn (two optimizers)."""
REST_ITERATIONS: Final = 64
"""So long nothing is learned anew after that: inputs of ever other shapes would be learned for nothing."""
MOST_KNOWN: Final = 8
MOST_CORRECTIONS: Final = 4
LARGEST_IGNORED_BYTES: Final = 1 << 20
SMALLEST_TAKEN_BYTES: Final = 4096


class Mode(Enum):
    """`spec.memory.fit`."""

    AUTO = "Auto"
    OFFLOAD = "Offload"
    RECOMPUTE = "Recompute"
    OFF = "Off"

    @classmethod
    def read(cls, text: str) -> Mode:
        """By its name; anything else is Auto."""
        return next((mode for mode in cls if mode.value.lower() == text.strip().lower()), cls.AUTO)


class Stage(Enum):
    """What the next iteration is for."""

    IDLE = "idle"
    WATCH = "watch"
    WARM = "warm"
    LEARN = "learn"
    PLANNED = "planned"


class Fit:
    """One a process. `begin` and `end` frame each iteration, in the thread that runs it."""

    def __init__(
        self, torch: Any, mode: Mode, look: Callable[[], tuple[int, int]], watch: Callable[[], None]
    ) -> None:
        """Does nothing yet.

        Args:
            torch: the module `torch`.
            mode: what may be done.
            look: (bytes of the device held now, the most held since the last look).
            watch: called at the begin of an iteration in which `look` has to be right at any moment.
        """
        self.stage = Stage.IDLE
        self.known: list[Known] = []
        self.recomputed: list[Any] = []
        """Modules that compute again."""
        self._torch = torch
        self.mode = mode
        self._look = look
        self._watch = watch
        self._budget_bytes = 0
        self._kind = ""
        self._custody: Optional[Custody] = None
        self._stack: Optional[HookStack] = None
        self._policy: Union[Everything, UnderPressure, Planned, None] = None
        """Of the iteration that goes on; None where nothing is done in it."""
        self._recorder: Optional[LivenessRecorder] = None
        self._recomputing: Optional[Recomputing] = None
        self._means = {Mode.OFFLOAD: Means.OFFLOAD, Mode.RECOMPUTE: Means.RECOMPUTE}.get(mode, Means.BOTH)
        self._modules_chosen = False
        self._watched = 0
        self._to_learn = 0
        self._rest = 0
        self._told: set[str] = set()
        self._looks = Doubling()
        """In mode Auto, at iterations that save nothing, or where nothing can be done: a survey takes longer than they may."""

    def limit(self, budget_bytes: int, kind: str) -> None:
        """What the process may hold from the next iteration on; called in any thread.

        Args:
            budget_bytes: persistent memory included.
            kind: the type of the devices whose memory it is: `cuda`, or `cpu` where the GPU is simulated.
        """
        if self.mode is Mode.OFF or (budget_bytes, kind) == (self._budget_bytes, self._kind):
            return
        self._budget_bytes, self._kind = budget_bytes, kind
        self.known = []
        self._watched = 0
        self.stage = Stage.WATCH if self.mode is Mode.AUTO else Stage.WARM

    @property
    def budget_bytes(self) -> int:
        """What plans keep within."""
        return self._budget_bytes * (100 - MARGIN_PERCENT) // 100

    @property
    def fetched_ahead(self) -> int:
        """How many storages were on their way back when they were needed, so far."""
        return 0 if self._custody is None else self._custody.fetched_ahead

    @property
    def computed_again(self) -> int:
        """How often a module was, so far; of the modules that are relied on now."""
        return 0 if self._recomputing is None else self._recomputing.runs

    def begin(self) -> None:
        """An iteration begins."""
        if self.stage is Stage.IDLE or self._policy is not None or not self._torch.is_grad_enabled():
            return
        if self._kind == "cuda" and not self._torch.cuda.is_initialized():
            return
        if self.mode is Mode.AUTO and self.stage is not Stage.PLANNED and not self._looks.is_due():
            return
        self._watch()
        custody, stack = self._prepared()
        if self._survey(custody) and not stack.put_on():
            self._say("the script has hooks of its own for saved tensors: they are left alone")
        elif stack.on:
            self._policy = self._new_policy(custody)
            custody.start(self._policy, self._recorder)
            if self._recomputing is not None:
                self._recomputing.put_in()

    def end(self, memory: Optional[tuple[int, int]]) -> None:
        """The iteration has ended.

        Args:
            memory: (bytes held now, the most held in it), where that was measured.
        """
        policy, recorder = self._policy, self._recorder
        if policy is None:
            return
        custody, stack = self._prepared()
        self._close()
        if custody.places:
            self._looks.begin_anew()
        if stack.on and not stack.take_off():
            self._stand_down("the script's hooks for saved tensors enclose an optimizer's step")
        elif custody.failed:
            self._stand_down("there was a fault")
        elif not custody.places:
            return  # nothing was saved: it was no iteration of training
        elif isinstance(policy, UnderPressure):
            self._after_watching(policy)
        elif isinstance(policy, Planned):
            self._after_planned(policy, memory)
        elif recorder is None:
            self.stage = Stage.LEARN
        else:
            self._after_learning(recorder)

    def abandon(self) -> None:
        """Ends everything, in whatever state it is."""
        self.stage = Stage.IDLE
        self._close()
        if self._stack is not None:
            self._stack.take_off()

    # --- within ---

    def _prepared(self) -> tuple[Custody, HookStack]:
        custody, stack = self._custody, self._stack
        if custody is None or stack is None or custody.kind != self._kind:
            host = PinnedHost(self._torch) if self._kind == "cuda" else SimulatedHost(self._torch)
            custody = self._custody = Custody(self._torch, host, self._kind)
            stack = self._stack = HookStack(self._torch, custody.pack, custody.unpack)
        return custody, stack

    def _survey(self, custody: Custody) -> bool:
        """Looks at the process where this was not done lately; False where it is to be left alone."""
        if has_compiled():
            self._stand_down(COMPILED)
            return False
        if self.stage is Stage.PLANNED or (self.stage is Stage.WATCH and self._watched):
            return True
        ground = survey(self._torch)
        custody.owned = ground.owned
        custody.least_bytes = min(
            LARGEST_IGNORED_BYTES, max(SMALLEST_TAKEN_BYTES, self._budget_bytes // 2000)
        )
        if not ground.may_recompute:
            self._means = Means.OFFLOAD
        if ground.obstacle:
            self._stand_down(ground.obstacle)
        return not ground.obstacle

    def _new_policy(self, custody: Custody) -> Union[Everything, UnderPressure, Planned]:
        if self.stage is Stage.WATCH:
            return UnderPressure(custody, lambda: self._look()[0], self._budget_bytes)
        if self.stage is Stage.PLANNED:
            self._allow_for_growth()
            return Planned(self.known)
        if self.stage is Stage.WARM:
            custody.host.trim()
            return Everything()
        recorder = self._recorder = LivenessRecorder(self._look)
        if not self._modules_chosen and self._means is not Means.OFFLOAD:
            recorder.watch = ModuleWatch(self._torch, custody, recorder.look)
        return Everything()

    def _close(self) -> None:
        """Takes out what an iteration has in, the hooks on the stack excepted."""
        recorder, self._recorder, self._policy = self._recorder, None, None
        if recorder is not None and recorder.watch is not None:
            recorder.watch.close()
        if self._custody is not None:
            self._custody.stop()
        if self._recomputing is not None:
            self._recomputing.take_out()

    def _after_watching(self, policy: UnderPressure) -> None:
        self._watched += 1
        if policy.pressed:
            self.stage = Stage.WARM
        elif self._watched >= WATCHED_ITERATIONS:
            self.stage = Stage.IDLE

    def _after_learning(self, recorder: LivenessRecorder) -> None:
        liveness = recorder.finish()
        custody, _ = self._prepared()
        rates = custody.host.rates()
        if not self._modules_chosen:
            self._modules_chosen = True
            made = plan(liveness, self.budget_bytes, rates, self._means)
            if made.recomputed and recorder.watch is not None:
                modules = recorder.watch.modules
                self.recomputed = [modules[index] for index in sorted(made.recomputed)]
                self._recomputing = Recomputing(self._torch, self.recomputed)
                self.stage = Stage.WARM  # they are tried, and then all is learned again
                return
        made = plan(liveness, self.budget_bytes, rates, Means.OFFLOAD)
        if made.peak_bytes > self.budget_bytes and self._recomputing is not None:
            self._recomputing = None
            self.recomputed = []
            self.known = []
            return  # and learns again, without
        self._take_up(Known(liveness, made, recorder.held_bytes))

    def _take_up(self, learned: Known) -> None:
        liveness, made = learned.liveness, learned.plan
        sizes = [storage.size_bytes for storage in liveness.storages]
        self.known = [k for k in self.known if [s.size_bytes for s in k.liveness.storages] != sizes]
        self.known = [learned, *self.known][:MOST_KNOWN]
        self._to_learn -= 1
        if self._to_learn > 0:
            return
        self.stage = Stage.PLANNED
        self._prepared()[0].host.trim()
        if self.mode is Mode.AUTO and self._recomputing is None and not any(k.plan.away for k in self.known):
            self.stage = Stage.IDLE
        log.info(
            "memory: %d of %d storages leave for the host in the backward pass, %d modules compute again; "
            "a peak of %d bytes is expected, %d are allowed",
            len(made.away),
            len(sizes),
            len(self.recomputed),
            made.peak_bytes,
            self._budget_bytes,
        )

    def _after_planned(self, policy: Planned, memory: Optional[tuple[int, int]]) -> None:
        self._rest -= 1
        if policy.surprised:
            if self._rest <= 0:
                self.stage = Stage.LEARN
                self._to_learn = LEARNED_AFTER_SURPRISE
                self._rest = REST_ITERATIONS
            return
        known = policy.followed
        if memory is None or known is None:
            return
        excess = memory[1] - self.budget_bytes
        if excess > 0 and known.corrections < MOST_CORRECTIONS:
            self._correct(known, excess)

    def _allow_for_growth(self) -> None:
        """What lasts over iterations may have become more since one was learned: an optimizer's state, say."""
        held_bytes = self._look()[0]
        for known in list(self.known):
            if held_bytes > known.held_bytes + self._budget_bytes // 200:
                self._correct(replace(known, held_bytes=held_bytes), held_bytes - known.held_bytes, known)

    def _correct(self, known: Known, excess: int, before: Optional[Known] = None) -> None:
        """It needs more than it did when it was learned."""
        custody, _ = self._prepared()
        crests = tuple(crest + excess for crest in known.liveness.crests_bytes)
        liveness = replace(known.liveness, crests_bytes=crests)
        made = plan(liveness, self.budget_bytes, custody.host.rates(), Means.OFFLOAD)
        corrected = Known(liveness, made, known.held_bytes, known.corrections + 1)
        self.known = [corrected if each is (before or known) else each for each in self.known]

    def _stand_down(self, reason: str) -> None:
        self.stage = Stage.IDLE
        if self.mode is Mode.AUTO:
            log.info("memory: this process is left alone: %s", reason)
        else:
            self._say(f"this process is left alone: {reason}")

    def _say(self, what: str) -> None:
        if what not in self._told:
            self._told.add(what)
            log.warning("spec.memory.fit: %s: %s", self.mode.value, what)
