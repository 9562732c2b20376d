"""The operator: watches the cluster, decides in cycles, and is the only part of Laneway that writes to it.

Data passes through the sub-packages in one direction::

    watch ─▶ state ─▶ lifecycle ─▶ cycle ─▶ execute

``watch`` puts what kopf and the raw streams saw into the cache of ``state``, which notes what has changed, and wakes the ``engine``. In
each cycle ``lifecycle`` reconciles the changed jobs, ``cycle`` asks ``laneway.scheduling`` who starts, yields or waits, and
``execute`` carries out the writes. All that must survive is in the cluster: an operator that is killed at any moment finds its
intents in TrainingJob.status and in the pods' labels.
"""
