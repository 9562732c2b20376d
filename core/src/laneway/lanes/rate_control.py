"""Keeps each tenant's share of a GPU's time across lanes: adaptive rate control after TGS (Wu et al., NSDI'23, section 4).

Lanes that run in parallel compete for one device, and the device knows no shares. TGS measures the rate of a protected job
and withholds kernels from the others until that rate is back. Here every tenant is protected up to its share. What is
measured is *progress*: iterations times the time that an iteration takes alone. What a tenant lacks of its share is its
*lag* (Stoica et al., RTSS'96, section 2).

- While no tenant lags, lanes run in parallel, and progress beyond the shares is unused time that goes to others.
- Once a tenant lags by more than a tolerance, all lanes take turns as one lane does, weighted by their shares. Then each
  tenant has the device alone for its share of the time, which also measures the time of an iteration alone.
- Lanes return to parallel when the lag is made up. If it never is, because running in parallel gains nothing, they try
  again after a time that is four times as long with each failure (exponential backoff).
- A try begins with an *overlap*: the next tenant runs one iteration beside the holder of the turn. Only if it is faster than
  on a full device, all lanes run in parallel. So on a full device a try costs the holder half an iteration of the other. If
  all lanes divided the device equally for as long, a large share would lose many times as much.
- A full device stays full until a tenant joins, leaves or changes its pace. Then trials begin again.
- Tenants that all have their shares in parallel may still do more in turns: those that need all of the device for a part of
  their time fall into step (:mod:`laneway.lanes.mode_comparison`). So if parallel lanes do less than a device that is never
  idle, turns are tried, and the lanes stay with what does more.

A tenant's reports cannot gain it more than its share. While lanes take turns, a tenant is charged with wall time, whatever it
reports. So a tenant that claims little progress has the device alone for its share of the time, which is what it is promised,
and the other tenants' lags do not depend on its reports. Reports that make one of the two seem to do more change nothing about
that: in turns each tenant has its share, and in parallel a lag ends the phase.

Nor does a tenant gain by yielding late, so that the others no longer wait for it. What it takes beside them is charged with
wall time too, is not forgiven, and keeps the lanes taking turns until the tenant is due for one again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from laneway.lanes.mode_comparison import ModeComparison
from laneway.lanes.overlap import Overlap, next_overlap
from laneway.lanes.tenant_use import TenantUse
from laneway.lanes.trial_backoff import TrialBackoff

_RATIO_SECONDS: Final = 5.0
"""The progress ratio is an average over about this time; later observations count more."""

_ROUNDING_SECONDS: Final = 1e-6
"""Of sums of progress and lost time: on a full device they differ by nothing else."""


@dataclass(frozen=True, slots=True)
class RateRules:
    """The parameters of rate control."""

    tolerance_seconds: float = 0.05
    """A tenant lags once it lacks the progress that its share yields in this time: 5 % of a second."""

    patience_seconds: float = 1.0
    """While a tenant makes up its lag, the others may lack as much; if more, they have to make it up, too."""

    forgiven_seconds: float = 10.0
    """The most lag that is made up later, as time of its share; a tenant that was held up by more loses the rest."""

    active_seconds: float = 1.0
    """A tenant counts as active for this long after it last wanted the GPU."""

    probe_seconds: float = 2.0
    """How long lanes take turns before running in parallel is tried again."""

    probe_backoff: float = 4.0
    """The factor by which that time grows with each trial that fails."""

    longest_probe_seconds: float = 240.0
    """The limit of that time."""

    pace_factor: float = 1.5
    """A tenant has changed its pace if an iteration takes this many times as long alone, or as short."""

    worthwhile_seconds: float = 0.5
    """A parallel phase that lasted this long was worth trying."""

    measure_again_seconds: float = 30.0
    """How long the time of an iteration alone stays valid."""

    measuring_fraction: float = 0.05
    """The most time, as a part, that measuring again may take."""

    compared_seconds: float = 4.0
    """How long turns and parallel lanes are measured, at least, before they are compared."""

    compared_iterations: int = 12
    """How many iterations each tenant has in that time, at least."""

    longest_comparison_seconds: float = 60.0
    """A trial of turns ends without a result after this time, because iterations are too long."""

    turns_gain_ratio: float = 0.03
    """Lanes stay with turns if these do more by this part; less is noise."""

    turns_loss_ratio: float = 0.2
    """They do not if a tenant then does less by more than this part: one that loads data between short iterations waits for the long
    ones of others each time."""


@dataclass(slots=True)
class _Account:
    """What is known of a tenant. Times are seconds on the device alone unless named otherwise."""

    use: TenantUse
    lag_seconds: float = 0.0
    share: float = 0.0
    active_until_seconds: float = 0.0
    alone_seconds: float | None = None
    """An iteration's time alone; None if unknown: then its charged time counts as progress."""

    pace_seconds: float | None = None
    """The same over iterations of :attr:`RateRules.probe_seconds`; None until it has had so many."""

    measured_at_seconds: float | None = None
    parallel_turns: int = 0
    """Its turns up to this number were not granted alone."""

    alone_since: TenantUse | None = None
    """Its use when it was first seen to have turns alone."""

    lag_at_start: float = 0.0
    """Its lag when the parallel phase began, or a smaller one since, in :attr:`lag_of_share` seconds."""

    had_to_catch_up: bool = False
    """It was why the lanes take turns."""

    overdrawn: bool = False
    """It yielded late, and has had no turn since."""

    overlap_charged_seconds: float = 0.0
    """What it was charged since the last overlap began, as long as that lasted."""

    overlap_progress_seconds: float = 0.0
    """What it did meanwhile."""

    progress_ratio: float | None = None
    ratio_seconds: float = 0.0
    """The time over which it is averaged."""

    @property
    def lag_of_share(self) -> float:
        """Return how long its share would take to yield what it lacks."""
        return self.lag_seconds / self.share if self.share else 0.0

    @property
    def allowed_lag(self) -> float:
        """Return the lag that the parallel phase has not caused. Just after an iteration began it is smaller by that iteration, so one
        that began with a lag may have as much again before the next one begins."""
        if self.lag_at_start <= 0.0 or not self.share:
            return 0.0
        return self.lag_at_start + (self.alone_seconds or 0.0) / self.share


@dataclass(slots=True)
class RateControl:
    """Decides for one GPU whether its lanes run in parallel or take turns. It reads no clock."""

    rules: RateRules = RateRules()
    serial: bool = False
    """Whether the lanes take turns."""

    contended: bool = False
    """Whether tenants of several lanes are active."""

    overlap: Overlap | None = None
    """While the lanes take turns: the tenant whose lane runs beside them."""

    overlap_due: bool = False
    """Whether an overlap is to begin as soon as a turn allows it, which may be short."""

    _accounts: dict[str, _Account] = field(default_factory=dict)
    _now_seconds: float = 0.0
    _since_seconds: float = 0.0
    """When the lanes began to run as they do."""

    _tried: bool = False
    """The parallel phase began without the lags being made up."""

    _gained_seconds: float = 0.0
    """Progress of all beyond their shares since lanes last began to run in parallel."""

    _noise_seconds: float = 0.0
    """That progress is known no better than this: in a short parallel phase, iterations that have just begun count."""

    _overlapped: str = ""
    """The tenant of the last overlap."""

    _gained_before_overlap: float = 0.0
    """The same when the overlap began: in it, iterations that have just begun count."""

    _measuring_until_known: bool = False
    _trying_turns: bool = False
    """The lanes take turns to find out whether they do more than in parallel."""

    _modes: ModeComparison = field(init=False)
    _trials: TrialBackoff = field(init=False)
    """Of running in parallel."""

    _trials_of_turns: TrialBackoff = field(init=False)
    _measure_again_seconds: float = 0.0

    def __post_init__(self) -> None:
        rules = self.rules
        self._trials, self._trials_of_turns = (
            TrialBackoff(
                rules.probe_seconds, rules.probe_backoff, rules.longest_probe_seconds, rules.pace_factor
            )
            for _ in range(2)
        )
        self._modes = ModeComparison(rules.compared_iterations, rules.compared_seconds)
        self._measure_again_seconds = self.rules.measure_again_seconds

    def observe(self, uses: Sequence[TenantUse], now_seconds: float) -> bool:
        """Account for the time since the last call and return whether the lanes take turns from now on.

        Call it several times a second while it is :attr:`contended`, and more often while an overlap runs or is due. Lags are forgotten if it was not called for
        ``active_seconds``.

        Args:
            uses: all tenants whose lanes may be serialised, and those that yield late; the others are forgotten.
            now_seconds: the current time.
        """
        self._account(uses, now_seconds)
        active = [account for account in self._accounts.values() if account.share and not account.use.late]
        self.overlap_due = False
        self.contended = len({account.use.lane for account in active}) > 1
        if not self.contended:
            self.overlap = None
            self._run_in_parallel(now_seconds, tried=False)
            return self.serial
        for trials in (self._trials, self._trials_of_turns):
            trials.restart_if_changed(_paces(active), now_seconds)
        mode = self.serial if self.overlap is None else None
        self._modes.observe([account.use for account in active], mode, now_seconds)
        if not self.serial:
            self._serialise_if_due(active, now_seconds)
        elif self.overlap is not None:
            self._end_overlap_if_due(self.overlap, active, now_seconds)
        elif self._all_measured(active, now_seconds):
            self._end_serial_if_due(active, now_seconds)
        return self.serial

    def is_overdrawn(self, key: str) -> bool:
        """Return whether a tenant yielded late, and has had no turn since."""
        account = self._accounts.get(key)
        return account is not None and account.overdrawn

    def first_services(self) -> Mapping[str, float]:
        """Return the service from which each tenant starts when lanes begin to take turns, so that FAIR goes on with its lag."""
        worst = max((a.lag_seconds / a.use.weight for a in self._accounts.values()), default=0.0)
        return {
            key: account.use.weight * max(0.0, worst) - account.lag_seconds
            for key, account in self._accounts.items()
        }

    def overcharged_seconds(self) -> tuple[str, float]:
        """Return the tenant of the last overlap, and what it was charged in it beyond its progress.

        Of two tenants on a full device, each has half. So a tenant that claims less gets no more back. The holder
        gets nothing back: that would be less than a turn, which it would have at once, before the others have theirs.
        """
        account = self._accounts.get(self._overlapped)
        if account is None:
            return self._overlapped, 0.0
        charged_seconds = account.overlap_charged_seconds
        return self._overlapped, min(charged_seconds - account.overlap_progress_seconds, charged_seconds / 2)

    def progress_ratios(self) -> Mapping[str, float]:
        """Return each active tenant's recent progress, as a part of its progress alone; tenants without a figure are left out."""
        return {
            key: min(1.0, account.progress_ratio)
            for key, account in self._accounts.items()
            if account.share and account.progress_ratio is not None
        }

    # Accounting

    def _account(self, uses: Sequence[TenantUse], now_seconds: float) -> None:
        elapsed_seconds, before_seconds = now_seconds - self._now_seconds, self._now_seconds
        observed = elapsed_seconds <= self.rules.active_seconds
        self._now_seconds = now_seconds
        accounts = self._accounts
        self._accounts = {}
        for use in uses:
            account = accounts.get(use.key)
            if account is None:
                alone = self.serial and use.turn_began_seconds is not None
                account = _Account(use, parallel_turns=use.turns - int(alone))
            elif not observed:
                account.use, account.lag_seconds, account.overdrawn = use, 0.0, False
            elif use.late:
                _overdraw(account, use)
            else:
                waited_seconds = _waited_seconds(use, now_seconds) - _waited_seconds(
                    account.use, before_seconds
                )
                self._advance(account, use, max(0.0, waited_seconds), elapsed_seconds)
            self._accounts[use.key] = account
            if use.inside or use.waiting_since_seconds is not None:
                account.active_until_seconds = now_seconds + self.rules.active_seconds
        self._set_shares(now_seconds)

    def _advance(
        self, account: _Account, use: TenantUse, waited_seconds: float, elapsed_seconds: float
    ) -> None:
        charged_seconds = max(0.0, use.charged_seconds - account.use.charged_seconds)
        wanted_seconds = min(elapsed_seconds, waited_seconds + charged_seconds)
        progress_seconds = self._progress_seconds(account, use, charged_seconds)
        lost_seconds = account.share * wanted_seconds - progress_seconds
        self._gained_seconds -= lost_seconds
        account.lag_seconds += lost_seconds
        limit_seconds = account.share * self.rules.forgiven_seconds
        account.lag_seconds = min(account.lag_seconds, limit_seconds)
        if self.overlap is not None:
            account.parallel_turns, account.alone_since = use.turns, None
            account.overlap_charged_seconds += charged_seconds
            account.overlap_progress_seconds += progress_seconds
        if self.serial and use.turns > account.parallel_turns:
            account.overdrawn = False
        if not self.serial and not account.overdrawn:
            ahead_seconds = (account.alone_seconds or 0.0) + account.share * self.rules.tolerance_seconds
            account.lag_seconds = max(account.lag_seconds, -ahead_seconds)
        _average_progress(account, use, wanted_seconds)
        account.use = use
        if self.serial:
            self._measure(account)
        account.lag_at_start = min(account.lag_at_start, account.lag_of_share)

    def _progress_seconds(self, account: _Account, use: TenantUse, charged_seconds: float) -> float:
        """Return what a tenant did since its last use, in seconds of the device alone."""
        alone_seconds = account.alone_seconds
        if alone_seconds is None or (self.serial and account.use.turns > account.parallel_turns):
            return charged_seconds
        iterations = use.iterations - account.use.iterations - account.use.inside
        if self.serial and use.turns > account.parallel_turns:
            began_seconds = use.turn_began_seconds
            since_seconds = charged_seconds if began_seconds is None else self._now_seconds - began_seconds
            return max(iterations * alone_seconds, min(charged_seconds, since_seconds))
        # The current iteration counts from its beginning, so that a long one is no lag.
        return max(0, iterations + use.inside) * alone_seconds

    def _measure(self, account: _Account) -> None:
        """Take the time of an iteration from turns that the tenant has alone."""
        use = account.use
        if use.turns <= account.parallel_turns:
            return
        since = account.alone_since
        if since is None:
            account.alone_since = use
            return
        iterations, busy_seconds = use.iterations - since.iterations, use.busy_seconds - since.busy_seconds
        if iterations > 0 and busy_seconds > 0.0:
            account.alone_seconds = busy_seconds / iterations
            account.measured_at_seconds = self._now_seconds
            if busy_seconds >= self.rules.probe_seconds:
                account.alone_since, account.pace_seconds = use, account.alone_seconds
        elif iterations < 0:
            account.alone_since = use  # another process reports now
        elif use.turns > since.turns + 1:
            account.measured_at_seconds = self._now_seconds  # it reports nothing: nothing can be measured

    def _set_shares(self, now_seconds: float) -> None:
        present = [a for a in self._accounts.values() if a.active_until_seconds > now_seconds]
        active = [account for account in present if not account.use.late]
        total = sum(account.use.weight for account in active)
        for account in self._accounts.values():
            account.share = 0.0
        for account in present:
            account.share = account.use.weight / (account.use.weight + total)
        for account in active:
            account.share = account.use.weight / total

    # Decisions

    def _needs_measurement(self, account: _Account, now_seconds: float) -> bool:
        at_seconds = account.measured_at_seconds
        return at_seconds is None or now_seconds >= at_seconds + self._measure_again_seconds

    def _all_measured(self, active: Iterable[_Account], now_seconds: float) -> bool:
        return not any(self._needs_measurement(account, now_seconds) for account in active)

    def _serialise_if_due(self, active: Sequence[_Account], now_seconds: float) -> None:
        unmeasured = [a for a in active if self._needs_measurement(a, now_seconds)]
        tolerance = self.rules.tolerance_seconds
        behind = [a for a in active if a.lag_of_share > a.allowed_lag + tolerance]
        if not unmeasured and not behind and not any(account.overdrawn for account in active):
            self._try_turns_if_due(active, now_seconds)
            return
        brief = now_seconds - self._since_seconds < self.rules.worthwhile_seconds
        self._noise_seconds = self.rules.tolerance_seconds if brief else 0.0
        if not unmeasured and self._tried:
            if brief:
                self._trials.fail(_paces(active))
            else:
                self._trials.succeed()
        self._measuring_until_known = bool(unmeasured)
        self._take_turns(unmeasured or behind, now_seconds)

    def _take_turns(self, first: Sequence[_Account], now_seconds: float) -> None:
        self.serial, self._since_seconds = True, now_seconds
        self._trials.schedule(now_seconds)
        for account in self._accounts.values():
            account.parallel_turns, account.alone_since = account.use.turns, None
            account.had_to_catch_up = any(account is each for each in first)

    def _try_turns_if_due(self, active: Sequence[_Account], now_seconds: float) -> None:
        """Let lanes take turns that have their shares in parallel, if that does more or was not tried for a while."""
        in_parallel = self._work(active, serial=False)
        if in_parallel is None or in_parallel * (1.0 + self.rules.turns_gain_ratio) >= 1.0:
            return
        if self._turns_do_more(active):
            self._trials.fail(_paces(active))
            self._take_turns((), now_seconds)
        elif now_seconds >= self._trials_of_turns.due_seconds:
            self._modes.forget(serial=True)
            self._trying_turns = True
            self._take_turns((), now_seconds)

    def _end_trial_of_turns(self, active: Sequence[_Account], now_seconds: float) -> None:
        lasted_seconds = now_seconds - self._since_seconds
        if self._work(active, serial=True) is None and lasted_seconds < self.rules.longest_comparison_seconds:
            return
        self._trying_turns = False
        if self._turns_do_more(active):
            self._trials_of_turns.succeed()
            self._trials.schedule(now_seconds)
        else:
            self._trials_of_turns.fail(_paces(active))
            self._trials_of_turns.schedule(now_seconds)
            self._run_in_parallel(now_seconds, tried=False)

    def _work(self, active: Sequence[_Account], *, serial: bool) -> float | None:
        return self._modes.work(serial, {account.use.key: account.alone_seconds for account in active})

    def _gain_of_turns(self, active: Sequence[_Account]) -> float | None:
        """Return by which part more is done in turns than in parallel; None if that is not known."""
        in_turns, in_parallel = self._work(active, serial=True), self._work(active, serial=False)
        return in_turns / in_parallel - 1.0 if in_turns and in_parallel else None

    def _turns_do_more(self, active: Sequence[_Account]) -> bool:
        gains = (self._gain_of_turns(active) or 0.0) > self.rules.turns_gain_ratio
        return gains and self._modes.least_ratio() >= 1.0 - self.rules.turns_loss_ratio

    def _end_serial_if_due(self, active: Sequence[_Account], now_seconds: float) -> None:
        if any(account.overdrawn for account in active):
            return
        lasted_seconds = now_seconds - self._since_seconds
        if self._measuring_until_known:
            self._measuring_until_known = False
            self._measure_again_seconds = max(
                self.rules.measure_again_seconds, lasted_seconds / self.rules.measuring_fraction
            )
            self._trials.due_seconds = now_seconds
            self._gained_seconds = 0.0  # without an iteration's time alone, progress was not known
            if self._gain_of_turns(active) is not None and not self._turns_do_more(active):
                self._run_in_parallel(now_seconds, tried=False)
                return
        if self._trying_turns:
            self._end_trial_of_turns(active, now_seconds)
            return
        gained = self._gained_seconds > self._noise_seconds + _ROUNDING_SECONDS and not self._turns_do_more(
            active
        )
        if gained and self._caught_up(active):
            self._run_in_parallel(now_seconds, tried=False)
        elif now_seconds >= self._trials.due_seconds:
            self._begin_overlap(active, now_seconds)

    def _begin_overlap(self, active: Sequence[_Account], now_seconds: float) -> None:
        """Begin an overlap. If none has been possible for a while, try all lanes at once."""
        late_seconds = now_seconds - self._trials.due_seconds
        is_late = late_seconds >= self.rules.probe_seconds
        alone_seconds = {account.use.key: account.alone_seconds for account in active}
        uses = [account.use for account in active]
        self.overlap = next_overlap(uses, alone_seconds, now_seconds, in_long_turn=not is_late)
        if self.overlap is not None:
            self._overlapped, self._gained_before_overlap = self.overlap.key, self._gained_seconds
            for account in self._accounts.values():
                account.parallel_turns, account.alone_since = account.use.turns, None
                account.overlap_charged_seconds = account.overlap_progress_seconds = 0.0
        elif late_seconds >= 2 * self._trials.interval_seconds:
            self._run_in_parallel(now_seconds, tried=True)
        else:
            self.overlap_due = True

    def _end_overlap_if_due(self, overlap: Overlap, active: Sequence[_Account], now_seconds: float) -> None:
        account = self._accounts.get(overlap.key)
        gains = overlap.gains(None if account is None else account.use, now_seconds)
        if gains is None:
            return
        self.overlap = None
        self._gained_seconds = self._gained_before_overlap
        if gains:
            self._run_in_parallel(now_seconds, tried=True)
        else:
            self._trials.fail(_paces(active))
            self._trials.schedule(now_seconds)

    def _caught_up(self, active: Iterable[_Account]) -> bool:
        return all(
            account.lag_of_share <= (0.0 if account.had_to_catch_up else self.rules.patience_seconds)
            for account in active
        )

    def _run_in_parallel(self, now_seconds: float, *, tried: bool) -> None:
        if not self.serial:
            return
        self.serial, self._tried, self._since_seconds = False, tried, now_seconds
        self._trying_turns, self._gained_seconds = False, 0.0
        if tried:
            self._modes.forget(serial=False)
            self._trials_of_turns.schedule(now_seconds)
        for account in self._accounts.values():
            account.lag_at_start = account.lag_of_share


def _overdraw(account: _Account, use: TenantUse) -> None:
    """Charge a tenant that yields late by the clock, beyond its share."""
    charged_seconds = max(0.0, use.charged_seconds - account.use.charged_seconds)
    account.lag_seconds -= (1.0 - account.share) * charged_seconds
    account.use, account.overdrawn = use, True
    account.parallel_turns, account.alone_since = use.turns, None


def _paces(active: Iterable[_Account]) -> dict[str, float | None]:
    return {account.use.key: account.pace_seconds for account in active}


def _waited_seconds(use: TenantUse, now_seconds: float) -> float:
    """Return how long a tenant has waited for turns so far."""
    since_seconds = use.waiting_since_seconds
    return use.waited_seconds + (0.0 if since_seconds is None else now_seconds - since_seconds)


def _average_progress(account: _Account, use: TenantUse, wanted_seconds: float) -> None:
    """Add an observation to the progress ratio; older ones fade within seconds."""
    if account.alone_seconds is None or wanted_seconds <= 0.0:
        return
    iterations = max(0, use.iterations - account.use.iterations)
    ratio = iterations * account.alone_seconds / wanted_seconds
    account.ratio_seconds = min(account.ratio_seconds + wanted_seconds, _RATIO_SECONDS)
    before = account.progress_ratio or 0.0
    account.progress_ratio = before + min(1.0, wanted_seconds / account.ratio_seconds) * (ratio - before)
