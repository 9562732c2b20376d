#include "symbols.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "loaded_objects.h"
#include "text.h"

struct call {
    const char *name;
    void *replacement; /* NULL for calls that are only used */
};

#define REPLACED(result, name, parameters) {#name, (void *)name},
#define ONLY_USED(result, name, parameters) {#name, NULL},
static const struct call calls[DRIVER_CALL_COUNT] = {DRIVER_CALLS(REPLACED, ONLY_USED)};

enum { CUDA_DRIVER, NVML, LIBRARY_COUNT };
static const char *const sonames[LIBRARY_COUNT] = {"libcuda.so", "libnvidia-ml.so"};

static _Atomic(const void *) objects[LIBRARY_COUNT];
static _Atomic(void *) functions[DRIVER_CALL_COUNT];

static int library_of(const char *name)
{
    return begins_with(name, "nvml") ? NVML : CUDA_DRIVER;
}

void *driver_symbol(enum driver_call call)
{
    void *function = atomic_load(&functions[call]);
    if (function != NULL)
        return function;
    int library = library_of(calls[call].name);
    const void *object = atomic_load(&objects[library]);
    if (object == NULL) {
        object = object_named(sonames[library]);
        if (object == NULL)
            return NULL;
        atomic_store(&objects[library], object);
    }
    function = object_symbol(object, calls[call].name);
    atomic_store(&functions[call], function);
    return function;
}

/* The program's latest look-up counts: it may have unloaded the driver and loaded it elsewhere. */
static void use_object(int library, const void *object)
{
    if (atomic_exchange(&objects[library], object) == object)
        return;
    for (int call = 0; call < DRIVER_CALL_COUNT; call++)
        if (library_of(calls[call].name) == library)
            atomic_store(&functions[call], NULL);
}

static int call_named(const char *name)
{
    for (int call = 0; call < DRIVER_CALL_COUNT; call++)
        if (calls[call].replacement != NULL && is_same(calls[call].name, name))
            return call;
    return -1;
}

/* A function of libc, or of libdl before glibc 2.34. */
static void *libc_function(const char *name)
{
    void *function = startup_symbol("libc.so.6", name);
    return function != NULL ? function : startup_symbol("libdl.so.2", name);
}

#define LIBC(name)                                                                                                     \
    ({                                                                                                                 \
        static _Atomic(void *) cached;                                                                                 \
        void *function = atomic_load(&cached);                                                                         \
        if (function == NULL) {                                                                                        \
            function = libc_function(#name);                                                                           \
            atomic_store(&cached, function);                                                                           \
        }                                                                                                              \
        (__typeof__(&name)) function;                                                                                  \
    })

/* The start of the driver's object that holds `function`, also in another namespace of dlmopen; NULL if another object holds it. */
static const void *driver_object(int library, void *function)
{
    Dl_info info;
    __typeof__(&dladdr) real_dladdr = LIBC(dladdr);
    if (real_dladdr == NULL || real_dladdr(function, &info) == 0 || info.dli_fbase == NULL)
        return NULL;
    return object_has_soname(info.dli_fbase, sonames[library]) ? info.dli_fbase : NULL;
}

/* The program may have unloaded the driver, or loaded it elsewhere. */
static bool is_loaded(int library)
{
    const void *known = atomic_load(&objects[library]);
    if (known != NULL && object_is_loaded(known, sonames[library]))
        return true;
    const void *object = object_named(sonames[library]);
    if (object != NULL)
        use_object(library, object);
    return object != NULL;
}

/* True: `*result` is the answer to the program. False: the name is none of ours, or its object does not have it. */
static bool replace_result(int call, void *found, void **result)
{
    int library = library_of(calls[call].name);
    if (found == calls[call].replacement) {
        /* Ours was found in the global scope; without a driver the program must not find it. */
        *result = found;
        return is_loaded(library) && driver_symbol((enum driver_call)call) != NULL;
    }
    const void *object = driver_object(library, found);
    if (object != NULL)
        use_object(library, object);
    /* Another library's function of this name, for example a profiler's, is what the program asked for. */
    *result = object != NULL ? calls[call].replacement : found;
    return true;
}

/* Such calls must stay the last thing that the function does, so that the compiler jumps: dlsym reads from its return address which object
 * calls, for RTLD_NEXT and for namespaces. The tests check it. */
#if defined(__clang__)
#define JUMP __attribute__((musttail)) return
#else
#define JUMP return
#endif

/* Keeps a call a call: RTLD_NEXT is then what comes after this library. That fails, and sets what dlerror says. */
#define NO_JUMP __asm__ volatile("")

/* libc's own dlsym and dlvsym, which a program may ask for to get past another library's, would find the driver's functions. */
static void *own_lookup(const char *name, const void *found)
{
    if (found != NULL && is_same(name, "dlsym") && found == (void *)LIBC(dlsym))
        return (void *)dlsym;
    return found != NULL && is_same(name, "dlvsym") && found == (void *)LIBC(dlvsym) ? (void *)dlvsym : NULL;
}

/* RTLD_NEXT depends on who asks: a library between the program and this one may have functions of this name, which must stay in between. */
static void *unversioned_lookup(void *handle, const char *name)
{
    __typeof__(&dlsym) real = LIBC(dlsym);
    if (!is_same(name, "dlsym") && !is_same(name, "dlvsym"))
        return NULL;
    void *own = own_lookup(name, real(handle, name));
    return handle != RTLD_NEXT || real(RTLD_DEFAULT, name) == own ? own : NULL;
}

/* No such library has versions, so libc's is the next one with this version for all. */
static void *versioned_lookup(void *handle, const char *name, const char *version)
{
    __typeof__(&dlvsym) real = LIBC(dlvsym);
    if (!is_same(name, "dlsym") && !is_same(name, "dlvsym"))
        return NULL;
    return own_lookup(name, real(handle, name, version));
}

EXPORTED void *dlsym(void *handle, const char *name)
{
    __typeof__(&dlsym) real = LIBC(dlsym);
    void *lookup = name[0] == 'd' ? unversioned_lookup(handle, name) : NULL;
    if (lookup != NULL)
        return lookup;
    int call = name[0] == 'c' || name[0] == 'n' ? call_named(name) : -1;
    if (call < 0)
        JUMP real(handle, name);
    void *found = real(handle, name), *result = NULL;
    if (found == NULL || replace_result(call, found, &result))
        return found == NULL ? NULL : result;
    void *absent = real(RTLD_NEXT, name);
    NO_JUMP;
    return absent;
}

EXPORTED void *dlvsym(void *handle, const char *name, const char *version)
{
    __typeof__(&dlvsym) real = LIBC(dlvsym);
    void *lookup = name[0] == 'd' ? versioned_lookup(handle, name, version) : NULL;
    if (lookup != NULL)
        return lookup;
    int call = name[0] == 'c' || name[0] == 'n' ? call_named(name) : -1;
    if (call < 0)
        JUMP real(handle, name, version);
    void *found = real(handle, name, version), *result = NULL;
    if (found == NULL || replace_result(call, found, &result))
        return found == NULL ? NULL : result;
    void *absent = real(RTLD_NEXT, name, version);
    NO_JUMP;
    return absent;
}

/* The function that cuGetProcAddress chooses, for a driver that returns another address than its exported one. */
static int call_by_rule(const char *name, int version, uint64_t flags)
{
    char full[64];
    bool newer_signature = (is_same(name, "cuCtxSynchronize") && version >= 13000);
    if (strlen(name) > 40 || newer_signature)
        return -1;
    const char *stem = is_same(name, "cuGraphInstantiate") && version >= 12000 ? "cuGraphInstantiateWithFlags" : name;
    int first_of_second = is_same(name, "cuGetProcAddress") ? 12000 : 3020;
    for (int per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0; per_thread >= 0; per_thread--) {
        for (int second = version >= first_of_second; second >= 0; second--) {
            strcpy(full, stem);
            strcat(full, second ? "_v2" : "");
            strcat(full, per_thread ? "_ptsz" : "");
            int call = call_named(full);
            if (call >= 0)
                return call;
        }
    }
    return -1;
}

/* A later version of a call, which has another signature, is exported under its own name and stays as it is. */
static bool is_later_version(const char *name, const void *found)
{
    static const char *const suffixes[] = {"_v2", "_v2_ptsz", "_v3", "_v3_ptsz", "_v4", "_v4_ptsz"};
    const void *object = atomic_load(&objects[CUDA_DRIVER]);
    for (size_t i = 0; object != NULL && i < sizeof suffixes / sizeof *suffixes; i++) {
        char full[64] = "";
        strcpy(full, name);
        strcat(full, suffixes[i]);
        if (object_symbol(object, full) == found)
            return true;
    }
    return false;
}

void *interposed_function(const char *name, void *found, int version, uint64_t flags)
{
    for (int call = 0; call < DRIVER_CALL_COUNT; call++)
        if (calls[call].replacement != NULL && found == driver_symbol((enum driver_call)call))
            return calls[call].replacement;
    int call = call_by_rule(name, version, flags);
    if (call < 0 || is_later_version(name, found))
        return found;
    void *unknown = NULL;
    atomic_compare_exchange_strong(&functions[call], &unknown, found);
    return calls[call].replacement;
}

CUresult cuGetProcAddress(const char *name, void **function, int version, uint64_t flags)
{
    __typeof__(&cuGetProcAddress) real = REAL(cuGetProcAddress);
    if (real == NULL)
        return CUDA_ERROR_NOT_INITIALIZED;
    CUresult result = real(name, function, version, flags);
    if (result == CUDA_SUCCESS && name != NULL && function != NULL && *function != NULL)
        *function = interposed_function(name, *function, version, flags);
    return result;
}

CUresult cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status)
{
    __typeof__(&cuGetProcAddress_v2) real = REAL(cuGetProcAddress_v2);
    if (real == NULL)
        return CUDA_ERROR_NOT_INITIALIZED;
    CUresult result = real(name, function, version, flags, status);
    if (result == CUDA_SUCCESS && name != NULL && function != NULL && *function != NULL)
        *function = interposed_function(name, *function, version, flags);
    return result;
}
