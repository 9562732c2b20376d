#include "launch_turns.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent_socket.h"
#include "critical_section.h"
#include "launch_contexts.h"
#include "launch_gate.h"
#include "loaded_objects.h"
#include "turn_session.h"

#define MILLISECONDS 1000000LL

/* How often a holder looks at its page. The agent's packets wake it at any time. */
#define LOOK (10 * MILLISECONDS)

/* After this long without a launch the agent is told that the process does not use the GPU. It is more than a quantum, because a
 * running kernel may be all that the process waits for. */
#define IDLE NANOSECONDS

/* How long a turn lasts at least, if the launches that waited for it have not begun. */
#define SHORTEST (5 * MILLISECONDS)

#define FIRST_RETRY (200 * MILLISECONDS)
#define LAST_RETRY (5 * NANOSECONDS)
#define PING (5 * NANOSECONDS)
#define HANGING (60 * NANOSECONDS) /* an agent that has sent nothing for so long, although it was asked */

static struct {
    uint64_t turn; /* 0: none */
    bool asked, claimed, revoked, busy;
    bool covered; /* the open gate is covered by a turn, also one that ended with its connection */
    uint64_t opened_count, seen_count; /* of launches: when the gate was opened, when the thread looked last */
    long long opened_at, active_at, heard_at, pinged_at;
} state;

static atomic_bool has_session;

static void note_launches(long long now)
{
    uint64_t count = launch_count();
    if (count != state.seen_count) {
        state.seen_count = count;
        state.active_at = now;
    }
    bool busy = now - state.active_at < IDLE;
    if (busy || state.busy)
        turn_session_write_busy(busy, busy ? now : state.active_at);
    state.busy = busy;
}

static void begin_turn(uint64_t turn, long long now)
{
    state.turn = turn;
    state.asked = state.claimed = state.revoked = false;
    state.covered = state.busy = true;
    state.opened_at = state.active_at = now;
    state.opened_count = state.seen_count = launch_count();
    turn_session_write_busy(true, now);
    launch_gate_open();
}

/* Closes the gate and waits until all that was launched has run. False: not now. */
static bool leave_gpu(void)
{
    if (!launch_gate_close())
        return false;
    launch_contexts_synchronize();
    state.covered = false;
    if (state.busy)
        turn_session_write_busy(false, monotonic_nanoseconds());
    state.busy = false;
    return true;
}

/* Releases the turn if that is due. False: the connection has failed. */
static bool release_if_due(long long now)
{
    long long yield_at = turn_session_yield_at();
    bool has_begun = launch_count() != state.opened_count || now - state.opened_at >= SHORTEST;
    bool due = state.revoked || (yield_at != 0 && yield_at <= now && has_begun);
    if (!due || !leave_gpu())
        return true;
    state.asked = launch_is_waiting();
    state.pinged_at = state.heard_at = now;
    uint64_t turn = state.turn;
    state.turn = 0;
    state.revoked = false;
    return turn_session_release(turn, state.asked);
}

static long long time_to_wait(long long now)
{
    long long yield_at = turn_session_yield_at();
    if (state.turn == 0)
        return PING;
    if (state.revoked || (yield_at != 0 && yield_at <= now))
        return MILLISECONDS; /* a capture is in progress, or the launches that waited have not begun */
    return yield_at != 0 && yield_at - now < LOOK ? yield_at - now : LOOK;
}

/* Handles the packets that have come. False: the session has ended. */
static bool receive_packets(bool *ungated)
{
    for (;;) {
        uint64_t turn;
        enum turn_event event = turn_session_receive(&turn);
        long long now = monotonic_nanoseconds();
        if (event == EVENT_NONE)
            return true;
        state.heard_at = now;
        if (event == EVENT_GRANT) {
            begin_turn(turn, now);
        } else if (event == EVENT_REVOKE) {
            state.claimed = false;
            state.revoked = turn != 0;
            if (turn != 0)
                state.turn = turn;
        } else if (event == EVENT_UNGATED || event == EVENT_CLOSED) {
            *ungated = event == EVENT_UNGATED;
            return false;
        }
    }
}

/* While no turn is held or asked for, nothing but a launch that waits needs the thread. */
static bool ask_when_needed(long long now)
{
    if (state.turn != 0 || state.asked || state.claimed)
        return true;
    if (!launch_is_waiting())
        launch_gate_await_waiting(NANOSECONDS);
    if (!launch_is_waiting())
        return true;
    state.asked = true;
    state.pinged_at = state.heard_at = now;
    return turn_session_request();
}

/* False: the agent hangs. */
static bool agent_answers(long long now)
{
    if (state.turn != 0 || !(state.asked || state.claimed))
        return true;
    if (now - state.heard_at >= HANGING)
        return false;
    if (now - state.pinged_at < PING)
        return true;
    state.pinged_at = now;
    return turn_session_ping();
}

/* Takes turns until the session ends. The gate is open then. */
static void take_turns(bool *ungated)
{
    state.asked = state.revoked = false;
    state.turn = 0;
    state.heard_at = state.pinged_at = monotonic_nanoseconds();
    state.claimed = state.covered;
    while (!state.covered && !leave_gpu())
        nanosleep(&(struct timespec){.tv_nsec = MILLISECONDS}, NULL);
    for (;;) {
        long long now = monotonic_nanoseconds();
        if (!receive_packets(ungated) || !agent_answers(now))
            break;
        if (state.turn == 0 && !state.claimed && state.covered && !leave_gpu()) {
            turn_session_wait(MILLISECONDS); /* its claim was refused */
            continue;
        }
        if (state.turn != 0)
            note_launches(now);
        if (state.turn != 0 && !release_if_due(now))
            break;
        if (!ask_when_needed(now))
            break;
        if (state.turn != 0 || state.asked || state.claimed)
            turn_session_wait(time_to_wait(monotonic_nanoseconds()));
    }
    turn_session_close();
    launch_gate_open();
}

/* The thread inherits its creator's mask, which blocks all signals. glibc's own, 32 and 33, must come through: before glibc 2.32 a `setuid`
 * of the program waits until each thread has taken signal 33. */
static void unblock_signals_of_libc(void)
{
    const uint64_t mask = UINT64_C(3) << 31;
    syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &mask, NULL, sizeof mask);
}

static void *run(void *unused)
{
    long long retry = FIRST_RETRY;
    bool ungated = false;
    unblock_signals_of_libc();
    prctl(PR_SET_NAME, "laneway-gate");
    while (!ungated) {
        if (turn_session_open(state.covered, &ungated)) {
            atomic_store(&has_session, true);
            take_turns(&ungated);
            atomic_store(&has_session, false);
            retry = FIRST_RETRY;
        }
        launch_gate_open();
        if (ungated)
            break;
        nanosleep(&(struct timespec){retry / NANOSECONDS, retry % NANOSECONDS}, NULL);
        retry = retry * 2 < LAST_RETRY ? retry * 2 : LAST_RETRY;
    }
    return unused;
}

typedef int (*create_function)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

/* The library needs no libpthread itself, which glibc before 2.34 has apart. A program that uses CUDA has it, because the driver needs it. */
static create_function pthread_create_function(void)
{
    static const char *const sonames[] = {"libc.so.6", "libpthread.so.0"};
    for (size_t i = 0; i < sizeof sonames / sizeof *sonames; i++) {
        const void *object = object_named(sonames[i]);
        create_function function = object != NULL ? (create_function)object_symbol(object, "pthread_create") : NULL;
        if (function != NULL)
            return function;
    }
    return NULL;
}

bool launch_turns_start(void)
{
    create_function create = pthread_create_function();
    pthread_attr_t attributes;
    pthread_t thread;
    if (create == NULL || pthread_attr_init(&attributes) != 0)
        return false;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    bool started = create(&thread, &attributes, run, NULL) == 0;
    pthread_attr_destroy(&attributes);
    return started;
}

/* A program that ends by itself says so, or its container would be shown as one that was lost. */
__attribute__((destructor)) static void say_goodbye(void)
{
    if (!atomic_load(&has_session))
        return;
    check_for_fork(); /* a child by a raw `clone` has its parent's session until here */
    if (atomic_load(&has_session))
        turn_session_goodbye();
}

void launch_turns_reset_in_child(void)
{
    state = (__typeof__(state)){0};
    atomic_store(&has_session, false);
    turn_session_reset_in_child();
}
