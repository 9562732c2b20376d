/* This process's session with the node agent, by which it takes turns: docs/contracts.md, "Session". Used by one thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum turn_event {
    EVENT_NONE,    /* no packet has come */
    EVENT_OTHER,   /* a packet that says nothing new: its words are in the page */
    EVENT_GRANT,
    EVENT_REVOKE,
    EVENT_UNGATED, /* the process needs no gate: its client takes its turns, for example */
    EVENT_CLOSED,
};

/* Opens a session. False: there is no agent, or it does not accept the process; `ungated`: because the process needs no gate. */
bool turn_session_open(bool holds_turn, bool *ungated);
void turn_session_close(void);

/* Waits for a packet for a time. */
void turn_session_wait(long long nanoseconds);

/* Reads one packet without waiting. */
enum turn_event turn_session_receive(uint64_t *turn);

bool turn_session_request(void);
bool turn_session_release(uint64_t turn, bool again);
bool turn_session_ping(void);
void turn_session_goodbye(void);

/* CLOCK_MONOTONIC from which on the turn is to be released, in ns; 0: no other session waits. */
long long turn_session_yield_at(void);

/* Writes whether the process uses the GPU, from a time on; what it used it until then is added up. */
void turn_session_write_busy(bool busy, long long since);

void turn_session_reset_in_child(void);
