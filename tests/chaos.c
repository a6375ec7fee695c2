#include "chaos.h"

#include <stdlib.h>

#include "base/status.h"
#include "transport/lists.h"

struct chaos {
    const struct transport *inner;
    struct endpoint *endpoint;
    int size;
    uint32_t random;
    struct transfer_list sends, receives; /* not passed on yet */
};

static const struct transport *beneath;
static uint32_t seed_of_next;

static struct chaos *chaos_of(struct endpoint *endpoint)
{
    return (struct chaos *)(void *)endpoint;
}

static uint32_t draw(struct chaos *chaos, uint32_t limit)
{
    chaos->random ^= chaos->random << 13;
    chaos->random ^= chaos->random >> 17;
    chaos->random ^= chaos->random << 5;
    return chaos->random % limit;
}

static plait_status chaos_open(const struct endpoint_setup *setup, struct endpoint **endpoint,
                               unsigned char blob[TRANSPORT_BLOB_BYTES])
{
    struct chaos *chaos = calloc(1, sizeof *chaos);
    if (chaos == NULL)
        return failure(PLAIT_OUT_OF_MEMORY, "no memory for chaos");
    chaos->inner = beneath;
    chaos->size = setup->size;
    chaos->random = (seed_of_next += 7919) * 2654435761U | 1;
    plait_status status = beneath->open(setup, &chaos->endpoint, blob);
    if (status == PLAIT_OK)
        *endpoint = (struct endpoint *)(void *)chaos;
    else
        free(chaos);
    return status;
}

static plait_status chaos_connect(struct endpoint *endpoint, const struct peer *peers, int count,
                                  uint64_t generation, const unsigned char job_key[32], int64_t deadline)
{
    struct chaos *chaos = chaos_of(endpoint);
    return chaos->inner->connect(chaos->endpoint, peers, count, generation, job_key, deadline);
}

/* ----------------------------------------------------------------- messages */

static bool is_callers(const struct transfer *transfer)
{
    return (transfer->key.context & CONTEXT_CALLERS) != 0;
}

static bool pass_on(struct chaos *chaos, struct transfer_list *list,
                    void (*queue)(struct endpoint *, struct transfer *))
{
    bool passed = false, waits = false; /* a caller's message that those after it must not overtake */
    struct transfer *before = NULL, *next;
    for (struct transfer *transfer = list->first; transfer != NULL; transfer = next) {
        next = transfer->next;
        if ((waits && is_callers(transfer)) || draw(chaos, 3) == 0) {
            waits |= is_callers(transfer);
            before = transfer;
            continue;
        }
        list_cut_transfer(list, before, transfer);
        queue(chaos->endpoint, transfer);
        passed = true;
    }
    return passed;
}

/* Before the first of the list, or after the last. */
static void keep(struct chaos *chaos, struct transfer_list *list, struct transfer *transfer)
{
    transfer->status = PLAIT_IN_PROGRESS;
    transfer->moved = 0;
    transfer->source = -1;
    list_append_transfer(list, transfer);
    if (is_callers(transfer) || list->first == transfer || draw(chaos, 2) == 0)
        return;
    list_remove_transfer(list, transfer);
    transfer->next = list->first;
    list->first = transfer;
}

/* One that has no peer gets its answer at once. */
static bool has_peer(const struct chaos *chaos, const struct transfer *transfer)
{
    return (transfer->peer == PLAIT_ANY_SOURCE && is_callers(transfer)) ||
           (transfer->peer >= 0 && transfer->peer < chaos->size);
}

static void chaos_send(struct endpoint *endpoint, struct transfer *transfer)
{
    struct chaos *chaos = chaos_of(endpoint);
    if (has_peer(chaos, transfer))
        keep(chaos, &chaos->sends, transfer);
    else
        chaos->inner->send(chaos->endpoint, transfer);
}

static void chaos_recv(struct endpoint *endpoint, struct transfer *transfer)
{
    struct chaos *chaos = chaos_of(endpoint);
    if (has_peer(chaos, transfer))
        keep(chaos, &chaos->receives, transfer);
    else
        chaos->inner->recv(chaos->endpoint, transfer);
}

static void chaos_cancel(struct endpoint *endpoint, struct transfer *transfer)
{
    struct chaos *chaos = chaos_of(endpoint);
    if (list_remove_transfer(&chaos->sends, transfer) || list_remove_transfer(&chaos->receives, transfer))
        transfer->status = PLAIT_ABORTED;
    else
        chaos->inner->cancel(chaos->endpoint, transfer);
}

static bool chaos_progress(struct endpoint *endpoint)
{
    struct chaos *chaos = chaos_of(endpoint);
    bool moved = chaos->sends.first != NULL || chaos->receives.first != NULL;
    if (moved && draw(chaos, 4) == 0)
        return true; /* a turn in which nothing happens */
    pass_on(chaos, &chaos->sends, chaos->inner->send);
    pass_on(chaos, &chaos->receives, chaos->inner->recv);
    return chaos->inner->progress(chaos->endpoint) || moved;
}

static void settle(struct transfer_list *list)
{
    while (list->first != NULL) {
        struct transfer *transfer = list->first;
        list_cut_transfer(list, NULL, transfer);
        transfer->status = PLAIT_ABORTED;
    }
}

static void chaos_close(struct endpoint *endpoint)
{
    struct chaos *chaos = chaos_of(endpoint);
    if (chaos == NULL)
        return;
    settle(&chaos->sends);
    settle(&chaos->receives);
    chaos->inner->close(chaos->endpoint);
    free(chaos);
}

/* ------------------------------------------------------------ passed through */

static enum life chaos_life(struct endpoint *endpoint, int peer)
{
    return chaos_of(endpoint)->inner->life(chaos_of(endpoint)->endpoint, peer);
}

static struct bell *chaos_bell(struct endpoint *endpoint)
{
    (void)endpoint; /* who sleeps on it would not pass on what is late */
    return NULL;
}

static int chaos_wait_fd(struct endpoint *endpoint)
{
    (void)endpoint;
    return -1;
}

static bool chaos_may_sleep(struct endpoint *endpoint)
{
    (void)endpoint;
    return false;
}

static void chaos_leave(struct endpoint *endpoint)
{
    chaos_of(endpoint)->inner->leave(chaos_of(endpoint)->endpoint);
}

/* Tables of boards and memory are not for tests of messages. */
static const struct transport table = { .name = "chaos",
                                        .open = chaos_open,
                                        .connect = chaos_connect,
                                        .send = chaos_send,
                                        .recv = chaos_recv,
                                        .cancel = chaos_cancel,
                                        .progress = chaos_progress,
                                        .life = chaos_life,
                                        .bell = chaos_bell,
                                        .wait_fd = chaos_wait_fd,
                                        .may_sleep = chaos_may_sleep,
                                        .leave = chaos_leave,
                                        .close = chaos_close };

const struct transport *chaos_over(const struct transport *inner, uint32_t seed)
{
    beneath = inner;
    seed_of_next = seed;
    return &table;
}
