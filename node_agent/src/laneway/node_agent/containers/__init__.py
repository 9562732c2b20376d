"""The folders of the containers that hold shares of a GPU, which the device plugin makes and removes."""
