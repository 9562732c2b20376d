/* The functions of NVML that the agent asks, for two GPUs in memory, so that the real pynvml is tested as it is called.
 * Signatures: https://docs.nvidia.com/deploy/nvml-api/. Tests set the variables below. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SUCCESS 0
#define INVALID_ARGUMENT 2
#define INSUFFICIENT_SIZE 7

char fail_function[64]; /* the name of a function that fails ... */
int fail_code;          /* ... with this */
int hang_milliseconds;  /* how long reading memory takes */
int device_count = 2;
int nvlink_status;      /* 0: the two GPUs are joined by NVLink */

#define FAIL_IF_TOLD \
    if (strcmp(fail_function, __func__) == 0) return fail_code;

typedef struct device { int index; } *device_t;
static struct device devices[2] = {{0}, {1}};
static const char *uuids[2] = {"GPU-11111111-0000-0000-0000-000000000000", "GPU-22222222-0000-0000-0000-000000000000"};

typedef struct { unsigned int version; unsigned long long total, reserved, free, used; } memory_t;
typedef struct { unsigned int gpu, memory; } utilization_t;
typedef struct { unsigned int pid; unsigned long long used; unsigned int gpu_instance, compute_instance; } process_t;
typedef struct {
    char bus_id_legacy[16];
    unsigned int domain, bus, device, pci_device_id, pci_subsystem_id;
    char bus_id[32];
} pci_t;

int nvmlInitWithFlags(unsigned int flags) { FAIL_IF_TOLD return SUCCESS; }
int nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(int code) { return code == 15 ? "GPU is lost" : "some error"; }

int nvmlDeviceGetCount_v2(unsigned int *count) { FAIL_IF_TOLD *count = device_count; return SUCCESS; }

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, device_t *device) {
    FAIL_IF_TOLD
    if (index >= 2) return INVALID_ARGUMENT;
    *device = &devices[index];
    return SUCCESS;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, device_t *device) {
    FAIL_IF_TOLD
    for (int i = 0; i < 2; i++)
        if (strcmp(uuid, uuids[i]) == 0) { *device = &devices[i]; return SUCCESS; }
    return INVALID_ARGUMENT;
}

int nvmlDeviceGetUUID(device_t device, char *text, unsigned int length) {
    FAIL_IF_TOLD
    snprintf(text, length, "%s", uuids[device->index]);
    return SUCCESS;
}

int nvmlDeviceGetName(device_t device, char *text, unsigned int length) {
    FAIL_IF_TOLD
    snprintf(text, length, "NVIDIA Test %d", device->index);
    return SUCCESS;
}

int nvmlDeviceGetMinorNumber(device_t device, unsigned int *minor) {
    FAIL_IF_TOLD
    *minor = 4 + device->index;
    return SUCCESS;
}

int nvmlDeviceGetPciInfo_v3(device_t device, pci_t *pci) {
    FAIL_IF_TOLD
    memset(pci, 0, sizeof *pci);
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", 0x3b + device->index);
    return SUCCESS;
}

int nvmlDeviceGetP2PStatus(device_t first, device_t second, int index, int *status) {
    FAIL_IF_TOLD
    *status = nvlink_status;
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo_v2(device_t device, memory_t *memory) {
    usleep(hang_milliseconds * 1000);
    FAIL_IF_TOLD
    if (memory->version != (sizeof(memory_t) | 2 << 24)) return 25; /* version mismatch */
    memory->total = 80ULL << 30;
    memory->reserved = 1ULL << 30;
    memory->used = 5ULL << 30;
    memory->free = memory->total - memory->reserved - memory->used;
    return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(device_t device, utilization_t *rates) {
    FAIL_IF_TOLD
    rates->gpu = 37;
    rates->memory = 12;
    return SUCCESS;
}

static int put(process_t *processes, unsigned int *count, const process_t *from, unsigned int number) {
    if (processes == NULL || *count < number) { *count = number; return number ? INSUFFICIENT_SIZE : SUCCESS; }
    memcpy(processes, from, number * sizeof *from);
    *count = number;
    return SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(device_t device, unsigned int *count, process_t *processes) {
    FAIL_IF_TOLD
    static const process_t found[] = {{100, 3ULL << 30, 0, 0}, {101, ~0ULL, 0, 0}};
    return put(processes, count, found, 2);
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(device_t device, unsigned int *count, process_t *processes) {
    FAIL_IF_TOLD
    static const process_t found[] = {{100, 3ULL << 30, 0, 0}, {102, 1ULL << 20, 0, 0}};
    return put(processes, count, found, 2);
}
