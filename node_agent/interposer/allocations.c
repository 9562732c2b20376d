#include "allocations.h"

#include <string.h>
#include <sys/mman.h>

#include "critical_section.h"

/* Open addressing with linear probing, at most half full. Its memory is not malloc's: a program's own malloc may call CUDA. */
enum { FIRST_CAPACITY = 1024 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct allocation *slots; /* kind 0: empty */
static size_t capacity, used;
static uint64_t now = 1;

static size_t first_slot(int kind, uint64_t key, size_t size)
{
    uint64_t hash = (key ^ ((uint64_t)kind << 56)) * 0x9E3779B97F4A7C15u;
    return (size_t)(hash >> 32) & (size - 1);
}

static struct allocation *find(int kind, uint64_t key)
{
    if (capacity == 0)
        return NULL;
    for (size_t i = first_slot(kind, key, capacity); slots[i].kind != 0; i = (i + 1) & (capacity - 1))
        if (slots[i].kind == kind && slots[i].key == key)
            return &slots[i];
    return NULL;
}

static void insert(struct allocation *table, size_t size, const struct allocation *allocation)
{
    size_t i = first_slot(allocation->kind, allocation->key, size);
    while (table[i].kind != 0)
        i = (i + 1) & (size - 1);
    table[i] = *allocation;
}

static bool grow(void)
{
    size_t larger = capacity != 0 ? capacity * 2 : FIRST_CAPACITY;
    struct allocation *table =
        mmap(NULL, larger * sizeof *table, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (table == MAP_FAILED)
        return false;
    for (size_t i = 0; i < capacity; i++)
        if (slots[i].kind != 0)
            insert(table, larger, &slots[i]);
    if (slots != NULL)
        munmap(slots, capacity * sizeof *slots);
    slots = table;
    capacity = larger;
    return true;
}

/* Closes the gap, so that each entry stays reachable from its first slot. */
static void remove_slot(size_t gap)
{
    used--;
    for (size_t i = (gap + 1) & (capacity - 1); slots[i].kind != 0; i = (i + 1) & (capacity - 1)) {
        size_t distance = (i - first_slot(slots[i].kind, slots[i].key, capacity)) & (capacity - 1);
        if (distance >= ((i - gap) & (capacity - 1))) {
            slots[gap] = slots[i];
            gap = i;
        }
    }
    slots[gap].kind = 0;
}

uint64_t allocations_now(void)
{
    struct critical_section section = enter(&lock);
    uint64_t next = now;
    leave(&lock, section);
    return next;
}

bool allocations_add(const struct allocation *allocation, struct allocation *displaced)
{
    struct critical_section section = enter(&lock);
    struct allocation added = *allocation;
    if (added.time == 0)
        added.time = now++;
    struct allocation *other = find(added.kind, added.key);
    if (other != NULL) {
        bool newer = added.time > other->time;
        *displaced = newer ? *other : added;
        *other = newer ? added : *other;
    } else if (used < capacity / 2 || grow()) {
        insert(slots, capacity, &added);
        used++;
    }
    leave(&lock, section);
    return other != NULL;
}

bool allocations_take_older(int kind, uint64_t key, uint64_t than, struct allocation *taken)
{
    struct critical_section section = enter(&lock);
    struct allocation *found = find(kind, key);
    bool older = found != NULL && found->time < than;
    if (older) {
        *taken = *found;
        remove_slot((size_t)(found - slots));
    }
    leave(&lock, section);
    return older;
}

bool allocations_take(int kind, uint64_t key, struct allocation *taken)
{
    return allocations_take_older(kind, key, UINT64_MAX, taken);
}

void allocations_reference(uint64_t handle)
{
    struct critical_section section = enter(&lock);
    struct allocation *found = find(KIND_HANDLE, handle);
    if (found != NULL)
        found->references++;
    leave(&lock, section);
}

bool allocations_unreference(uint64_t handle, uint64_t older_than, struct allocation *taken)
{
    struct critical_section section = enter(&lock);
    struct allocation *found = find(KIND_HANDLE, handle);
    bool last = found != NULL && found->time < older_than && --found->references == 0;
    if (last) {
        *taken = *found;
        remove_slot((size_t)(found - slots));
    }
    leave(&lock, section);
    return last;
}

bool allocations_find(allocation_filter wanted, const void *argument, struct allocation *found)
{
    struct critical_section section = enter(&lock);
    size_t i = 0;
    while (i < capacity && (slots[i].kind == 0 || !wanted(&slots[i], argument)))
        i++;
    bool exists = i < capacity;
    if (exists)
        *found = slots[i];
    leave(&lock, section);
    return exists;
}

bool allocations_take_next(allocation_filter wanted, const void *argument, uint64_t older_than, size_t *cursor,
                           struct allocation *taken)
{
    struct critical_section section = enter(&lock);
    bool found = false;
    /* The cursor stays at a slot that was emptied: the entry that closed the gap is looked at next. */
    for (; *cursor < capacity && !found; *cursor += !found) {
        found = slots[*cursor].kind != 0 && slots[*cursor].time < older_than && wanted(&slots[*cursor], argument);
        if (found) {
            *taken = slots[*cursor];
            remove_slot(*cursor);
        }
    }
    leave(&lock, section);
    return found;
}

void allocations_reset_in_child(void)
{
    pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;
    memcpy(&lock, &unlocked, sizeof lock);
    if (slots != NULL)
        memset(slots, 0, capacity * sizeof *slots);
    used = 0;
}
