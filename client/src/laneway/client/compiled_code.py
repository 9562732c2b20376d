"""Sees compiled code entered and left, which is all that can be seen of it: within, the compiler leaves nothing of our hooks.

`torch.compile` keeps for each thing that it compiles a list of functions, called as its code is entered; what they return is called as it is left.
Ours is put at the end of each list from the moment on when the compiler is first imported.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from laneway.client.torch_import import AfterImport

if TYPE_CHECKING:
    from collections.abc import Callable

COMPILER: Final = "torch._dynamo.eval_frame"
EXPORTER: Final = "torch.export._trace"
"""Traces without that compiler, too."""


def watch_compiled_code(enter: Callable[[], Callable[[], None]], on_use: Callable[[], None]) -> None:
    """Has `enter` called whenever compiled code is entered, and what it returns when that code is left, in whatever way.

    Does nothing of that for a version of PyTorch whose compiler has no such list.

    Args:
        enter: see above.
        on_use: called before anything is compiled or traced, once or more often; where that cannot be seen, as the compiler is imported.
    """

    def extend(compiler: Any) -> None:
        context = getattr(compiler, "_TorchDynamoContext", None)
        if not isinstance(context, type):
            on_use()
            return
        initialise = context.__init__  # type: ignore[misc]

        def initialise_and_append(self: Any, *args: Any, **kwargs: Any) -> None:
            initialise(self, *args, **kwargs)
            # Without a function that compiles it marks what is not to be compiled: PyTorch's optimizers have some.
            if getattr(self, "callback", None):
                on_use()
            hooks = getattr(self, "enter_exit_hooks", None)
            if hooks is not None:
                hooks.append(enter)

        try:
            context.__init__ = initialise_and_append  # type: ignore[misc]
        except TypeError:  # a class that cannot be changed
            on_use()

    for name, act in ((COMPILER, extend), (EXPORTER, lambda _: on_use())):
        if name in sys.modules:
            act(sys.modules[name])
        else:
            sys.meta_path.insert(0, AfterImport(name, act))


def has_compiled() -> bool:
    """Whether the script has given anything to `torch.compile`, by the compiler's own record of what it compiles with."""
    backends = getattr(sys.modules.get(COMPILER), "cached_backends", None) or {}
    return any(callable(backend) for backend in list(backends.values()))
