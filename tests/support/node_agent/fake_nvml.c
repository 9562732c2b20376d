/* The functions of NVML that the agent asks, for two GPUs in memory, so that the real pynvml is tested as it is called.
 * Signatures: https://docs.nvidia.com/deploy/nvml-api/. Tests set the variables below. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SUCCESS 0
#define INVALID_ARGUMENT 2
#define NOT_SUPPORTED 3
#define INSUFFICIENT_SIZE 7
#define TIMEOUT 10

char fail_function[64]; /* the name of a function that fails ... */
int fail_code;          /* ... with this */
int hang_milliseconds;  /* how long reading memory takes */
int device_count = 2;
int lost_device = -1;   /* a GPU that fell off the bus; -1: none */
int nvlink_status;      /* 0: the two GPUs are joined by NVLink */
int xid, xid_device;    /* an event that is yet to be told, and whose; 0: none */
int without_events = -1; /* a GPU that does not support them; -1: none */
int without_registration = -1; /* a GPU that cannot be registered for events now; -1: none */
int event_sets;         /* that were made and not freed */
int registered;         /* a bit for each GPU of the last event set */
int compute_processes = 2, mps_processes; /* how many there are; the memory of the second that computes is not told */
int compute_mode, mig_mode;
int compute_major = 9, compute_minor; /* compute capability */
int first_pid = 100, mps_pid = 103; /* of the first process that computes, which draws too, and of the client of MPS */
int uncorrected_errors, rows_pending, rows_failed, recovery_action;

/* A program of which no test is a part has them set by its environment. */
__attribute__((constructor)) static void read_environment(void) {
    struct { const char *name; int *value; } settings[] = {
        {"FAKE_NVML_COMPUTE_PROCESSES", &compute_processes}, {"FAKE_NVML_MPS_PROCESSES", &mps_processes},
        {"FAKE_NVML_COMPUTE_MODE", &compute_mode}, {"FAKE_NVML_FIRST_PID", &first_pid}, {"FAKE_NVML_MPS_PID", &mps_pid},
    };
    for (unsigned int i = 0; i < sizeof settings / sizeof *settings; i++)
        if (getenv(settings[i].name)) *settings[i].value = atoi(getenv(settings[i].name));
}

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

int nvmlSystemGetDriverVersion(char *text, unsigned int length) {
    FAIL_IF_TOLD
    const char *told = getenv("FAKE_NVML_DRIVER_VERSION");
    snprintf(text, length, "%s", told ? told : "570.86.15");
    return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned int *count) { FAIL_IF_TOLD *count = device_count; return SUCCESS; }

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, device_t *device) {
    FAIL_IF_TOLD
    if (index >= 2) return INVALID_ARGUMENT;
    if ((int)index == lost_device) return 15; /* GPU is lost */
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
    const process_t found[] = {{first_pid, 3ULL << 30, 0, 0}, {101, ~0ULL, 0, 0}};
    return put(processes, count, found, compute_processes);
}

int nvmlDeviceGetMPSComputeRunningProcesses_v3(device_t device, unsigned int *count, process_t *processes) {
    FAIL_IF_TOLD
    const process_t found[] = {{mps_pid, 2ULL << 30, 0, 0}};
    return put(processes, count, found, mps_processes);
}

int nvmlDeviceGetComputeMode(device_t device, int *mode) { FAIL_IF_TOLD *mode = compute_mode; return SUCCESS; }

int nvmlDeviceGetCudaComputeCapability(device_t device, int *major, int *minor) {
    FAIL_IF_TOLD
    *major = compute_major;
    *minor = compute_minor;
    return SUCCESS;
}

int nvmlDeviceGetMigMode(device_t device, unsigned int *current, unsigned int *pending) {
    FAIL_IF_TOLD
    *current = *pending = mig_mode;
    return SUCCESS;
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(device_t device, unsigned int *count, process_t *processes) {
    FAIL_IF_TOLD
    const process_t found[] = {{first_pid, 3ULL << 30, 0, 0}, {102, 1ULL << 20, 0, 0}};
    return put(processes, count, found, 2);
}

typedef struct { unsigned int pid; unsigned long long time; unsigned int sm, memory, encoder, decoder; } sample_t;

int nvmlDeviceGetProcessUtilization(device_t device, sample_t *samples, unsigned int *count, unsigned long long since) {
    FAIL_IF_TOLD
    const sample_t kept[] = {{100, 1000, 40, 0, 0, 0}, {100, 2000, 80, 0, 0, 0}, {101, 2000, 10, 0, 0, 0}};
    sample_t found[3];
    unsigned int number = 0;
    for (unsigned int i = 0; i < 3; i++)
        if (kept[i].time > since) found[number++] = kept[i];
    if (number == 0) return 6; /* not found */
    if (!samples || *count < number) { *count = number; return INSUFFICIENT_SIZE; }
    memcpy(samples, found, number * sizeof *found);
    *count = number;
    return SUCCESS;
}

static int event_set;
typedef struct {
    device_t device;
    unsigned long long type, data;
    unsigned int gpu_instance, compute_instance;
} event_t;

int nvmlEventSetCreate(void **set) { FAIL_IF_TOLD *set = &event_set; event_sets++; registered = 0; return SUCCESS; }
int nvmlEventSetFree(void *set) { FAIL_IF_TOLD event_sets--; return SUCCESS; }

int nvmlDeviceGetSupportedEventTypes(device_t device, unsigned long long *types) {
    FAIL_IF_TOLD
    *types = device->index == without_events ? 0x7 : 0x1f;
    return SUCCESS;
}

int nvmlDeviceRegisterEvents(device_t device, unsigned long long types, void *set) {
    FAIL_IF_TOLD
    if (device->index == without_registration) return 15; /* GPU is lost */
    if (types != 8) return INVALID_ARGUMENT;              /* XIDs only */
    registered |= 1 << device->index;
    return SUCCESS;
}

int nvmlEventSetWait_v2(void *set, event_t *event, unsigned int milliseconds) {
    FAIL_IF_TOLD
    for (unsigned int waited = 0; !(xid && registered & 1 << xid_device); waited++) {
        if (waited >= milliseconds) return TIMEOUT;
        usleep(1000);
    }
    *event = (event_t){&devices[xid_device], 8, xid, ~0u, ~0u};
    xid = 0;
    return SUCCESS;
}

int nvmlDeviceGetTotalEccErrors(device_t device, int type, int counter, unsigned long long *count) {
    FAIL_IF_TOLD
    if (type != 1 || counter != 0) return INVALID_ARGUMENT; /* uncorrected, volatile */
    *count = uncorrected_errors;
    return SUCCESS;
}

int nvmlDeviceGetRemappedRows(device_t device, unsigned int *corrected, unsigned int *uncorrected, unsigned int *pending,
                              unsigned int *failed) {
    FAIL_IF_TOLD
    *corrected = *uncorrected = 0;
    *pending = rows_pending;
    *failed = rows_failed;
    return SUCCESS;
}

int nvmlDeviceGetRetiredPagesPendingStatus(device_t device, int *pending) {
    FAIL_IF_TOLD
    *pending = 1;
    return SUCCESS;
}

typedef struct {
    unsigned int field, scope;
    long long timestamp, latency;
    unsigned int type, result;
    union { unsigned int number; unsigned long long wide; } value;
} field_t;

int nvmlDeviceGetFieldValues(device_t device, int count, field_t *values) {
    FAIL_IF_TOLD
    for (int i = 0; i < count; i++) {
        values[i].result = values[i].field == 230 && recovery_action >= 0 ? SUCCESS : NOT_SUPPORTED;
        values[i].value.number = recovery_action;
    }
    return SUCCESS;
}
