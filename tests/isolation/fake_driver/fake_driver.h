/* A CUDA driver without a GPU: what its files share.
 *
 * Each file of the folder FAKE_CUDA_DEVICES is a device, in the order of their names; the files are made by the tests
 * (fake_devices.py). A file holds, for each process, the bytes that the device's memory holds for it. All processes of a
 * test share the file, as they would share a GPU. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int CUresult;
typedef unsigned long long CUdeviceptr;
typedef struct context *CUcontext;
typedef struct stream *CUstream;
typedef struct pool *CUmemoryPool;
typedef struct graph *CUgraph;
typedef struct node *CUgraphNode;
typedef struct executable *CUgraphExec;

#define FAKE __attribute__((visibility("default")))

enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201,
    NOT_FOUND = 500,
    NOT_SUPPORTED = 801,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALIDATED = 901,
};
enum { MOST_DEVICES = 8, MOST_PROCESSES = 1024, GRANULARITY = 2 << 20, PITCH = 512, MULTIPROCESSORS = 4, THREADS = 2048 };

struct device_file {
    unsigned char uuid[16];
    uint64_t total_bytes;
    struct {
        int64_t pid;
        uint64_t bytes;
    } processes[MOST_PROCESSES];
};

struct context {
    int device, references;
    bool primary, destroyed;
    struct context *green_of;  /* the primary context whose memory a green one uses */
    uint64_t limits[3]; /* bytes that cuCtxSetLimit has taken */
    struct context *next_unused;
    int64_t busy_until; /* CLOCK_MONOTONIC, ns: when all that was launched in it has run */
};

struct stream {
    struct context *context;
    struct graph *capturing;
    uint64_t captures; /* how many were begun: the number of the last one */
    bool invalidated;  /* the capture, by a call that may not be made meanwhile */
    int64_t busy_until;
};

/* Memory of the device, as a context, a handle or a pool holds it. */
struct block {
    struct block *next;
    uint64_t key, bytes;
    int device;
    struct context *context; /* NULL: freed with no context */
    bool of_graph;           /* memory of a graph's node, which stays the device's for graphs when it is freed */
    struct pool *pool;
    struct stream *stream;
    uint64_t required_bytes; /* of an array whose memory is to be mapped later */
};

int device_count(void);
struct device_file *device_of(int device);
/* Takes memory of a device, or gives it back (negative). False: the device is full. */
bool take(int device, int64_t bytes);
struct context *current(void);
struct context *owner_of_memory(struct context *context); /* a green context's memory is its primary one's */

/* To be called without the lock, after a call's work: see cuFakeBeforeReturn. */
void before_return(const char *call);

void driver_lock(void);
void driver_unlock(void);
uint64_t new_address(uint64_t bytes);
void remember(struct block block);
bool is_block(uint64_t key);
/* The same of memory that no graph's node has allocated. */
bool is_block_of_no_graph(uint64_t key);
/* The block out of the list, or NULL. */
struct block *forget(uint64_t key);
void forget_context(struct context *context);

/* Pools: what `block` held in its pool is unused now. */
void pool_unused(struct block *block);
void pools_synchronize(void);
/* An allocation in a stream that is being captured becomes a node of its graph. */
struct graph *captured_graph(struct stream *stream);
CUdeviceptr add_allocation_node(struct graph *graph, int type, int location, int device, uint64_t bytes);
/* Such a free becomes one, if it is of memory that a graph allocates. */
void add_free_node(struct graph *graph, CUdeviceptr address);
/* Graphs: `block` is freed; it has ended with its context, with the lock held. */
void graph_memory_unused(const struct block *block);
void graph_memory_ended(const struct block *block);

/* Kernels: runs one after those that were launched in the stream before, or makes a node of the stream's graph. */
CUresult run_kernel(struct stream *stream, uint64_t microseconds);
CUresult add_kernel_node(struct graph *graph, uint64_t microseconds);
void wait_until(int64_t nanoseconds);
