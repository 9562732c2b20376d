#include "agent_socket.h"

#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { LOWEST_DESCRIPTOR = 512 };

long long monotonic_nanoseconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * NANOSECONDS + time.tv_nsec;
}

bool agent_socket_is_open(struct agent_socket *socket)
{
    struct stat status;
    if (socket->descriptor >= 0 && !(fstat(socket->descriptor, &status) == 0 && status.st_dev == socket->device &&
                                     status.st_ino == socket->inode))
        socket->descriptor = -1; /* not closed here: the number may be the program's now */
    return socket->descriptor >= 0;
}

void agent_socket_close(struct agent_socket *socket)
{
    if (agent_socket_is_open(socket))
        syscall(SYS_close, socket->descriptor); /* the function is a cancellation point */
    socket->descriptor = -1;
}

static bool connect_within_limit(int candidate, const char *path)
{
    const struct timeval limit = {.tv_sec = ANSWER_SECONDS};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strncpy(address.sun_path, path, sizeof address.sun_path - 1);
    return setsockopt(candidate, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) == 0 &&
           setsockopt(candidate, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0 &&
           syscall(SYS_connect, candidate, &address, sizeof address) == 0;
}

bool agent_socket_connect(struct agent_socket *agent, const char *path)
{
    agent->descriptor = -1;
    int candidate = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (candidate >= 0 && connect_within_limit(candidate, path)) {
        /* Out of the range that programs use: shells name descriptors below 10, and many daemons close the first hundreds. */
        int high = fcntl(candidate, F_DUPFD_CLOEXEC, LOWEST_DESCRIPTOR);
        if (high >= 0) {
            syscall(SYS_close, candidate);
            candidate = high;
        }
        struct stat status;
        if (fstat(candidate, &status) == 0)
            *agent = (struct agent_socket){candidate, status.st_dev, status.st_ino};
    }
    if (agent->descriptor < 0 && candidate >= 0)
        syscall(SYS_close, candidate);
    return agent->descriptor >= 0;
}
