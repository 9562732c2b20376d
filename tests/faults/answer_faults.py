"""Faults of single requests: no connection, an unfounded refusal, an error after success, a delay."""

from __future__ import annotations

import asyncio

from tests.support.api_faults.fault import Answer, Cut, Dice, Fault, Request, refusal

_REFUSALS = (
    (429, "TooManyRequests", "the server has received too many requests"),
    (500, "InternalError", "etcdserver: leader changed"),
    (503, "ServiceUnavailable", "the server is currently unable to handle the request"),
    (504, "Timeout", "the server was unable to return a response in the time allotted"),
)


class Refused(Fault):
    """Requests are refused with 429, 500, 503 or 504; half of the refused ones were carried out (never with 429)."""

    def __init__(self, seed: int, share: float = 0.25) -> None:
        self._dice = Dice(seed)
        self._share = share

    async def before(self, request: Request) -> Request | Answer:
        """Refuse in the API server's place."""
        dice = self._dice.roll("before", request)
        if dice.random() >= self._share / 2:
            return request
        self.fired = True
        return _refusal(*dice.choice(_REFUSALS))

    async def after(self, request: Request, answer: Answer) -> Answer:
        """Refuse what was done."""
        dice = self._dice.roll("after", request)
        if dice.random() >= self._share / 2:
            return answer
        self.fired = True
        return _refusal(*dice.choice(_REFUSALS[1:]))


class Reset(Fault):
    """Connections break: before the request got through, or when it was carried out."""

    def __init__(self, seed: int, share: float = 0.25) -> None:
        self._dice = Dice(seed)
        self._share = share

    async def before(self, request: Request) -> Request | Answer:
        """Break before."""
        self._perhaps("before", request)
        return request

    async def after(self, request: Request, answer: Answer) -> Answer:
        """Break after."""
        self._perhaps("after", request)
        return answer

    def _perhaps(self, when: str, request: Request) -> None:
        if self._dice.roll(when, request).random() < self._share / 2:
            self.fired = True
            raise Cut


class Slow(Fault):
    """Requests or responses are delayed; concurrent requests arrive in any order."""

    def __init__(self, seed: int, longest_seconds: float = 0.5) -> None:
        self._dice = Dice(seed)
        self._longest_seconds = longest_seconds

    async def before(self, request: Request) -> Request | Answer:
        """Be slow on the way there."""
        await self._dawdle("before", request)
        return request

    async def after(self, request: Request, answer: Answer) -> Answer:
        """Be slow on the way back."""
        await self._dawdle("after", request)
        return answer

    async def _dawdle(self, when: str, request: Request) -> None:
        self.fired = True
        dice = self._dice.roll(when, request)
        if dice.random() < 0.5:
            await asyncio.sleep(dice.uniform(0, self._longest_seconds))


def _refusal(code: int, reason: str, message: str) -> Answer:
    headers = {"Retry-After": "1"} if code == 429 else {}
    return refusal(code, reason, message, **headers)
