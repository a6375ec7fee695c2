/* The watch, called at the very moment that counts: the test takes the drive itself. */
#include "check.h"

#include <stdio.h>
#include <string.h>

#include "base/handle.h"
#include "engine.h"
#include "ranks.h"
#include "watch.h"
#include "work.h"
#include "world.h"

static struct engine *engine_of(const struct rank *rank)
{
    return &((struct world *)handle_find(HANDLE_WORLD, rank->world))->engine;
}

static void take_drive(struct engine *engine)
{
    while (!engine_enter(engine))
        sleep_ms(1);
}

/* The lives of all peers are due, too. */
static void watch_all(struct engine *engine)
{
    engine->next_life_ns = 0;
    engine_watch(engine, true);
}

static int messages_left(const struct engine *engine)
{
    int count = 0;
    for (const struct work *work = engine->messages; work != NULL; work = work->next)
        count++;
    return count;
}

struct message_case {
    int peer;     /* of rank 0's receive */
    size_t count; /* elements sent; 0: rank 1 leaves without a word */
    plait_status wanted;
};

/* Rank 1 sends, or not, and leaves. All of that happens between two looks of rank 0, whose watch then
 * sees the message and the leave at once. */
static void run_message_and_leave(struct rank *rank)
{
    enum { MOST = 1000 };
    const struct message_case *row = rank->context;
    uint8_t data[MOST] = { 0 };
    if (rank->number != 0) {
        memset(data, 7, sizeof data);
        rank_meet(rank);
        if (rank->number == 1 && row->count > 0)
            rank_ok(rank, plait_send(rank->comm, data, row->count, PLAIT_U8, 0, 5, NULL), "a send");
        rank_ok(rank, plait_world_destroy(rank->world), "leaving");
        rank->world = NULL;
        rank_meet(rank);
        return;
    }
    struct engine *engine = engine_of(rank);
    plait_work *work = NULL;
    take_drive(engine);
    rank_ok(rank, plait_recv(rank->comm, data, MOST, PLAIT_U8, row->peer, 5, NULL, NULL, &work), "a receive");
    engine_pass(engine);
    rank_check(rank, messages_left(engine) == 1, "%d messages", messages_left(engine));
    rank_meet(rank);
    rank_meet(rank); /* they have left */
    rank_doing(rank, "watching");
    watch_all(engine);
    engine_pass(engine);
    rank_check(rank, messages_left(engine) == 0, "%d messages", messages_left(engine));
    engine_leave(engine);
    rank_status(rank, plait_work_wait(work, -1), row->wanted, "the receive");
    rank_check(rank, plait_work_count(work) == row->count, "%zu elements", plait_work_count(work));
    if (row->wanted != PLAIT_OK)
        rank_says(rank, "left the world");
    plait_work_release(work);
}

/* One of two messages fails in a pass, and its communicator with it. The other was released, so that
 * its memory goes. */
static void run_lost_link(struct rank *rank)
{
    if (rank->number != 0)
        return;
    struct engine *engine = engine_of(rank);
    int8_t data[2] = { 0 };
    plait_work *works[2] = { NULL };
    take_drive(engine);
    for (int i = 0; i < 2; i++)
        rank_ok(rank, plait_recv(rank->comm, &data[i], 1, PLAIT_I8, 1, i, NULL, NULL, &works[i]),
                "a receive");
    engine_pass(engine);
    struct work *first = engine->messages, *second = first->next;
    rank_check(rank, second != NULL && second->next == NULL, "there are not two messages");
    engine->transport->cancel(engine->endpoint, &second->transfer);
    second->transfer.status = PLAIT_PEER_LOST; /* as where the peer's memory is damaged */
    plait_work_release(works[0] == first->handle ? works[0] : works[1]);
    plait_work *kept = works[0] == first->handle ? works[1] : works[0];
    while (messages_left(engine) > 0)
        engine_pass(engine);
    engine_leave(engine);
    rank_status(rank, plait_work_wait(kept, -1), PLAIT_PEER_LOST, "the message that failed");
    plait_work_release(kept);
}

/* Rank 1 finishes and leaves while rank 0 has all it needs and looks away: it is not accused, and rank
 * 0 succeeds. */
static void run_finished_and_left(struct rank *rank)
{
    enum { COUNT = 20000 };
    static float data[4][COUNT];
    float *mine = data[rank->number];
    plait_work *work = NULL;
    for (int i = 0; i < COUNT; i++)
        mine[i] = (float)(i % 50);
    plait_status status = plait_allreduce(rank->comm, mine, mine, COUNT, PLAIT_F32, PLAIT_SUM,
                                          rank->number == 0 ? &work : NULL);
    rank_ok(rank, status, "all-reduce");
    if (rank->number != 0) {
        rank_ok(rank, plait_world_destroy(rank->world), "leaving");
        rank->world = NULL;
        return;
    }
    struct engine *engine = engine_of(rank);
    for (int i = 0; i < 20000 && plait_work_status(work) == PLAIT_IN_PROGRESS; i++) {
        take_drive(engine);
        watch_all(engine); /* looks for lives before each and every pass */
        engine_pass(engine);
        engine_leave(engine);
    }
    rank_ok(rank, plait_work_wait(work, -1), "the all-reduce");
    rank_check(rank, mine[49] == 49.0f * (float)rank->size, "element 49 is %g", (double)mine[49]);
    plait_work_release(work);
}

static const struct message_case cases[] = {
    { 1, 1, PLAIT_OK },
    { 1, 1000, PLAIT_OK },
    { PLAIT_ANY_SOURCE, 10, PLAIT_OK },
    { 1, 0, PLAIT_PEER_LOST },
    { PLAIT_ANY_SOURCE, 0, PLAIT_PEER_LOST },
};

#define THREADS(ranks, planner)                                                                              \
    {                                                                                                        \
        .way = RANKS_THREADS, .size = ranks, .plan = planner                                                 \
    }

static const struct scenario scenarios[] = {
    { "a byte and a leave at once", run_message_and_leave, THREADS(2, NULL), &cases[0] },
    { "1000 bytes and a leave at once", run_message_and_leave, THREADS(3, NULL), &cases[1] },
    { "a message for anyone and a leave at once", run_message_and_leave, THREADS(3, NULL), &cases[2] },
    { "a leave without a word", run_message_and_leave, THREADS(2, NULL), &cases[3] },
    { "all leave without a word", run_message_and_leave, THREADS(4, NULL), &cases[4] },
    { "one of two messages fails", run_lost_link, THREADS(2, NULL), NULL },
    { "finished and left, one-shot", run_finished_and_left, THREADS(2, "direct-one-shot"), NULL },
    { "finished and left, two-phase", run_finished_and_left, THREADS(4, "direct-two-phase"), NULL },
    { "finished and left, ring", run_finished_and_left, THREADS(3, "ring"), NULL },
    { "finished and left, doubling", run_finished_and_left, THREADS(3, "doubling"), NULL },
    { "finished and left, tree", run_finished_and_left, THREADS(4, "tree"), NULL },
};

int main(void)
{
    return scenarios_run("watch", scenarios, LENGTH(scenarios));
}
