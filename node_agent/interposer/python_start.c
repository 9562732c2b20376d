/* Starts Laneway's Python client in any CPython from 3.8 on, whatever its flags and its environment.
 *
 * An audit hook (PEP 578) runs in the interpreter at each import. At the first one it puts a finder into sys.meta_path. The finder loads
 * the client when a script first looks for PyTorch, JAX or the client itself, and costs other scripts next to nothing.
 *
 * Interpreters export their C API, whether they are linked to libpython or have it in themselves. In any other program the weak
 * references below are NULL, and nothing happens. So it is with Python before 3.8, which has no audit hooks. */
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "agent_socket.h"
#include "text.h"

typedef struct python_object PyObject;
typedef int (*audit_hook)(const char *event, PyObject *arguments, void *data);

/* PyMemAllocatorEx */
struct allocator {
    void *context;
    void *(*malloc)(void *context, size_t size);
    void *(*calloc)(void *context, size_t count, size_t size);
    void *(*realloc)(void *context, void *memory, size_t size);
    void (*free)(void *context, void *memory);
};

enum { PYMEM_DOMAIN_RAW = 0, PY_FILE_INPUT = 257 };

#define PYTHON_API(result, name, parameters) extern __attribute__((weak, visibility("default"))) result name parameters;
PYTHON_API(int, PySys_AddAuditHook, (audit_hook hook, void *data))
PYTHON_API(int, Py_IsInitialized, (void))
PYTHON_API(PyObject *, PySys_GetObject, (const char *name))
PYTHON_API(PyObject *, PyRun_StringFlags, (const char *code, int start, PyObject *globals, PyObject *locals, void *flags))
PYTHON_API(PyObject *, PyDict_New, (void))
PYTHON_API(int, PyDict_SetItemString, (PyObject *dictionary, const char *key, PyObject *value))
PYTHON_API(PyObject *, PyUnicode_DecodeFSDefault, (const char *text))
PYTHON_API(void, PyErr_Clear, (void))
PYTHON_API(void, Py_DecRef, (PyObject *object))
PYTHON_API(void, PyMem_GetAllocator, (int domain, struct allocator *allocator))
PYTHON_API(void, PyMem_SetAllocator, (int domain, struct allocator *allocator))

#define FINDER "_laneway_finder" /* an attribute of sys, so each subinterpreter has its own */

/* Runs at each start of an interpreter, so it is short: compiling is most of its time. */
static const char bootstrap[] =
    "import sys\n"
    "class LanewayFinder:\n"
    "    def find_spec(self, name, path=None, target=None):\n"
    "        if name in ('torch', 'jax', 'jaxlib', 'laneway'):\n"
    "            exec(prepare, globals())\n"
    "            return find_spec(name, path, target)\n"
    "sys." FINDER " = LanewayFinder()\n"
    "sys.meta_path.insert(0, sys." FINDER ")\n";

static const char prepare[] =
    "def find_spec(name, path, target):\n"
    "    try:\n"
    "        import os\n"
    "        folder = os.path.dirname(library)\n"
    /* An update renames the links in the folder; modules imported later have to be of the version that has started. */
    "        version = os.path.dirname(os.path.realpath(os.path.join(folder, 'laneway')))\n"
    "        if folder not in sys.path and version not in sys.path:\n"
    "            sys.path.insert(1, version)\n"
    "        if name == 'laneway':\n"
    "            return None\n"
    "        from laneway.client.interposer_start import find_spec\n"
    "        return find_spec(name, path, target, run_folder)\n"
    "    except Exception as error:\n"
    "        print(f'laneway: the script runs without the client: {error!r}', file=sys.stderr)\n"
    "        return None\n";

static int names_own_object(struct dl_phdr_info *info, size_t size, void *argument)
{
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        uintptr_t start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        if (info->dlpi_phdr[i].p_type != PT_LOAD || (uintptr_t)bootstrap - start >= info->dlpi_phdr[i].p_memsz)
            continue;
        *(const char **)argument = info->dlpi_name;
        return 1;
    }
    return 0;
}

static void set_text(PyObject *dictionary, const char *key, const char *text)
{
    PyObject *value = PyUnicode_DecodeFSDefault(text);
    if (value == NULL)
        return;
    PyDict_SetItemString(dictionary, key, value);
    Py_DecRef(value);
}

/* Called with the interpreter's lock. Whatever fails leaves the script without the client. */
static void install_finder(void)
{
    const char *library = "";
    dl_iterate_phdr(names_own_object, &library);
    PyObject *globals = PyDict_New();
    if (globals != NULL) {
        set_text(globals, "prepare", prepare);
        set_text(globals, "library", library);
        set_text(globals, "run_folder", LANEWAY_DIRECTORY);
        PyObject *result = PyRun_StringFlags(bootstrap, PY_FILE_INPUT, globals, globals, NULL);
        if (result != NULL)
            Py_DecRef(result);
        Py_DecRef(globals);
    }
    PyErr_Clear();
}

/* The hook's entry in Python's list. Python allocates it before it knows which allocator it is to use (-X dev, PYTHONMALLOC), and frees it
 * with the one that it uses. So the entry is memory of this library, and no allocator of Python's sees it. */
static _Alignas(max_align_t) char entry[64];
static struct allocator python_allocator;

static void *give_entry(void *context, size_t size)
{
    (void)context;
    return size <= sizeof entry ? entry : NULL;
}

static void *give_zeroed_entry(void *context, size_t count, size_t size)
{
    return give_entry(context, count * size);
}

static void *python_malloc(void *context, size_t size)
{
    (void)context;
    return python_allocator.malloc(python_allocator.context, size);
}

static void *python_calloc(void *context, size_t count, size_t size)
{
    (void)context;
    return python_allocator.calloc(python_allocator.context, count, size);
}

static void *python_realloc(void *context, void *memory, size_t size)
{
    (void)context;
    return python_allocator.realloc(python_allocator.context, memory, size);
}

static void free_all_but_entry(void *context, void *memory)
{
    (void)context;
    if (memory == entry)
        PyMem_SetAllocator(PYMEM_DOMAIN_RAW, &python_allocator);
    else
        python_allocator.free(python_allocator.context, memory);
}

static int hook(const char *event, PyObject *arguments, void *data)
{
    (void)arguments;
    (void)data;
    if (is_same(event, "import")) {
        if (Py_IsInitialized() && PySys_GetObject(FINDER) == NULL)
            install_finder();
    } else if (is_same(event, "cpython._PySys_ClearAuditHooks")) {
        /* Python frees the entries right after this. */
        struct allocator until_entry_is_freed = {NULL, python_malloc, python_calloc, python_realloc, free_all_but_entry};
        PyMem_GetAllocator(PYMEM_DOMAIN_RAW, &python_allocator);
        PyMem_SetAllocator(PYMEM_DOMAIN_RAW, &until_entry_is_freed);
    }
    return 0;
}

__attribute__((constructor)) static void add_hook(void)
{
    if (PySys_AddAuditHook == NULL)
        return;
    struct allocator normal, entry_only = {NULL, give_entry, give_zeroed_entry, NULL, NULL};
    PyMem_GetAllocator(PYMEM_DOMAIN_RAW, &normal);
    PyMem_SetAllocator(PYMEM_DOMAIN_RAW, &entry_only);
    PySys_AddAuditHook(hook, NULL);
    PyMem_SetAllocator(PYMEM_DOMAIN_RAW, &normal);
}
