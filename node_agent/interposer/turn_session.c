#include "turn_session.h"

#include <poll.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent_socket.h"
#include "text.h"

enum { PAGE_BYTES = 4096, MOST_OF_A_PACKET = 256 };
enum { WORD_YIELD = 2, WORD_INSIDE = 9, WORD_BOUNDARY = 10, WORD_BUSY = 13 };

static struct agent_socket agent = CLOSED_SOCKET;
static _Atomic uint64_t *page;
static bool busy;
static long long busy_since;
static uint64_t busy_before; /* time that the process used the GPU, of all its turns, ns */
static uint64_t busy_at_grant;

static bool send_text(const char *text)
{
    size_t size = strlen(text);
    return agent_socket_is_open(&agent) && send(agent.descriptor, text, size, MSG_NOSIGNAL) == (ssize_t)size;
}

static bool map_page(struct msghdr *message)
{
    struct cmsghdr *header = CMSG_FIRSTHDR(message);
    if (header == NULL || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
        return false;
    int descriptor;
    memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
    void *memory = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    syscall(SYS_close, descriptor);
    if (memory == MAP_FAILED)
        return false;
    if (memcmp(memory, "LANEWAY1", 8) != 0) {
        munmap(memory, PAGE_BYTES);
        return false;
    }
    page = memory;
    return true;
}

/* Reads the beginning of one packet; the rest is of no interest here. */
static ssize_t receive(char text[MOST_OF_A_PACKET], struct msghdr *message)
{
    struct iovec part = {text, MOST_OF_A_PACKET - 1};
    message->msg_iov = &part;
    message->msg_iovlen = 1;
    if (!agent_socket_is_open(&agent))
        return 0;
    ssize_t size = recvmsg(agent.descriptor, message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    text[size > 0 ? size : 0] = 0;
    return size;
}

static bool await_welcome(bool *ungated)
{
    char text[MOST_OF_A_PACKET];
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr message = {.msg_control = &control, .msg_controllen = sizeof control};
    turn_session_wait(ANSWER_SECONDS * NANOSECONDS);
    if (receive(text, &message) <= 0)
        return false;
    *ungated = begins_with(text, "{\"type\":\"ungated\"");
    return begins_with(text, "{\"type\":\"welcome\"") && map_page(&message);
}

bool turn_session_open(bool holds_turn, bool *ungated)
{
    char hello[MOST_OF_A_PACKET];
    *ungated = false;
    snprintf(hello, sizeof hello,
             "{\"type\":\"hello\",\"version\":1,\"pid\":%d,\"framework\":\"\",\"device\":\"cuda\",\"gpu\":null,"
             "\"gate\":true,\"holds_turn\":%s}",
             (int)getpid(), holds_turn ? "true" : "false");
    if (agent_socket_connect(&agent, LANEWAY_DIRECTORY "/agent.sock") && send_text(hello) && await_welcome(ungated)) {
        atomic_store(&page[WORD_BUSY], busy_before);
        turn_session_write_busy(busy, monotonic_nanoseconds());
        return true;
    }
    turn_session_close();
    return false;
}

void turn_session_close(void)
{
    agent_socket_close(&agent);
    if (page != NULL)
        munmap((void *)page, PAGE_BYTES);
    page = NULL;
}

void turn_session_wait(long long nanoseconds)
{
    struct pollfd readable = {.fd = agent.descriptor, .events = POLLIN};
    struct timespec limit = {nanoseconds / NANOSECONDS, nanoseconds % NANOSECONDS};
    if (nanoseconds > 0 && agent_socket_is_open(&agent))
        ppoll(&readable, 1, &limit, NULL);
}

static uint64_t turn_in(const char *text)
{
    const char *found = strstr(text, "\"turn\":");
    return found != NULL ? strtoull(found + strlen("\"turn\":"), NULL, 10) : 0;
}

enum turn_event turn_session_receive(uint64_t *turn)
{
    char text[MOST_OF_A_PACKET];
    struct msghdr message = {0};
    ssize_t size = receive(text, &message);
    if (size <= 0)
        return size < 0 ? EVENT_NONE : EVENT_CLOSED;
    *turn = turn_in(text);
    if (begins_with(text, "{\"type\":\"grant\"")) {
        busy_at_grant = busy_before;
        return EVENT_GRANT;
    }
    if (begins_with(text, "{\"type\":\"revoke\""))
        return EVENT_REVOKE;
    return begins_with(text, "{\"type\":\"ungated\"") ? EVENT_UNGATED : EVENT_OTHER;
}

bool turn_session_request(void)
{
    return send_text("{\"type\":\"request\"}");
}

bool turn_session_release(uint64_t turn, bool again)
{
    char text[MOST_OF_A_PACKET];
    uint64_t used = busy_before - busy_at_grant;
    busy_at_grant = busy_before;
    snprintf(text, sizeof text, "{\"type\":\"release\",\"turn\":%llu,\"iterations\":0,\"gpu_seconds\":%llu.%09llu%s}",
             (unsigned long long)turn, used / NANOSECONDS, used % NANOSECONDS, again ? ",\"again\":true" : "");
    return send_text(text);
}

bool turn_session_ping(void)
{
    return send_text("{\"type\":\"ping\"}");
}

void turn_session_goodbye(void)
{
    send_text("{\"type\":\"goodbye\"}");
}

long long turn_session_yield_at(void)
{
    return page != NULL ? (long long)atomic_load(&page[WORD_YIELD]) : 0;
}

void turn_session_write_busy(bool now_busy, long long since)
{
    if (busy)
        busy_before += since > busy_since ? (uint64_t)(since - busy_since) : 0;
    busy = now_busy;
    busy_since = since;
    if (page == NULL)
        return;
    atomic_store(&page[WORD_BUSY], busy_before);
    atomic_store(&page[WORD_BOUNDARY], (uint64_t)since);
    atomic_store(&page[WORD_INSIDE], busy);
}

void turn_session_reset_in_child(void)
{
    turn_session_close();
    busy = false;
    busy_before = busy_at_grant = 0;
}
