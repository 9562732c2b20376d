#include "connection.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { VERSION = 1, LOWEST_DESCRIPTOR = 512 };

static int descriptor = -1;
static dev_t device; /* with the inode: the socket's identity */
static ino_t inode;
static long long next_attempt; /* CLOCK_MONOTONIC, ns */
static uint64_t last_sequence;

long long monotonic_nanoseconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * NANOSECONDS + time.tv_nsec;
}

static bool is_socket_of_ours(void)
{
    struct stat status;
    return descriptor >= 0 && fstat(descriptor, &status) == 0 && status.st_dev == device && status.st_ino == inode;
}

bool connection_is_open(void)
{
    if (descriptor >= 0 && !is_socket_of_ours())
        descriptor = -1; /* not closed here: the number may be the program's now */
    return descriptor >= 0;
}

void connection_close(void)
{
    if (connection_is_open())
        syscall(SYS_close, descriptor); /* the function is a cancellation point */
    descriptor = -1;
}

static bool connect_within_limit(int candidate)
{
    const struct timeval limit = {.tv_sec = ANSWER_SECONDS};
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = LANEWAY_DIRECTORY "/account.sock"};
    return setsockopt(candidate, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) == 0 &&
           setsockopt(candidate, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0 &&
           syscall(SYS_connect, candidate, &address, sizeof address) == 0;
}

bool connection_open(void)
{
    if (connection_is_open())
        return true;
    if (monotonic_nanoseconds() < next_attempt)
        return false;
    int candidate = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (candidate >= 0 && connect_within_limit(candidate)) {
        /* Out of the range that programs use: shells name descriptors below 10, and many daemons close the first hundreds. */
        int high = fcntl(candidate, F_DUPFD_CLOEXEC, LOWEST_DESCRIPTOR);
        if (high >= 0) {
            syscall(SYS_close, candidate);
            candidate = high;
        }
        struct stat status;
        if (fstat(candidate, &status) == 0) {
            descriptor = candidate;
            device = status.st_dev;
            inode = status.st_ino;
        }
    }
    if (descriptor < 0 && candidate >= 0)
        syscall(SYS_close, candidate);
    next_attempt = monotonic_nanoseconds() + NANOSECONDS; /* after the attempt, which may take 2 s itself */
    return descriptor >= 0;
}

/* 1: done; 0: try again; -1: the connection has failed. */
static int outcome(long moved, size_t expected)
{
    if (moved == (long)expected)
        return 1;
    return moved < 0 && errno == EINTR ? 0 : -1;
}

static bool transfer(bool sending, void *packet, size_t size, long long deadline)
{
    while (monotonic_nanoseconds() < deadline && is_socket_of_ours()) {
        long moved = sending ? syscall(SYS_sendto, descriptor, packet, size, MSG_NOSIGNAL, NULL, 0)
                             : syscall(SYS_recvfrom, descriptor, packet, size, MSG_TRUNC, NULL, NULL);
        int state = outcome(moved, size);
        if (state != 0)
            return state > 0;
    }
    return false;
}

bool connection_exchange(struct request request, struct reply *reply)
{
    long long deadline = monotonic_nanoseconds() + ANSWER_SECONDS * NANOSECONDS;
    request.version = VERSION;
    request.sequence = ++last_sequence;
    if (transfer(true, &request, sizeof request, deadline)) {
        if (reply == NULL)
            return true;
        /* Replies with another number answer packets that the program itself wrote into the socket. */
        while (transfer(false, reply, sizeof *reply, deadline) && reply->version == VERSION)
            if (reply->sequence == request.sequence)
                return true;
    }
    connection_close();
    return false;
}

void connection_reset_in_child(void)
{
    connection_close();
    next_attempt = 0;
}
