#include "pools.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "account.h"
#include "critical_section.h"
#include "symbols.h"

enum { MOST_POOLS = 1024, ON_HOST = -1 };

struct pool {
    bool present, forgotten;
    CUmemoryPool handle; /* NULL: the memory of the device's graphs */
    CUdevice device;     /* or ON_HOST: its memory is no GPU's, and nothing is charged */
    CUuuid gpu;
    uint64_t live;    /* bytes of its allocations */
    uint64_t charged; /* in the account; never less than `live` */
    int queries;      /* calls of the driver under way with `handle`, which must not be destroyed meanwhile */
    int holders;      /* threads that work with the pool's number, which must not become another's meanwhile */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pool pools[MOST_POOLS];
static atomic_uint_fast64_t last; /* the highest number that any pool has had */
static atomic_bool slack; /* some pool is charged with more than its allocations */

static struct pool *find(CUmemoryPool handle, CUdevice device)
{
    for (uint64_t i = 0; i < atomic_load(&last); i++) {
        struct pool *pool = &pools[i];
        if (pool->present && !pool->forgotten && pool->handle == handle && (handle != NULL || pool->device == device))
            return pool;
    }
    return NULL;
}

static uint64_t number_of(const struct pool *wanted)
{
    struct critical_section section = enter(&lock);
    struct pool *pool = find(wanted->handle, wanted->device);
    for (uint64_t i = 0; pool == NULL && i < MOST_POOLS; i++) {
        if (!pools[i].present && pools[i].holders == 0) {
            pool = &pools[i];
            *pool = *wanted;
            if (i >= atomic_load(&last))
                atomic_store(&last, i + 1);
        }
    }
    leave(&lock, section);
    return pool != NULL ? (uint64_t)(pool - pools) + 1 : 0;
}

uint64_t pool_number(CUmemoryPool handle, const struct place *place)
{
    struct pool pool = {.present = true, .handle = handle, .device = place->device, .gpu = place->gpu};
    return number_of(&pool);
}

uint64_t host_pool_number(CUmemoryPool handle)
{
    struct pool pool = {.present = true, .handle = handle, .device = ON_HOST};
    return number_of(&pool);
}

/* Charges the pool with at least `target` bytes. They are claimed before the account is asked, so that two threads do not both count on the
 * same unused part. */
static bool charge(uint64_t number, uint64_t added_live, uint64_t target_when_settled)
{
    struct critical_section section = enter(&lock);
    struct pool *pool = &pools[number - 1];
    CUuuid gpu = pool->gpu;
    pool->live += added_live;
    uint64_t target = pool->live > target_when_settled ? pool->live : target_when_settled;
    uint64_t growth = target > pool->charged ? target - pool->charged : 0;
    pool->charged += growth;
    leave(&lock, section);
    if (growth == 0 || account_reserve(&gpu, growth))
        return true;
    section = enter(&lock);
    pool->live -= added_live;
    pool->charged -= growth < pool->charged ? growth : pool->charged;
    leave(&lock, section);
    return false;
}

bool pool_reserve(uint64_t number, uint64_t bytes)
{
    return charge(number, bytes, 0);
}

static bool has_handle(const struct pool *pool)
{
    return pool->present && !pool->forgotten;
}

static bool reserved_by_driver(const struct pool *pool, uint64_t *reserved)
{
    *reserved = 0;
    if (!has_handle(pool) || pool->device == ON_HOST)
        return true;
    if (pool->handle == NULL) {
        __typeof__(&cuDeviceGetGraphMemAttribute) real = REAL(cuDeviceGetGraphMemAttribute);
        return real != NULL && real(pool->device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, reserved) == CUDA_SUCCESS;
    }
    __typeof__(&cuMemPoolGetAttribute) real = REAL(cuMemPoolGetAttribute);
    return real != NULL && real(pool->handle, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, reserved) == CUDA_SUCCESS;
}

/* Ends what `holders` counts. The number of a pool that is no more, and has no allocation left, is free then. */
static void let_go(uint64_t number)
{
    struct critical_section section = enter(&lock);
    struct pool *pool = &pools[number - 1];
    CUuuid gpu = pool->gpu;
    uint64_t rest = 0;
    if (--pool->holders == 0 && pool->forgotten && pool->live == 0) {
        rest = pool->charged;
        *pool = (struct pool){.present = false};
    }
    leave(&lock, section);
    account_release(&gpu, rest);
}

/* Holds the number too. */
static struct pool begin_query(uint64_t number)
{
    struct critical_section section = enter(&lock);
    struct pool pool = pools[number - 1];
    pools[number - 1].queries += has_handle(&pool);
    pools[number - 1].holders++;
    leave(&lock, section);
    return pool;
}

static void end_query(uint64_t number, const struct pool *pool)
{
    struct critical_section section = enter(&lock);
    pools[number - 1].queries -= has_handle(pool);
    leave(&lock, section);
}

uint64_t pool_reserved(uint64_t number)
{
    struct pool pool = begin_query(number);
    uint64_t reserved;
    if (!reserved_by_driver(&pool, &reserved))
        reserved = 0;
    end_query(number, &pool);
    let_go(number);
    return reserved;
}

bool pool_settle(uint64_t number)
{
    struct pool pool = begin_query(number);
    uint64_t reserved;
    if (!reserved_by_driver(&pool, &reserved))
        reserved = 0;
    end_query(number, &pool);
    struct critical_section section = enter(&lock);
    struct pool *now = &pools[number - 1];
    uint64_t target = now->live > reserved ? now->live : reserved;
    uint64_t excess = now->charged > target ? now->charged - target : 0;
    now->charged -= excess;
    if (now->charged > now->live)
        atomic_store(&slack, true);
    leave(&lock, section);
    account_release(&pool.gpu, excess);
    bool granted = charge(number, 0, reserved);
    let_go(number);
    return granted;
}

void pool_release(uint64_t number, uint64_t bytes)
{
    struct critical_section section = enter(&lock);
    struct pool *pool = &pools[number - 1];
    pool->live -= bytes < pool->live ? bytes : pool->live;
    pool->holders++;
    leave(&lock, section);
    pool_settle(number);
    let_go(number);
}

static bool is_present(uint64_t number)
{
    struct critical_section section = enter(&lock);
    bool present = pools[number - 1].present;
    leave(&lock, section);
    return present;
}

void pools_settle(void)
{
    if (!atomic_load(&slack))
        return;
    check_for_fork();
    if (!atomic_exchange(&slack, false))
        return;
    for (uint64_t number = 1; number <= atomic_load(&last); number++)
        if (is_present(number))
            pool_settle(number); /* sets `slack` again where some is left */
}

static void trim(uint64_t number, bool always)
{
    struct pool pool = begin_query(number);
    bool wanted = has_handle(&pool) && pool.device != ON_HOST && (always || pool.charged > pool.live);
    __typeof__(&cuMemPoolTrimTo) trim_pool = REAL(cuMemPoolTrimTo);
    __typeof__(&cuDeviceGraphMemTrim) trim_graphs = REAL(cuDeviceGraphMemTrim);
    if (wanted && pool.handle != NULL && trim_pool != NULL)
        trim_pool(pool.handle, 0);
    else if (wanted && pool.handle == NULL && trim_graphs != NULL)
        trim_graphs(pool.device);
    end_query(number, &pool);
    if (wanted)
        pool_settle(number);
    let_go(number);
}

void pool_trim(uint64_t number)
{
    trim(number, true);
}

void pools_trim(void)
{
    for (uint64_t number = 1; number <= atomic_load(&last); number++)
        trim(number, false);
}

uint64_t pool_forget(CUmemoryPool handle)
{
    struct critical_section section = enter(&lock);
    struct pool *pool = find(handle, ON_HOST);
    if (pool != NULL) {
        pool->forgotten = true;
        pool->holders++;
    }
    int queries = pool != NULL ? pool->queries : 0;
    leave(&lock, section);
    while (queries > 0) {
        sched_yield();
        section = enter(&lock);
        queries = pool->queries;
        leave(&lock, section);
    }
    return pool != NULL ? (uint64_t)(pool - pools) + 1 : 0;
}

void pool_forgotten(uint64_t number, bool destroyed)
{
    if (number == 0)
        return;
    struct critical_section section = enter(&lock);
    pools[number - 1].forgotten = destroyed;
    leave(&lock, section);
    pool_settle(number);
    let_go(number);
}

/* A device's default pool is nothing that the program creates. */
static bool place_of_default_pool(CUmemoryPool handle, struct place *place)
{
    __typeof__(&cuDeviceGetDefaultMemPool) get_default = REAL(cuDeviceGetDefaultMemPool);
    __typeof__(&cuDeviceGetCount) get_count = REAL(cuDeviceGetCount);
    int count = 0;
    if (get_default == NULL || get_count == NULL || get_count(&count) != CUDA_SUCCESS)
        return false;
    for (CUdevice device = 0; device < count; device++) {
        CUmemoryPool of_device;
        if (get_default(&of_device, device) == CUDA_SUCCESS && of_device == handle)
            return place_of_device(device, place);
    }
    return false;
}

enum pool_memory memory_of_pool(CUmemoryPool handle, struct place *place)
{
    struct critical_section section = enter(&lock);
    struct pool *pool = find(handle, ON_HOST);
    bool known = pool != NULL;
    CUdevice device = known ? pool->device : ON_HOST;
    leave(&lock, section);
    if (known && device == ON_HOST)
        return POOL_ON_HOST;
    bool found = known ? place_of_device(device, place) : place_of_default_pool(handle, place);
    return found ? POOL_ON_DEVICE : POOL_UNKNOWN;
}

void pools_reset_in_child(void)
{
    pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;
    memcpy(&lock, &unlocked, sizeof lock);
    memset(pools, 0, sizeof pools);
    atomic_store(&last, 0);
    atomic_store(&slack, false);
}
