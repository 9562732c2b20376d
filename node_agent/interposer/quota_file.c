#include "quota_file.h"

#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent_socket.h"
#include "gpus.h"

enum { MOST_OF_THE_FILE = 8192 };

/* The number that follows the uuid's text in a line. */
static uint64_t bytes_in(const char *line)
{
    uint64_t bytes = 0;
    while (*line != ' ' && *line != '\n' && *line != 0)
        line++;
    for (line += *line == ' '; *line >= '0' && *line <= '9'; line++)
        bytes = bytes * 10 + (uint64_t)(*line - '0');
    return bytes;
}

static uint64_t quota_in_text(const char *text, const CUuuid *gpu)
{
    while (*text != 0) {
        CUuuid named;
        if (gpu_of_nvml_name(text, &named) && memcmp(&named, gpu, sizeof named) == 0)
            return bytes_in(text);
        while (*text != '\n' && *text != 0)
            text++;
        text += *text == '\n';
    }
    return 0;
}

bool quota_in_file(const CUuuid *gpu, uint64_t *bytes)
{
    char text[MOST_OF_THE_FILE];
    /* The functions of these calls are cancellation points. */
    int file = (int)syscall(SYS_openat, AT_FDCWD, LANEWAY_DIRECTORY "/quotas", O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    long size = syscall(SYS_read, file, text, sizeof text - 1);
    syscall(SYS_close, file);
    if (size <= 0)
        return false;
    text[size] = 0;
    *bytes = quota_in_text(text, gpu);
    return true;
}
