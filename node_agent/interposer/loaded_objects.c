#include "loaded_objects.h"

#include <link.h>
#include <stddef.h>
#include <stdint.h>

#include "text.h"

/* What a lookup needs of an object's dynamic section. */
struct image {
    ElfW(Addr) bias; /* address in memory - address in the file */
    const char *strings;
    const ElfW(Sym) * symbols;
    const uint32_t *gnu_hash;
    const uint32_t *sysv_hash; /* objects of old linkers have this one only */
    const char *soname;
};

static const void *relocated(ElfW(Addr) bias, ElfW(Addr) pointer)
{
    /* glibc adds the bias to the pointers of a dynamic section in place, unless the section is read-only. */
    return (const void *)(pointer < bias ? pointer + bias : pointer);
}

static bool read_dynamic(ElfW(Addr) bias, const ElfW(Dyn) * dynamic, struct image *image)
{
    *image = (struct image){.bias = bias};
    ElfW(Xword) soname = 0;
    for (; dynamic->d_tag != DT_NULL; dynamic++) {
        if (dynamic->d_tag == DT_STRTAB)
            image->strings = relocated(image->bias, dynamic->d_un.d_ptr);
        else if (dynamic->d_tag == DT_SYMTAB)
            image->symbols = relocated(image->bias, dynamic->d_un.d_ptr);
        else if (dynamic->d_tag == DT_GNU_HASH)
            image->gnu_hash = relocated(image->bias, dynamic->d_un.d_ptr);
        else if (dynamic->d_tag == DT_HASH)
            image->sysv_hash = relocated(image->bias, dynamic->d_un.d_ptr);
        else if (dynamic->d_tag == DT_SONAME)
            soname = dynamic->d_un.d_val;
    }
    if (image->strings == NULL || image->symbols == NULL)
        return false;
    image->soname = soname != 0 ? image->strings + soname : "";
    return true;
}

static bool read_image(const void *object, struct image *image)
{
    const ElfW(Ehdr) *header = object;
    const ElfW(Phdr) *segments = (const void *)((const char *)object + header->e_phoff);
    const ElfW(Dyn) *dynamic = NULL;
    ElfW(Addr) bias = 0;
    bool found_load = false;
    for (int i = 0; i < header->e_phnum; i++) {
        if (segments[i].p_type == PT_LOAD && !found_load) {
            found_load = true;
            bias = (ElfW(Addr))object - (segments[i].p_vaddr - segments[i].p_offset);
        }
    }
    for (int i = 0; i < header->e_phnum; i++)
        if (segments[i].p_type == PT_DYNAMIC)
            dynamic = (const void *)(bias + segments[i].p_vaddr);
    return found_load && dynamic != NULL && read_dynamic(bias, dynamic, image);
}

static const void *defined(const struct image *image, uint32_t index, const char *name)
{
    const ElfW(Sym) *symbol = &image->symbols[index];
    if (symbol->st_shndx == SHN_UNDEF || symbol->st_value == 0 || !is_same(image->strings + symbol->st_name, name))
        return NULL;
    return (const void *)(image->bias + symbol->st_value);
}

/* https://flapenguin.me/elf-dt-gnu-hash describes the layout; the Bloom filter only saves time, so it is skipped. */
static const void *find_by_gnu_hash(const struct image *image, const char *name)
{
    uint32_t hash = 5381;
    for (const unsigned char *c = (const void *)name; *c != 0; c++)
        hash = hash * 33 + *c;
    uint32_t bucket_count = image->gnu_hash[0], first = image->gnu_hash[1], bloom_words = image->gnu_hash[2];
    const uint32_t *buckets = (const void *)((const ElfW(Addr) *)(image->gnu_hash + 4) + bloom_words);
    const uint32_t *chain = buckets + bucket_count;
    uint32_t index = bucket_count != 0 ? buckets[hash % bucket_count] : 0;
    if (index < first)
        return NULL;
    for (;; index++) {
        uint32_t entry = chain[index - first];
        if ((entry | 1) == (hash | 1)) {
            const void *address = defined(image, index, name);
            if (address != NULL)
                return address;
        }
        if (entry & 1)
            return NULL;
    }
}

static const void *find_by_sysv_hash(const struct image *image, const char *name)
{
    uint32_t symbol_count = image->sysv_hash[1];
    for (uint32_t index = 1; index < symbol_count; index++) {
        const void *address = defined(image, index, name);
        if (address != NULL)
            return address;
    }
    return NULL;
}

static void *image_symbol(const struct image *image, const char *name)
{
    if (image->gnu_hash != NULL)
        return (void *)find_by_gnu_hash(image, name);
    return image->sysv_hash != NULL ? (void *)find_by_sysv_hash(image, name) : NULL;
}

void *object_symbol(const void *object, const char *name)
{
    struct image image;
    return read_image(object, &image) ? image_symbol(&image, name) : NULL;
}

/* The dynamic linker's own. Weak, or the library would need the linker by its name. */
extern __attribute__((weak, visibility("default"))) struct r_debug _r_debug;

void *startup_symbol(const char *soname, const char *name)
{
    struct image image;
    for (const struct link_map *object = &_r_debug != NULL ? _r_debug.r_map : NULL; object != NULL; object = object->l_next)
        if (object->l_ld != NULL && read_dynamic(object->l_addr, object->l_ld, &image) && is_same(image.soname, soname))
            return image_symbol(&image, name);
    return NULL;
}

bool object_has_soname(const void *object, const char *prefix)
{
    struct image image;
    return read_image(object, &image) && begins_with(image.soname, prefix);
}

struct search {
    const char *prefix;
    const void *wanted; /* NULL: any object of this name */
    const void *object;
};

static int matches(struct dl_phdr_info *info, size_t size, void *argument)
{
    (void)size;
    struct search *search = argument;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_LOAD)
            continue;
        const char *start = (const char *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr - info->dlpi_phdr[i].p_offset);
        /* A program's own image may begin without a header; a shared library's never does. */
        if ((search->wanted != NULL && start != search->wanted) || !begins_with(start, ELFMAG) ||
            !object_has_soname(start, search->prefix))
            return 0;
        search->object = start;
        return 1;
    }
    return 0;
}

bool object_is_loaded(const void *object, const char *soname_prefix)
{
    struct search search = {soname_prefix, object, NULL};
    dl_iterate_phdr(matches, &search);
    return search.object != NULL;
}

const void *object_named(const char *soname_prefix)
{
    struct search search = {soname_prefix, NULL, NULL};
    dl_iterate_phdr(matches, &search);
    return search.object;
}
