#include "graph_memory.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "critical_section.h"
#include "pools.h"

enum { FIRST_CAPACITY = 64 };

struct node {
    uint64_t owner; /* the executable graph; 0: destroyed */
    uint64_t address, bytes, pool, context;
    bool frees, live;
    uint64_t change; /* the number of the change that is under way; 0: none */
};

/* Its memory is not malloc's: a program's own malloc may call CUDA. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct node *nodes;
static size_t capacity;
static atomic_size_t count; /* read without the lock where it is mostly 0 */
static uint64_t last_change;

static bool grow(void)
{
    size_t larger = capacity != 0 ? capacity * 2 : FIRST_CAPACITY;
    struct node *table =
        mmap(NULL, larger * sizeof *table, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (table == MAP_FAILED)
        return false;
    if (nodes != NULL) {
        memcpy(table, nodes, capacity * sizeof *table);
        munmap(nodes, capacity * sizeof *nodes);
    }
    nodes = table;
    capacity = larger;
    return true;
}

static struct node *living(uint64_t address)
{
    for (size_t i = 0; i < count; i++)
        if (!nodes[i].frees && nodes[i].live && nodes[i].address == address)
            return &nodes[i];
    return NULL;
}

void graph_memory_add(CUgraphExec executable, const struct graph_node *added, uint64_t pool, CUcontext context)
{
    struct critical_section section = enter(&lock);
    /* The graph was instantiated before, and that memory lives: it is the same, because a node's address never changes. */
    struct node *same = added->frees ? NULL : living(added->address);
    bool adopted = same != NULL && same->owner == 0;
    if (adopted) {
        same->owner = (uintptr_t)executable;
    } else if (count < capacity || grow()) {
        nodes[count] = (struct node){.owner = (uintptr_t)executable, .address = added->address, .bytes = added->bytes};
        nodes[count].pool = pool;
        nodes[count].context = (uintptr_t)context;
        nodes[count].frees = added->frees;
        count++;
    }
    leave(&lock, section);
    if (adopted)
        pool_release(pool, added->bytes);
}

/* Whether the change concerns the node. */
static bool concerns(struct graph_change change, const struct node *node)
{
    if (change.kind == GRAPH_LAUNCH)
        return node->owner == change.subject && !node->live;
    if (change.kind == GRAPH_DESTROY)
        return node->owner == change.subject;
    return node->live && (change.kind == GRAPH_FREE ? node->address : node->context) == change.subject;
}

static void apply(struct graph_change change, struct node *node)
{
    if (change.kind == GRAPH_LAUNCH)
        node->live = !node->frees;
    else if (change.kind == GRAPH_FREE)
        node->live = false;
    else if (change.kind == GRAPH_DESTROY)
        node->owner = 0;
}

static void revert(struct graph_change change, struct node *node)
{
    if (change.kind == GRAPH_LAUNCH)
        node->live = false;
    else if (change.kind == GRAPH_FREE)
        node->live = true;
    else if (change.kind == GRAPH_DESTROY)
        node->owner = change.subject;
}

struct graph_change graph_memory_begin(enum graph_change_kind kind, uint64_t subject)
{
    struct graph_change change = {kind, 0, subject};
    if (count == 0 || subject == 0)
        return change;
    struct critical_section section = enter(&lock);
    for (size_t i = 0; i < count; i++) {
        if (concerns(change, &nodes[i])) {
            change.number = change.number != 0 ? change.number : ++last_change;
            nodes[i].change = change.number;
            apply(change, &nodes[i]);
        }
    }
    leave(&lock, section);
    return change;
}

/* What the nodes of a launched graph free that other graphs have allocated. It belongs to this change from then on. */
static void free_by_nodes(uint64_t number)
{
    for (size_t i = 0; i < count; i++) {
        struct node *freed = nodes[i].change == number && nodes[i].frees ? living(nodes[i].address) : NULL;
        if (freed != NULL) {
            freed->live = false;
            freed->change = number;
        }
    }
}

/* Takes out the next node of a change that holds nothing any more. */
static bool take_next(uint64_t number, struct node *taken)
{
    struct critical_section section = enter(&lock);
    bool found = false;
    for (size_t i = 0; i < count && !found; i += !found) {
        found = nodes[i].change == number && nodes[i].owner == 0 && !nodes[i].live;
        if (nodes[i].change == number)
            nodes[i].change = 0;
        if (found) {
            *taken = nodes[i];
            nodes[i] = nodes[--count];
        }
    }
    leave(&lock, section);
    return found;
}

/* A context that was current at the instantiation need not be the one that the memory belongs to. What the driver has reserved for the
 * device's graphs tells whether the memory is gone. */
static bool is_gone(uint64_t number)
{
    struct critical_section section = enter(&lock);
    uint64_t pool = 0, live = 0;
    for (size_t i = 0; i < count; i++)
        pool = nodes[i].change == number ? nodes[i].pool : pool;
    for (size_t i = 0; i < count; i++)
        live += nodes[i].live && nodes[i].pool == pool ? nodes[i].bytes : 0;
    leave(&lock, section);
    return pool != 0 && pool_reserved(pool) < live;
}

void graph_memory_end(struct graph_change change, bool done)
{
    if (change.number == 0)
        return;
    bool gone = change.kind == GRAPH_CONTEXT_END && done && is_gone(change.number);
    struct critical_section section = enter(&lock);
    if (change.kind == GRAPH_LAUNCH && done)
        free_by_nodes(change.number);
    for (size_t i = 0; i < count; i++) {
        if (nodes[i].change == change.number && !done)
            revert(change, &nodes[i]);
        else if (nodes[i].change == change.number && gone)
            nodes[i].live = false;
    }
    leave(&lock, section);
    struct node taken;
    while (take_next(change.number, &taken))
        if (!taken.frees)
            pool_release(taken.pool, taken.bytes);
}

void graph_memory_move(CUcontext from, CUcontext to)
{
    struct critical_section section = enter(&lock);
    for (size_t i = 0; i < count; i++)
        if (nodes[i].context == (uintptr_t)from)
            nodes[i].context = (uintptr_t)to;
    leave(&lock, section);
}

void graph_memory_reset_in_child(void)
{
    pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;
    memcpy(&lock, &unlocked, sizeof lock);
    count = 0;
}
