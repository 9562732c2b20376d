"""The operator: watches the cluster, decides in cycles, and is the only one that writes.

Data passes through here in one direction::

    handlers ─▶ cache ─▶ snapshot ─▶ laneway.scheduling.plan ─▶ lifecycle ─▶ engine ─▶ writer

``handlers`` put what kopf saw into the ``cache`` and wake the ``engine``. Each cycle of the engine freezes the cache,
lets ``lifecycle`` note what happened to each job's workers, asks ``laneway.scheduling`` who starts, makes way or waits, and
hands the difference to the ``writer``. Everything that a cycle must remember is in the cluster: an operator that is killed
at any moment finds its intents in TrainingJob.status and in the pods' labels.
"""
