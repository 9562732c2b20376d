/* A connection to one of the node agent's sockets in the container's folder. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* The container's folder of sockets: fixed, because its environment belongs to the tenant. */
#ifndef LANEWAY_DIRECTORY
#define LANEWAY_DIRECTORY "/run/laneway"
#endif

enum { ANSWER_SECONDS = 2 };
#define NANOSECONDS 1000000000LL

struct agent_socket {
    int descriptor; /* -1: closed */
    dev_t device;   /* with the inode: the socket's identity */
    ino_t inode;
};

#define CLOSED_SOCKET {.descriptor = -1}

long long monotonic_nanoseconds(void);

/* Whether the descriptor is still the library's socket. The program may have closed it, and opened something else in its place. */
bool agent_socket_is_open(struct agent_socket *socket);

/* Connects. Each later transfer takes at most 2 s. */
bool agent_socket_connect(struct agent_socket *socket, const char *path);

/* Closes the descriptor unless it is no longer the library's. */
void agent_socket_close(struct agent_socket *socket);
