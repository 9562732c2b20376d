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

/* Whether the connection can be used: it is open, and the agent is not silent. */
bool connection_is_open(void);

/* Whether the agent has kept a request waiting for 2 s, and sent nothing since. It is asked nothing then. Never waits. */
bool connection_is_silent(void);

/* Connects, at most once a second. False: there is no agent, or it is silent. */
bool connection_open(void);

/* Whether the last attempt to connect failed because the process has no descriptor left. */
bool connection_lacks_descriptor(void);

/* Sends a request; waits for its reply unless `reply` is NULL, at most 2 s. After false the agent is silent, or the connection closed. */
bool connection_exchange(struct request request, struct reply *reply);

/* Closes the parent's descriptor in a forked child, which may connect at once. */
void connection_reset_in_child(void);
