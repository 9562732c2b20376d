"""Makes an iteration fit: records what it saves for its backward pass, makes a plan, and follows it.

    observe ─▶ idle                                    (Auto: memory sufficed, so nothing more is done)
      └─▶ warm-up ─▶ learn ─▶ [warm-up ─▶ learn, with recomputed modules] ─▶ planned ─▶ (mismatch) learn …

- *observe* keeps everything while memory suffices, and otherwise offloads the oldest storages first. Only
  mode Auto does this.
- *warm-up* and *learn* offload everything. The first iteration is unlike the others: optimizers have no state
  yet, and host memory is used for the first time.
- *planned* follows the plan of a learned iteration. An iteration that matches none is a mismatch: what it
  saves from then on is offloaded, and the next iterations are learned.

The hooks are on autograd's stack during iterations only. An internal error disables all this, and the script
goes on.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Optional, Union

from laneway.client.fit.backoff import ExponentialBackoff
from laneway.client.fit.host_pool import PinnedHostPool, SimulatedHostPool
from laneway.client.fit.liveness_recorder import LivenessRecorder
from laneway.client.fit.module_profiler import ModuleProfiler
from laneway.client.fit.planner import Technique, plan
from laneway.client.fit.policies import FollowPlan, LearnedIteration, OffloadAll, OffloadUnderPressure
from laneway.client.fit.process_survey import COMPILED, survey_process
from laneway.client.fit.recompute import Recomputation
from laneway.client.fit.saved_activations import SavedActivations
from laneway.client.fit.saved_tensor_hooks import SavedTensorHooks
from laneway.client.torch_internals.compiled_code import has_compiled

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger("laneway.client")

OBSERVED_ITERATIONS: Final = 3
MARGIN_PERCENT: Final = 3
"""Part of the budget, for what the learned iterations did not show."""
LEARNED_AFTER_MISMATCH: Final = 4
"""Iterations of several kinds may alternate (two optimizers)."""
COOLDOWN_ITERATIONS: Final = 64
"""No iterations are learned for this long after that: with ever-changing input shapes, learning would be
wasted."""
MAX_LEARNED: Final = 8
MAX_CORRECTIONS: Final = 4
MAX_IGNORED_BYTES: Final = 1 << 20
MIN_OFFLOADED_BYTES: Final = 4096


class Mode(Enum):
    """`spec.memoryFit`."""

    AUTO = "Auto"
    OFFLOAD = "Offload"
    RECOMPUTE = "Recompute"
    OFF = "Off"

    @classmethod
    def read(cls, text: str) -> Mode:
        """Returns the mode with this name; Auto for any other text."""
        return next((mode for mode in cls if mode.value.lower() == text.strip().lower()), cls.AUTO)


class Stage(Enum):
    """The purpose of the next iteration."""

    IDLE = "idle"
    OBSERVE = "watch"
    WARM_UP = "warm"
    LEARN = "learn"
    PLANNED = "planned"


class MemoryFit:
    """One for each process. The thread that runs an iteration calls `begin` and `end` around it."""

    def __init__(
        self, torch: Any, mode: Mode, sample: Callable[[], tuple[int, int]], trace: Callable[[], None]
    ) -> None:
        """Starts idle.

        Args:
            torch: the module `torch`.
            mode: what may be done.
            sample: returns (device bytes held now, most held since the last sample).
            trace: called at the begin of iterations in which `sample` has to be exact at any moment.
        """
        self.stage = Stage.IDLE
        self.learned: list[LearnedIteration] = []
        self.recomputed: list[Any] = []
        """Modules that are recomputed."""
        self._torch = torch
        self.mode = mode
        self._sample = sample
        self._trace = trace
        self._budget_bytes = 0
        self._kind = ""
        self._activations: Optional[SavedActivations] = None
        self._hooks: Optional[SavedTensorHooks] = None
        self._policy: Union[OffloadAll, OffloadUnderPressure, FollowPlan, None] = None
        """The policy of the current iteration; None where nothing is done in it."""
        self._recorder: Optional[LivenessRecorder] = None
        self._recomputation: Optional[Recomputation] = None
        self._technique = {Mode.OFFLOAD: Technique.OFFLOAD, Mode.RECOMPUTE: Technique.RECOMPUTE}.get(
            mode, Technique.BOTH
        )
        self._modules_chosen = False
        self._observed = 0
        self._to_learn = 0
        self._cooldown = 0
        self._warned: set[str] = set()
        self._backoff = ExponentialBackoff()
        """For mode Auto, at iterations that save nothing or cannot be helped: a survey takes too long for
        each of them."""

    def set_budget(self, budget_bytes: int, kind: str) -> None:
        """Sets what the process may hold from the next iteration on; called in any thread.

        Args:
            budget_bytes: the limit, including persistent memory.
            kind: the device type: `cuda`, or `cpu` where the GPU is simulated.
        """
        if self.mode is Mode.OFF or (budget_bytes, kind) == (self._budget_bytes, self._kind):
            return
        self._budget_bytes, self._kind = budget_bytes, kind
        self.learned = []
        self._observed = 0
        self.stage = Stage.OBSERVE if self.mode is Mode.AUTO else Stage.WARM_UP

    @property
    def budget_bytes(self) -> int:
        """The limit for plans."""
        return self._budget_bytes * (100 - MARGIN_PERCENT) // 100

    @property
    def prefetched(self) -> int:
        """How many storages so far were on their way back when they were needed."""
        return 0 if self._activations is None else self._activations.prefetched

    @property
    def recompute_runs(self) -> int:
        """How often modules were recomputed so far, counting the modules recomputed now."""
        return 0 if self._recomputation is None else self._recomputation.runs

    def begin(self) -> None:
        """Begins an iteration."""
        if self.stage is Stage.IDLE or self._policy is not None or not self._torch.is_grad_enabled():
            return
        if self._kind == "cuda" and not self._torch.cuda.is_initialized():
            return
        if self.mode is Mode.AUTO and self.stage is not Stage.PLANNED and not self._backoff.is_due():
            return
        self._trace()
        activations, hooks = self._prepared()
        if self._survey(activations) and not hooks.push():
            self._warn_once("the script has its own hooks for saved tensors, which take precedence")
        elif hooks.active:
            self._policy = self._new_policy(activations)
            activations.start(self._policy, self._recorder)
            if self._recomputation is not None:
                self._recomputation.install()

    def end(self, memory: Optional[tuple[int, int]]) -> None:
        """Ends the iteration.

        Args:
            memory: (bytes held now, most held in it), where measured.
        """
        policy, recorder = self._policy, self._recorder
        if policy is None:
            return
        activations, hooks = self._prepared()
        self._close()
        if activations.saved_count:
            self._backoff.reset()
        if hooks.active and not hooks.pop():
            self._deactivate("the script's hooks for saved tensors surround an optimizer's step")
        elif activations.failed:
            self._deactivate("there was an internal error")
        elif not activations.saved_count:
            return  # nothing was saved: it was no training iteration
        elif isinstance(policy, OffloadUnderPressure):
            self._after_observing(policy)
        elif isinstance(policy, FollowPlan):
            self._after_planned(policy, memory)
        elif recorder is None:
            self.stage = Stage.LEARN
        else:
            self._after_learning(recorder)

    def disable(self) -> None:
        """Ends everything, in any state."""
        self.stage = Stage.IDLE
        self._close()
        if self._hooks is not None:
            self._hooks.pop()

    # --- internals ---

    def _prepared(self) -> tuple[SavedActivations, SavedTensorHooks]:
        activations, hooks = self._activations, self._hooks
        if activations is None or hooks is None or activations.kind != self._kind:
            host = PinnedHostPool(self._torch) if self._kind == "cuda" else SimulatedHostPool(self._torch)
            activations = self._activations = SavedActivations(self._torch, host, self._kind)
            hooks = self._hooks = SavedTensorHooks(self._torch, activations.pack, activations.unpack)
        return activations, hooks

    def _survey(self, activations: SavedActivations) -> bool:
        """Surveys the process where that was not done lately; returns False where it must be left alone."""
        if has_compiled():
            self._deactivate(COMPILED)
            return False
        if self.stage is Stage.PLANNED or (self.stage is Stage.OBSERVE and self._observed):
            return True
        found = survey_process(self._torch)
        activations.owned = found.owned
        activations.least_bytes = min(MAX_IGNORED_BYTES, max(MIN_OFFLOADED_BYTES, self._budget_bytes // 2000))
        if not found.may_recompute:
            self._technique = Technique.OFFLOAD
        if found.obstacle:
            self._deactivate(found.obstacle)
        return not found.obstacle

    def _new_policy(
        self, activations: SavedActivations
    ) -> Union[OffloadAll, OffloadUnderPressure, FollowPlan]:
        if self.stage is Stage.OBSERVE:
            return OffloadUnderPressure(activations, lambda: self._sample()[0], self._budget_bytes)
        if self.stage is Stage.PLANNED:
            self._allow_for_growth()
            return FollowPlan(self.learned)
        if self.stage is Stage.WARM_UP:
            activations.host.trim()
            return OffloadAll()
        recorder = self._recorder = LivenessRecorder(self._sample)
        if not self._modules_chosen and self._technique is not Technique.OFFLOAD:
            recorder.profiler = ModuleProfiler(self._torch, activations, recorder.sample)
        return OffloadAll()

    def _close(self) -> None:
        """Removes what is installed for an iteration, except the hooks on autograd's stack."""
        recorder, self._recorder, self._policy = self._recorder, None, None
        if recorder is not None and recorder.profiler is not None:
            recorder.profiler.close()
        if self._activations is not None:
            self._activations.stop()
        if self._recomputation is not None:
            self._recomputation.remove()

    def _after_observing(self, policy: OffloadUnderPressure) -> None:
        self._observed += 1
        if policy.has_offloaded:
            self.stage = Stage.WARM_UP
        elif self._observed >= OBSERVED_ITERATIONS:
            self.stage = Stage.IDLE

    def _after_learning(self, recorder: LivenessRecorder) -> None:
        liveness = recorder.finish()
        activations, _ = self._prepared()
        rates = activations.host.rates()
        if not self._modules_chosen:
            self._modules_chosen = True
            made = plan(liveness, self.budget_bytes, rates, self._technique)
            if made.recomputed and recorder.profiler is not None:
                modules = recorder.profiler.modules
                self.recomputed = [modules[index] for index in sorted(made.recomputed)]
                self._recomputation = Recomputation(self._torch, self.recomputed, activations)
                self.stage = Stage.WARM_UP  # the modules are compared, and then everything is learned again
                return
        made = plan(liveness, self.budget_bytes, rates, Technique.OFFLOAD)
        if made.peak_bytes > self.budget_bytes and self._recomputation is not None:
            self._recomputation = None
            self.recomputed = []
            self.learned = []
            return  # and learn again, without recomputing
        self._adopt(LearnedIteration(liveness, made, recorder.held_bytes))

    def _adopt(self, learned: LearnedIteration) -> None:
        liveness, made = learned.liveness, learned.plan
        sizes = [storage.size_bytes for storage in liveness.storages]
        self.learned = [k for k in self.learned if [s.size_bytes for s in k.liveness.storages] != sizes]
        self.learned = [learned, *self.learned][:MAX_LEARNED]
        self._to_learn -= 1
        if self._to_learn > 0:
            return
        self.stage = Stage.PLANNED
        self._prepared()[0].host.trim()
        if (
            self.mode is Mode.AUTO
            and self._recomputation is None
            and not any(k.plan.offloaded for k in self.learned)
        ):
            self.stage = Stage.IDLE
        log.info(
            "memory plan: %d of %d saved storages are offloaded, %d modules are recomputed; "
            "expected peak %d bytes, limit %d bytes",
            len(made.offloaded),
            len(sizes),
            len(self.recomputed),
            made.peak_bytes,
            self._budget_bytes,
        )

    def _after_planned(self, policy: FollowPlan, memory: Optional[tuple[int, int]]) -> None:
        self._cooldown -= 1
        if policy.is_mismatch:
            if self._cooldown <= 0:
                self.stage = Stage.LEARN
                self._to_learn = LEARNED_AFTER_MISMATCH
                self._cooldown = COOLDOWN_ITERATIONS
            return
        known = policy.followed
        if memory is None or known is None:
            return
        excess = memory[1] - self.budget_bytes
        if excess > 0 and known.corrections < MAX_CORRECTIONS:
            self._correct(known, excess)

    def _allow_for_growth(self) -> None:
        """Corrects plans for persistent memory that has grown since they were learned, such as an optimizer's
        state."""
        held_bytes = self._sample()[0]
        for known in list(self.learned):
            if held_bytes > known.held_bytes + self._budget_bytes // 200:
                self._correct(replace(known, held_bytes=held_bytes), held_bytes - known.held_bytes, known)

    def _correct(
        self, known: LearnedIteration, excess: int, before: Optional[LearnedIteration] = None
    ) -> None:
        """Makes a new plan for an iteration that needs more than it did when it was learned."""
        activations, _ = self._prepared()
        peaks = tuple(recent_peak + excess for recent_peak in known.liveness.peaks_bytes)
        liveness = replace(known.liveness, peaks_bytes=peaks)
        made = plan(liveness, self.budget_bytes, activations.host.rates(), Technique.OFFLOAD)
        corrected = LearnedIteration(liveness, made, known.held_bytes, known.corrections + 1)
        self.learned = [corrected if each is (before or known) else each for each in self.learned]

    def _deactivate(self, reason: str) -> None:
        self.stage = Stage.IDLE
        if self.mode is Mode.AUTO:
            log.info("memory is not reduced in this process: %s", reason)
        else:
            self._warn_once(f"memory is not reduced in this process: {reason}")

    def _warn_once(self, what: str) -> None:
        if what not in self._warned:
            self._warned.add(what)
            log.warning("spec.memoryFit: %s: %s", self.mode.value, what)
