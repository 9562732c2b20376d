/* Devices and their memory. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fake_driver.h"

static struct device_file *files[MOST_DEVICES];
static char paths[MOST_DEVICES][4096];
static int count = -1;
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

void driver_lock(void)
{
    pthread_mutex_lock(&lock);
}

void driver_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

static int is_device(const struct dirent *entry)
{
    return strncmp(entry->d_name, "device", 6) == 0;
}

static void open_devices(void)
{
    struct dirent **entries;
    const char *folder = getenv("FAKE_CUDA_DEVICES");
    int found = folder != NULL ? scandir(folder, &entries, is_device, alphasort) : 0;
    count = 0;
    for (int i = 0; i < found && count < MOST_DEVICES; i++) {
        snprintf(paths[count], sizeof paths[count], "%s/%s", folder, entries[i]->d_name);
        int file = open(paths[count], O_RDWR | O_CLOEXEC);
        files[count] = mmap(NULL, sizeof **files, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        close(file);
        if (files[count] == MAP_FAILED)
            abort();
        count++;
    }
}

int device_count(void)
{
    driver_lock();
    if (count < 0)
        open_devices();
    driver_unlock();
    return count;
}

struct device_file *device_of(int device)
{
    return device >= 0 && device < device_count() ? files[device] : NULL;
}

/* A device's memory between processes: the kernel frees the lock of a process that dies. */
static int locked_file(int device)
{
    int file = open(paths[device], O_RDWR | O_CLOEXEC);
    if (file < 0 || flock(file, LOCK_EX) != 0)
        abort();
    return file;
}

bool take(int device, int64_t bytes)
{
    struct device_file *memory = device_of(device);
    int error_number = errno, file = locked_file(device), own = -1, unused = -1;
    uint64_t used = 0;
    for (int i = 0; i < MOST_PROCESSES; i++) {
        int64_t pid = memory->processes[i].pid;
        if (pid != 0 && pid != getpid() && kill((pid_t)pid, 0) != 0)
            memory->processes[i].pid = pid = 0; /* as a driver frees the memory of a dead process */
        if (pid == 0)
            unused = i;
        else
            used += memory->processes[i].bytes;
        if (pid == getpid())
            own = i;
    }
    bool fits = bytes < 0 || (uint64_t)bytes <= memory->total_bytes - used;
    if (fits && own < 0) {
        own = unused;
        memory->processes[own].pid = getpid();
        memory->processes[own].bytes = 0;
    }
    if (fits)
        memory->processes[own].bytes += (uint64_t)bytes;
    close(file);
    errno = error_number;
    return fits;
}

FAKE CUresult cuInit(unsigned int flags)
{
    (void)flags;
    return device_count() > 0 ? SUCCESS : 100;
}

FAKE CUresult cuDeviceGetCount(int *found)
{
    *found = device_count();
    return SUCCESS;
}

FAKE CUresult cuDeviceGet(int *device, int ordinal)
{
    *device = ordinal;
    return device_of(ordinal) != NULL ? SUCCESS : INVALID_DEVICE;
}

FAKE CUresult cuDeviceGetUuid(void *uuid, int device)
{
    if (device_of(device) == NULL)
        return INVALID_DEVICE;
    memcpy(uuid, device_of(device)->uuid, 16);
    return SUCCESS;
}

FAKE CUresult cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    if (device_of(device) == NULL)
        return INVALID_DEVICE;
    *bytes = device_of(device)->total_bytes;
    return SUCCESS;
}

static uint64_t used_on(const struct device_file *memory)
{
    uint64_t used = 0;
    for (int i = 0; i < MOST_PROCESSES; i++)
        if (memory->processes[i].pid != 0 && kill((pid_t)memory->processes[i].pid, 0) == 0)
            used += memory->processes[i].bytes;
    return used;
}

FAKE CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    if (current() == NULL)
        return INVALID_CONTEXT;
    struct device_file *memory = device_of(current()->device);
    *total = memory->total_bytes;
    *free_bytes = memory->total_bytes - used_on(memory);
    return SUCCESS;
}
