/* libnvidia-ml.so.1 with the calls about memory, over the same device files. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fake_driver.h"

FAKE int nvmlInit_v2(void)
{
    return 0;
}

FAKE int nvmlDeviceGetHandleByIndex_v2(unsigned int index, struct device_file **device)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/device%u", getenv("FAKE_CUDA_DEVICES"), index);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 2;
    *device = mmap(NULL, sizeof **device, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    return *device != MAP_FAILED ? 0 : 999;
}

FAKE int nvmlDeviceGetUUID(struct device_file *device, char *text, unsigned int size)
{
    const unsigned char *u = device->uuid;
    int written = snprintf(text, size, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1], u[2],
                           u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
    return (unsigned int)written < size ? 0 : 7;
}

static unsigned long long used(struct device_file *device)
{
    unsigned long long sum = 0;
    for (int i = 0; i < MOST_PROCESSES; i++)
        if (device->processes[i].pid != 0 && kill((pid_t)device->processes[i].pid, 0) == 0)
            sum += device->processes[i].bytes;
    return sum;
}

struct memory {
    unsigned long long total, free, used;
};

struct memory_v2 {
    unsigned int version;
    unsigned long long total, reserved, free, used;
};

FAKE int nvmlDeviceGetMemoryInfo(struct device_file *device, struct memory *memory)
{
    *memory = (struct memory){device->total_bytes, device->total_bytes - used(device), used(device)};
    return 0;
}

FAKE int nvmlDeviceGetMemoryInfo_v2(struct device_file *device, struct memory_v2 *memory)
{
    memory->total = device->total_bytes + (64 << 20);
    memory->reserved = 64 << 20;
    memory->used = used(device);
    memory->free = device->total_bytes - memory->used;
    return 0;
}
