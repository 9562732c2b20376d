/* Locks that signals, cancellation and fork cannot break.
 *
 * Signals are blocked while a lock is held: a handler that calls CUDA or jumps out can neither deadlock nor leave the lock taken.
 * No lock is held across a call of the driver. Two of these locks are never held together. */
#pragma once

#include <pthread.h>
#include <stdint.h>

struct critical_section {
    uint64_t signal_mask;
    int error_number; /* a program's errno is as before */
};

struct critical_section enter(pthread_mutex_t *lock);
void leave(pthread_mutex_t *lock, struct critical_section section);

/* To be called before any state of the library is used. In a forked child it first drops what the parent held: CUDA memory is not
 * inherited, and the socket belongs to the parent. */
void check_for_fork(void);
