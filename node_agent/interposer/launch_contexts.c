#include "launch_contexts.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "critical_section.h"
#include "symbols.h"

enum { MOST_CONTEXTS = 256 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CUcontext contexts[MOST_CONTEXTS];
static int context_count;
static _Atomic(CUcontext) synchronizing; /* set with the lock, so that no context is chosen after it was forgotten */
static atomic_uint forgotten;            /* how often one was: an address may be another context's then */

static __thread CUcontext noted __attribute__((tls_model("initial-exec")));
static __thread unsigned int noted_at __attribute__((tls_model("initial-exec")));

static int find(CUcontext context)
{
    for (int i = 0; i < context_count; i++)
        if (contexts[i] == context)
            return i;
    return -1;
}

void launch_contexts_add(CUcontext context)
{
    struct critical_section section = enter(&lock);
    if (find(context) < 0 && context_count < MOST_CONTEXTS)
        contexts[context_count++] = context;
    leave(&lock, section);
}

void launch_contexts_note(void)
{
    __typeof__(&cuCtxGetCurrent) get_current = REAL(cuCtxGetCurrent);
    CUcontext context = NULL;
    unsigned int now = atomic_load_explicit(&forgotten, memory_order_acquire);
    if (get_current == NULL || get_current(&context) != CUDA_SUCCESS || context == NULL ||
        (context == noted && now == noted_at))
        return;
    launch_contexts_add(context);
    noted = context;
    noted_at = now;
}

void launch_contexts_forget(CUcontext context)
{
    struct critical_section section = enter(&lock);
    int found = find(context);
    if (found >= 0)
        contexts[found] = contexts[--context_count];
    atomic_fetch_add(&forgotten, 1);
    leave(&lock, section);
    while (context != NULL && atomic_load(&synchronizing) == context)
        sched_yield();
}

/* Chooses the context at a place of the table. */
static bool choose(int place)
{
    struct critical_section section = enter(&lock);
    bool found = place < context_count;
    atomic_store(&synchronizing, found ? contexts[place] : NULL);
    leave(&lock, section);
    return found;
}

void launch_contexts_synchronize(void)
{
    __typeof__(&cuCtxPushCurrent_v2) push = REAL(cuCtxPushCurrent_v2);
    __typeof__(&cuCtxPopCurrent_v2) pop = REAL(cuCtxPopCurrent_v2);
    __typeof__(&cuCtxSynchronize) synchronize = REAL(cuCtxSynchronize);
    if (push == NULL || pop == NULL || synchronize == NULL)
        return;
    for (int place = 0; choose(place); place++) {
        CUcontext context = atomic_load(&synchronizing);
        if (push(context) == CUDA_SUCCESS) {
            synchronize(); /* an error is the context's end: nothing of it runs any more */
            pop(&context);
        }
    }
}

void launch_contexts_reset_in_child(void)
{
    pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;
    memcpy(&lock, &unlocked, sizeof lock);
    context_count = 0;
    atomic_store(&synchronizing, NULL);
    atomic_fetch_add(&forgotten, 1);
}
