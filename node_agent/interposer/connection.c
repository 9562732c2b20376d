#include "connection.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { VERSION = 1 };

#define FIRST_PAUSE NANOSECONDS
#define LAST_PAUSE (8 * NANOSECONDS)

static struct agent_socket agent = CLOSED_SOCKET;
static long long next_attempt; /* CLOCK_MONOTONIC, ns */
static bool lacks_descriptor;
static uint64_t last_sequence;

/* Set while the agent keeps a request waiting. The connection is then of no use until the agent shows life. */
static struct {
    short sign; /* what poll tells once the agent runs again: POLLIN for an answer, POLLOUT for a place in the full socket; 0: not silent */
    struct request question;
    long long asked_at, pause; /* how long until the question is asked again */
} silence;

static bool shows_life(void)
{
    struct pollfd socket = {.fd = agent.descriptor, .events = silence.sign};
    return syscall(SYS_ppoll, &socket, 1, &(struct timespec){0}, NULL, 0) > 0;
}

/* Asks again, with longer and longer pauses and without waiting: the first answer may have been lost. */
static void ask_again(void)
{
    long long now = monotonic_nanoseconds();
    if (now - silence.asked_at < silence.pause)
        return;
    silence.asked_at = now;
    silence.pause = silence.pause * 2 < LAST_PAUSE ? silence.pause * 2 : LAST_PAUSE;
    syscall(SYS_sendto, agent.descriptor, &silence.question, sizeof silence.question, MSG_NOSIGNAL | MSG_DONTWAIT, NULL, 0);
}

static void note_silence(bool sending, struct request request)
{
    silence.sign = sending ? POLLOUT : POLLIN;
    silence.question = request;
    silence.question.kind = REQUEST_QUERY;
    silence.question.bytes = 0;
    silence.asked_at = monotonic_nanoseconds();
    silence.pause = FIRST_PAUSE;
}

bool connection_is_silent(void)
{
    if (silence.sign == 0)
        return false;
    if (agent_socket_is_open(&agent) && !shows_life()) {
        ask_again();
        return true;
    }
    /* What was asked last may be granted or not. A new connection begins with what the process holds. */
    agent_socket_close(&agent);
    silence.sign = 0;
    return false;
}

bool connection_is_open(void)
{
    return !connection_is_silent() && agent_socket_is_open(&agent);
}

bool connection_open(void)
{
    if (connection_is_open())
        return true;
    if (silence.sign != 0 || monotonic_nanoseconds() < next_attempt)
        return false;
    errno = 0;
    bool connected = agent_socket_connect(&agent, LANEWAY_DIRECTORY "/account.sock");
    lacks_descriptor = !connected && errno == EMFILE;
    if (!lacks_descriptor)
        next_attempt = monotonic_nanoseconds() + NANOSECONDS; /* after the attempt, which may take 2 s itself */
    return connected;
}

bool connection_lacks_descriptor(void)
{
    return lacks_descriptor;
}

enum outcome { DONE, AGAIN, LATE, BROKEN };

static enum outcome outcome(long moved, size_t expected)
{
    if (moved == (long)expected)
        return DONE;
    if (moved >= 0)
        return BROKEN;
    return errno == EINTR ? AGAIN : errno == EAGAIN ? LATE : BROKEN;
}

static enum outcome transfer(bool sending, void *packet, size_t size, long long deadline)
{
    while (agent_socket_is_open(&agent)) {
        if (monotonic_nanoseconds() >= deadline)
            return LATE;
        long moved = sending ? syscall(SYS_sendto, agent.descriptor, packet, size, MSG_NOSIGNAL, NULL, 0)
                             : syscall(SYS_recvfrom, agent.descriptor, packet, size, MSG_TRUNC, NULL, NULL);
        enum outcome result = outcome(moved, size);
        if (result != AGAIN)
            return result;
    }
    return BROKEN;
}

bool connection_exchange(struct request request, struct reply *reply)
{
    long long deadline = monotonic_nanoseconds() + ANSWER_SECONDS * NANOSECONDS;
    request.version = VERSION;
    request.sequence = ++last_sequence;
    enum outcome result = transfer(true, &request, sizeof request, deadline);
    bool sent = result == DONE;
    if (sent && reply == NULL)
        return true;
    /* Replies with another number answer packets that the program itself wrote into the socket. */
    while (result == DONE) {
        result = transfer(false, reply, sizeof *reply, deadline);
        if (result == DONE && reply->version == VERSION && reply->sequence == request.sequence)
            return true;
        if (result == DONE && reply->version != VERSION)
            result = BROKEN;
    }
    if (result == LATE)
        note_silence(!sent, request);
    else
        agent_socket_close(&agent);
    return false;
}

void connection_reset_in_child(void)
{
    agent_socket_close(&agent);
    silence.sign = 0;
    lacks_descriptor = false;
    next_attempt = 0;
}
