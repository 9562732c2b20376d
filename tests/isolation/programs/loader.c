/* Loads the driver by dlopen and finds cuMemAlloc without dlsym: it reads the object's symbol table itself. Prints how often it got 20 MiB. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <string.h>

#include "attempt.h"

static void *read_symbol(struct link_map *map, const char *name)
{
    const char *strings = NULL;
    const Elf64_Sym *symbols = NULL;
    for (const Elf64_Dyn *entry = map->l_ld; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_STRTAB)
            strings = (const char *)entry->d_un.d_ptr;
        if (entry->d_tag == DT_SYMTAB)
            symbols = (const Elf64_Sym *)entry->d_un.d_ptr;
    }
    /* The string table follows the symbols. */
    for (const Elf64_Sym *symbol = symbols; (const char *)symbol < strings; symbol++)
        if (strcmp(strings + symbol->st_name, name) == 0 && symbol->st_value != 0)
            return (void *)(map->l_addr + symbol->st_value);
    return NULL;
}

int main(void)
{
    use_first_device();
    struct link_map *map = dlopen("libcuda.so.1", RTLD_NOW);
    printf("%d\n", allocate_times((allocate_function)read_symbol(map, "cuMemAlloc_v2"), 10, 20 << 20));
    fflush(stdout);
    while (getchar() != EOF)
        ;
    return 0;
}
