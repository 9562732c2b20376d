"""Access to PyTorch's internals that several packages need: storages and the compiler."""
