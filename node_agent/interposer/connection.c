#include "connection.h"

#include <errno.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { VERSION = 1 };

static struct agent_socket agent = CLOSED_SOCKET;
static long long next_attempt; /* CLOCK_MONOTONIC, ns */
static uint64_t last_sequence;

bool connection_is_open(void)
{
    return agent_socket_is_open(&agent);
}

bool connection_open(void)
{
    if (connection_is_open())
        return true;
    if (monotonic_nanoseconds() < next_attempt)
        return false;
    bool connected = agent_socket_connect(&agent, LANEWAY_DIRECTORY "/account.sock");
    next_attempt = monotonic_nanoseconds() + NANOSECONDS; /* after the attempt, which may take 2 s itself */
    return connected;
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
    while (monotonic_nanoseconds() < deadline && agent_socket_is_open(&agent)) {
        long moved = sending ? syscall(SYS_sendto, agent.descriptor, packet, size, MSG_NOSIGNAL, NULL, 0)
                             : syscall(SYS_recvfrom, agent.descriptor, packet, size, MSG_TRUNC, NULL, NULL);
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
    agent_socket_close(&agent);
    return false;
}

void connection_reset_in_child(void)
{
    agent_socket_close(&agent);
    next_attempt = 0;
}
