"""The containers that hold shares of a GPU: the folders that the device plugin creates and removes."""
