"""A JAX script that marks its iterations: trains a small MLP on scikit-learn's digits.

Laneway detects the iterations of PyTorch scripts. JAX has no hooks for that, so the script marks each
iteration with a `with` block around the work on the GPU. Without Laneway the block does nothing.

JAX returns before the GPU is done. `block_until_ready` inside the block keeps the iteration's work within its
turn.
"""

from __future__ import annotations

import argparse
import json
from contextlib import nullcontext

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.datasets import load_digits

try:
    from laneway.client import iteration
except ImportError:  # a container without Laneway
    iteration = nullcontext

Parameters = list[tuple[jax.Array, jax.Array]]


def build(sizes: list[int], key: jax.Array) -> Parameters:
    """Returns weights and biases of each layer."""
    keys = jax.random.split(key, len(sizes) - 1)
    pairs = zip(keys, sizes[:-1], sizes[1:], strict=True)
    return [(jax.random.normal(k, (n, m)) * (2 / n) ** 0.5, jnp.zeros(m)) for k, n, m in pairs]


def logits(parameters: Parameters, images: jax.Array) -> jax.Array:
    """Maps [batch, 64] to [batch, 10]."""
    *hidden, (weight, bias) = parameters
    for inner_weight, inner_bias in hidden:
        images = jax.nn.relu(images @ inner_weight + inner_bias)
    return images @ weight + bias


def loss_of(parameters: Parameters, images: jax.Array, labels: jax.Array) -> jax.Array:
    """Returns the mean cross entropy."""
    chances = jax.nn.log_softmax(logits(parameters, images))
    return -jnp.take_along_axis(chances, labels[:, None], axis=1).mean()


@jax.jit
def update(parameters: Parameters, images: jax.Array, labels: jax.Array) -> tuple[Parameters, jax.Array]:
    """Makes one step of gradient descent."""
    loss, gradients = jax.value_and_grad(loss_of)(parameters, images, labels)
    return jax.tree.map(lambda value, gradient: value - 0.1 * gradient, parameters, gradients), loss


def main() -> None:
    """Trains, and prints the accuracy on test images."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=256)
    arguments = parser.parse_args()

    digits = load_digits()
    random = np.random.default_rng(0)
    order = random.permutation(len(digits.target))
    images, labels = digits.data[order].astype(np.float32) / 16, digits.target[order].astype(np.int32)
    parameters = build([64, 128, 10], jax.random.key(0))

    for step in range(1, arguments.steps + 1):
        chosen = random.integers(
            1500, size=arguments.batch
        )  # prepared outside: another job may have the GPU meanwhile
        with iteration():
            parameters, loss = update(parameters, images[chosen], labels[chosen])
            loss.block_until_ready()
        if step % 50 == 0 or step == arguments.steps:
            print(f"step {step} loss {float(loss):.4f}", flush=True)

    with iteration():
        right = logits(parameters, images[1500:]).argmax(axis=1) == labels[1500:]
        reached = float(right.mean())
    print(
        json.dumps({"accuracy": round(reached, 4), "loss": float(loss), "steps": arguments.steps}), flush=True
    )


if __name__ == "__main__":
    main()
