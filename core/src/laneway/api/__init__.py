"""The contracts of Laneway as code: custom resources, files on a node, names and units.

Everything here is data and checks of data. Nothing here reads a file, a socket or a clock, and nothing here imports
another part of Laneway.
"""
