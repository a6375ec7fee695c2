/* New communicators: their ranks, and the channels and lanes they are given, take and leave. What a
 * caller passes is looked at in test_comms and test_arguments. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/handle.h"
#include "ranks.h"
#include "world.h"

static struct comm *look(const plait_comm *comm)
{
    return handle_find(HANDLE_COMM, comm);
}

static bool sums_up(struct rank *rank, plait_comm *comm, size_t count)
{
    int32_t *data = malloc((count + 1) * sizeof *data);
    for (size_t i = 0; i < count; i++)
        data[i] = (int32_t)i;
    bool good =
        rank_ok(rank, plait_allreduce(comm, data, data, count, PLAIT_I32, PLAIT_SUM, NULL), "all-reduce");
    int32_t last = count == 0 ? 0 : data[count - 1],
            wanted = count == 0 ? 0 : (int32_t)(count - 1) * plait_comm_size(comm);
    free(data);
    return good &&
           rank_check(rank, last == wanted, "the last of %zu sums is %d, not %d", count, last, wanted);
}

static plait_comm *make(struct rank *rank, int count, int tag)
{
    static const int ranks[] = { 0, 1, 2, 3 };
    plait_comm *comm = NULL;
    rank_ok(rank, plait_comm_group(rank->comm, ranks, count, tag, NULL, &comm), "a group");
    return comm;
}

/* ------------------------------------------------------------------- numbers */

/* A communicator that ran nothing is not taken for its successor, which has its channel. */
static void run_nothing_run(struct rank *rank)
{
    uint64_t last_first = 0;
    for (int i = 0; i < 6 && !rank_failed(rank); i++) {
        plait_comm *comm = make(rank, rank->size, 0);
        if (comm == NULL)
            return;
        rank_check(rank, look(comm)->first_number > last_first, "first number %llu again",
                   (unsigned long long)last_first);
        rank_check(rank, look(comm)->channel == 1, "channel %d", look(comm)->channel);
        last_first = look(comm)->first_number;
        if (i % 2 == 1)
            sums_up(rank, comm, 5);
        rank_ok(rank, plait_comm_destroy(comm), "destroying it");
        rank_meet(rank);
    }
}

/* ---------------------------------------------------------------- lanes, channels */

/* The world's communicator has one lane, the first other one the next; later ones have only the seat's
 * staging, and a lane that becomes free is given again. Who has a lane changes to it at need. */
static void run_lanes(struct rank *rank)
{
    plait_comm *comms[STAGING_LANES + 1];
    for (int i = 0; i <= STAGING_LANES; i++) {
        comms[i] = make(rank, rank->size, 1);
        int lane = i + 1 < STAGING_LANES ? i + 1 : -1;
        rank_check(rank, look(comms[i])->lane == lane, "communicator %d has lane %d", i,
                   look(comms[i])->lane);
        rank_check(rank, look(comms[i])->channel == i + 1, "communicator %d has channel %d", i,
                   look(comms[i])->channel);
        if (i > 2 && i < STAGING_LANES - 3)
            continue;
        for (size_t count = 0; count < 100000; count = count * 7 + 3)
            sums_up(rank, comms[i], count);
        size_t size = rank->size > 1 && lane >= 0 ? FURTHER_LANE_BYTES : SEAT_STAGING_BYTES;
        rank_check(rank, look(comms[i])->group.staging.size == size,
                   "communicator %d stages through %zu bytes", i, look(comms[i])->group.staging.size);
    }
    rank_ok(rank, plait_comm_destroy(comms[0]), "destroying the first");
    rank_meet(rank);
    comms[0] = make(rank, rank->size, 1);
    rank_check(rank, look(comms[0])->lane == 1 && look(comms[0])->channel == 1, "lane %d and channel %d",
               look(comms[0])->lane, look(comms[0])->channel);
    sums_up(rank, comms[0], 100000);
    for (int i = 0; i <= STAGING_LANES; i++)
        rank_ok(rank, plait_comm_destroy(comms[i]), "destroying a communicator");
}

/* More communicators than there are channels: told so, and it goes on once some are gone. */
static void run_all_channels(struct rank *rank)
{
    plait_comm **comms = calloc(BOARD_CHANNELS, sizeof *comms), *more = NULL;
    int made = 0;
    plait_status status = PLAIT_OK;
    for (; status == PLAIT_OK && made < BOARD_CHANNELS; made += status == PLAIT_OK)
        status = plait_comm_split(rank->comm, 0, 0, NULL, &comms[made]);
    rank_status(rank, status, PLAIT_OUT_OF_RESOURCES, "one communicator too many");
    rank_says(rank, "destroy some");
    rank_check(rank, made == BOARD_CHANNELS - 1, "%d communicators", made);
    sums_up(rank, comms[made - 1], 1000);
    rank_ok(rank, plait_comm_destroy(comms[made / 2]), "destroying one");
    rank_meet(rank);
    rank_ok(rank, plait_comm_split(rank->comm, 0, 0, NULL, &more), "another one");
    comms[made / 2] = more;
    sums_up(rank, more, 1000);
    for (int i = 0; i < made; i++)
        rank_ok(rank, plait_comm_destroy(comms[i]), "destroying a communicator");
    free(comms);
}

/* --------------------------------------------------------------------- laggards */

static void dawdle(void *context, plait_work *work, plait_status status)
{
    (void)context, (void)work, (void)status;
    sleep_ms(400);
}

/* The last rank has entered a barrier of all and is kept from looking on, in a callback. The others are
 * through, destroy the communicator and make one without it, which must not have the channel that it
 * still looks at. */
static void run_laggard(struct rank *rank)
{
    int last = rank->size - 1, value = 0, channel = 0;
    plait_comm *all = make(rank, rank->size, 2), *others = NULL;
    plait_work *message = NULL, *barrier = NULL;
    if (all == NULL)
        return;
    if (rank->number == last) {
        rank_ok(rank, plait_recv(rank->comm, &value, 1, PLAIT_I32, 0, 7, NULL, NULL, &message), "a receive");
        rank_ok(rank, plait_work_on_done(message, dawdle, NULL), "asking to be called");
        rank_ok(rank, plait_barrier(all, &barrier), "a barrier");
        rank_meet(rank);
        rank_ok(rank, plait_work_wait(barrier, 8000), "the barrier that the others have left");
        rank_ok(rank, plait_work_wait(message, -1), "the message");
        plait_work_release(barrier);
        plait_work_release(message);
        rank_ok(rank, plait_comm_destroy(all), "destroying the communicator of all");
    } else {
        rank_meet(rank);
        if (rank->number == 0)
            rank_ok(rank, plait_send(rank->comm, &value, 1, PLAIT_I32, last, 7, NULL), "a send");
        sleep_ms(50);
        channel = look(all)->channel;
        rank_ok(rank, plait_barrier(all, NULL), "a barrier");
        rank_ok(rank, plait_comm_destroy(all), "destroying the communicator of all");
        others = make(rank, last, 3);
        for (int i = 0; i < 5; i++)
            rank_ok(rank, plait_barrier(others, NULL), "a barrier of the others");
        rank_check(rank, others == NULL || look(others)->channel != channel,
                   "the laggard's channel was given away");
        rank_ok(rank, plait_comm_destroy(others), "destroying the others' communicator");
    }
    rank_meet(rank);
    /* Once it is through, the channel is free again. */
    all = make(rank, rank->size, 4);
    rank_check(rank, all != NULL && look(all)->channel == 1, "channel %d",
               all == NULL ? -1 : look(all)->channel);
    sums_up(rank, all, 10);
    rank_ok(rank, plait_comm_destroy(all), "destroying the last communicator");
}

/* ------------------------------------------------------------------------ ranks */

/* Colours and keys in any order, nested; every new rank knows who is who. */
static void run_orders(struct rank *rank)
{
    for (uint64_t i = 0; i < 12 && !rank_failed(rank); i++) {
        plait_comm *half = NULL, *turned = NULL;
        int colour = (int)(mix(i * 100 + (uint64_t)rank->number) % 3) - 1,
            key = (int)(mix(i + (uint64_t)rank->number) % 4) - 2;
        rank_ok(rank, plait_comm_split(rank->comm, colour, key, NULL, &half), "split");
        rank_check(rank, (half == NULL) == (colour == PLAIT_NO_COLOUR), "colour %d gave %p", colour,
                   (void *)half);
        if (half == NULL)
            continue;
        int size = plait_comm_size(half);
        int32_t mine[2] = { key, rank->number }, (*all)[2] = malloc((size_t)size * sizeof *all);
        rank_ok(rank, plait_allgather(half, mine, all, 2, PLAIT_I32, NULL), "all-gather");
        for (int j = 0; j < size; j++)
            rank_check(rank,
                       plait_comm_world_rank(half, j) == all[j][1] &&
                           (j == 0 || all[j - 1][0] < all[j][0] ||
                            (all[j - 1][0] == all[j][0] && all[j - 1][1] < all[j][1])),
                       "place %d has key %d and rank %d", j, all[j][0], all[j][1]);
        rank_ok(rank, plait_comm_split(half, 0, -plait_comm_rank(half), NULL, &turned), "split of a split");
        rank_check(rank, plait_comm_rank(turned) == size - 1 - plait_comm_rank(half), "not turned round");
        sums_up(rank, turned, 100);
        rank_ok(rank, plait_comm_destroy(half), "destroying the half");
        sums_up(rank, turned, 100);
        rank_ok(rank, plait_comm_destroy(turned), "destroying the other");
        free(all);
    }
}

#define ROW(title, function, ranks)                                                                          \
    {                                                                                                        \
        title, function, { .way = RANKS_THREADS, .size = ranks }, NULL                                       \
    }

static const struct scenario scenarios[] = {
    ROW("communicators that run nothing", run_nothing_run, 1),
    ROW("communicators that run nothing", run_nothing_run, 2),
    ROW("communicators that run nothing", run_nothing_run, 4),
    ROW("lanes", run_lanes, 1),
    ROW("lanes", run_lanes, 2),
    ROW("lanes", run_lanes, 3),
    ROW("all channels", run_all_channels, 1),
    ROW("all channels", run_all_channels, 2),
    ROW("a laggard", run_laggard, 3),
    ROW("a laggard", run_laggard, 4),
    ROW("orders of ranks", run_orders, 1),
    ROW("orders of ranks", run_orders, 4),
    ROW("orders of ranks", run_orders, 7),
};

int main(void)
{
    return scenarios_run("split", scenarios, LENGTH(scenarios));
}
