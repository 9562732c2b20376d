/* This process's connection to the node agent's account socket: docs/contracts.md, "Account". The caller holds the account's lock. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent_socket.h"
#include "driver_types.h"

enum request_kind { REQUEST_RESERVE = 1, REQUEST_RELEASE = 2, REQUEST_HELD = 3, REQUEST_QUERY = 4 };
enum reply_status { REPLY_GRANTED = 0, REPLY_REFUSED = 1, REPLY_NO_SUCH_GPU = 2 };

struct request {
    uint32_t version, kind;
    CUuuid gpu;
    uint64_t bytes, sequence;
};

struct reply {
    uint32_t version, status;
    uint64_t used_bytes, quota_bytes, process_bytes, sequence;
};

_Static_assert(sizeof(struct request) == 40, "the contract's request");
_Static_assert(sizeof(struct reply) == 40, "the contract's reply");

bool connection_is_open(void);

/* Connects, at most once a second. */
bool connection_open(void);

/* Sends a request; waits for its reply unless `reply` is NULL. Each takes at most 2 s. After false the connection is closed. */
bool connection_exchange(struct request request, struct reply *reply);

/* Closes the parent's descriptor in a forked child, which may connect at once. */
void connection_reset_in_child(void);
