"""Observes the entry and exit of compiled code. The compiler drops hooks inside it, so nothing more can be
seen.

For each object that it compiles, `torch.compile` keeps a list of functions that are called on entry and
return a function to call on exit. Ours is appended to each list once the compiler is imported.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from laneway.client.torch_import import AfterImport

if TYPE_CHECKING:
    from collections.abc import Callable

COMPILER: Final = "torch._dynamo.eval_frame"
EXPORTER: Final = "torch.export._trace"
"""Traces without that compiler as well."""


def watch_compiled_code(enter: Callable[[], Callable[[], None]], on_use: Callable[[], None]) -> None:
    """Calls `enter` whenever compiled code is entered, and the function that it returns when that code is
    left in any way.

    `enter` has no effect in versions of PyTorch whose compiler has no such list.

    Args:
        enter: see above.
        on_use: called at least once before anything is compiled or traced; where that cannot be seen, when
            the compiler is imported.
    """

    def extend(compiler: Any) -> None:
        context = getattr(compiler, "_TorchDynamoContext", None)
        if not isinstance(context, type):
            on_use()
            return
        initialise = context.__init__  # type: ignore[misc]

        def initialise_and_append(self: Any, *args: Any, **kwargs: Any) -> None:
            initialise(self, *args, **kwargs)
            # Without a callback it marks code not to be compiled, such as parts of PyTorch's optimizers.
            if getattr(self, "callback", None):
                on_use()
            hooks = getattr(self, "enter_exit_hooks", None)
            if hooks is not None:
                hooks.append(enter)

        try:
            context.__init__ = initialise_and_append  # type: ignore[misc]
        except TypeError:  # the class cannot be changed
            on_use()

    for name, act in ((COMPILER, extend), (EXPORTER, lambda _: on_use())):
        if name in sys.modules:
            act(sys.modules[name])
        else:
            sys.meta_path.insert(0, AfterImport(name, act))


def has_compiled() -> bool:
    """Returns whether the script has used `torch.compile`, according to the compiler's record of its
    backends."""
    backends = getattr(sys.modules.get(COMPILER), "cached_backends", None) or {}
    return any(callable(backend) for backend in list(backends.values()))
