#include "account.h"

#include <string.h>

#include "connection.h"
#include "critical_section.h"
#include "quota_file.h"

enum { MOST_GPUS = 64 };

struct gpu_account {
    CUuuid gpu;
    uint64_t held;   /* reserved by this process: the sum of what `account_reserve` granted and was not released */
    uint64_t others; /* used by the rest of the container at the agent's last answer */
    uint64_t quota;
    bool told;     /* the quota is known */
    bool answered; /* the agent has told it to this process */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gpu_account accounts[MOST_GPUS];
static int account_count;

static uint64_t sum(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static struct gpu_account *account_of(const CUuuid *gpu)
{
    for (int i = 0; i < account_count; i++)
        if (memcmp(&accounts[i].gpu, gpu, sizeof *gpu) == 0)
            return &accounts[i];
    if (account_count == MOST_GPUS)
        return NULL;
    accounts[account_count] = (struct gpu_account){.gpu = *gpu};
    return &accounts[account_count++];
}

/* Opens the connection if it is not open. The agent first learns what the process holds: a new connection begins with nothing. */
static bool connected(void)
{
    if (connection_is_open())
        return true;
    if (!connection_open())
        return false;
    for (int i = 0; i < account_count; i++) {
        struct request held = {.kind = REQUEST_HELD, .gpu = accounts[i].gpu, .bytes = accounts[i].held};
        if (accounts[i].held != 0 && !connection_exchange(held, NULL))
            return false;
    }
    return true;
}

static bool ask(struct gpu_account *account, enum request_kind kind, uint64_t bytes, struct reply *reply)
{
    struct request request = {.kind = kind, .gpu = account->gpu, .bytes = bytes};
    if (!connected())
        return false;
    if (connection_exchange(request, reply))
        return true;
    /* An agent that has restarted leaves a connection that looks open until it is used. A silent one is not asked again. */
    return connected() && connection_exchange(request, reply);
}

static void remember(struct gpu_account *account, const struct reply *reply)
{
    account->told = account->answered = true;
    account->quota = reply->status == REPLY_NO_SUCH_GPU ? 0 : reply->quota_bytes;
    account->others = reply->used_bytes > account->held ? reply->used_bytes - account->held : 0;
}

/* Without an answer of the agent the quota is what the container's folder says. */
static bool knows_quota(struct gpu_account *account)
{
    if (!account->told)
        account->told = quota_in_file(&account->gpu, &account->quota);
    return account->told;
}

static bool reserve(struct gpu_account *account, uint64_t bytes)
{
    struct reply reply;
    if (ask(account, REQUEST_RESERVE, bytes, &reply)) {
        bool granted = reply.status == REPLY_GRANTED;
        if (granted)
            account->held = sum(account->held, bytes);
        remember(account, &reply);
        return granted;
    }
    /* It is the process's own doing, and would let each of a container's processes have the whole quota. */
    if (connection_lacks_descriptor() && !account->answered)
        return false;
    if (knows_quota(account) && sum(sum(account->held, account->others), bytes) > account->quota)
        return false;
    account->held = sum(account->held, bytes);
    return true;
}

bool account_reserve(const CUuuid *gpu, uint64_t bytes)
{
    if (bytes == 0)
        return true;
    struct critical_section section = enter(&lock);
    struct gpu_account *account = account_of(gpu);
    bool granted = account == NULL || reserve(account, bytes);
    leave(&lock, section);
    return granted;
}

void account_release(const CUuuid *gpu, uint64_t bytes)
{
    if (bytes == 0)
        return;
    struct critical_section section = enter(&lock);
    struct gpu_account *account = account_of(gpu);
    if (account != NULL) {
        account->held -= bytes < account->held ? bytes : account->held;
        struct request request = {.kind = REQUEST_RELEASE, .gpu = *gpu, .bytes = bytes};
        /* A new connection begins with the new sum instead. */
        if (!connection_is_open() || !connection_exchange(request, NULL))
            connected();
    }
    leave(&lock, section);
}

bool account_usage(const CUuuid *gpu, struct usage *usage)
{
    struct critical_section section = enter(&lock);
    struct gpu_account *account = account_of(gpu);
    struct reply reply;
    if (account != NULL && ask(account, REQUEST_QUERY, 0, &reply))
        remember(account, &reply);
    bool known = account != NULL && knows_quota(account);
    if (known)
        *usage = (struct usage){sum(account->held, account->others), account->quota};
    leave(&lock, section);
    return known;
}

void account_reset_in_child(void)
{
    pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;
    memcpy(&lock, &unlocked, sizeof lock);
    connection_reset_in_child();
    /* What the parent holds is another process's now. The quota is still known, should the agent not answer. */
    for (int i = 0; i < account_count; i++) {
        accounts[i].others = sum(accounts[i].others, accounts[i].held);
        accounts[i].held = 0;
        accounts[i].answered = false;
    }
}
