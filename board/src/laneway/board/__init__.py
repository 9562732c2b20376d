"""A read-only page of nodes, GPUs, lanes, turns, the queue and jobs.

``api_server`` is the only module that talks to the cluster, with the rights of the viewer. ``views`` turns API objects into the data
that the page shows; it is pure. ``feed`` watches for one viewer, and ``server`` pushes what the feed has seen to the page. ``page``
holds the page itself: HTML, CSS and ES modules without a build step.
"""
