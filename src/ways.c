/* Which way large private buffers go between the ranks of a host, tried out when a world starts: through staging,
 * or pulled out of the peer's memory (process_vm_readv). Containers and security modules may forbid pulling, and
 * where it works it is not always faster: it saves a copy and pays for a system call that pins pages. So every rank
 * tries to reach all others, and ranks 0 and 1 move a block each way. */
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "calls.h"
#include "device/copy.h"
#include "device/pull.h"
#include "world.h"

enum way { WAY_STAGED, WAY_PULLED, WAYS };

enum {
    PULL_FROM = 32 << 10, /* bytes of a block; below, the system call costs more than a copy does */
    BLOCK = 128 << 10,    /* bytes that are moved; freshly written ones, as what a program sends is */
    TURNS = 5,            /* of each way; the first warms up */
    ROUNDS = 3 /* as long as ranks 0 and 1 share a core, which processes that have just started may do */
};

/* A tie goes to pulling: a buffer that its owner has not written since the last call comes out of the puller's own
 * caches, which no trial shows. */
static const double NO_WORSE = 1.1;

/* Near cores, whose staging stays in the cache they share, pull only where that wins so clearly. */
static const double CLEARLY = 0.7;

enum ability { UNABLE, ABLE, ALWAYS };
/* Where a rank can be tried at, and what is to be found there. */
struct sample {
    uint64_t address, value;
};

static plait_status gather_samples(struct comm *comm, const struct sample *mine, struct sample *all)
{
    struct call call = {
        .kind = COLLECTIVE_ALLGATHER, .type = PLAIT_U64, .count = 2, .input = mine, .output = all
    };
    return calls_run(comm, &call);
}

/* Does this rank get at the memory of all others? */
static bool reaches_all(const struct world *world, const struct sample *samples)
{
    for (int rank = 0; rank < world->size; rank++) {
        uint64_t value;
        if (pull(world->members[rank].pid, &value, samples[rank].address, sizeof value) != 0 ||
            value != samples[rank].value)
            return false;
    }
    return true;
}

/* The least of all ranks' abilities. Until it is known every rank's sample stays where it is. */
static plait_status agree(struct comm *comm, int32_t *ability)
{
    struct call call = { .kind = COLLECTIVE_ALLREDUCE,
                         .type = PLAIT_I32,
                         .op = PLAIT_MIN,
                         .count = 1,
                         .input = ability,
                         .output = ability };
    return calls_run(comm, &call);
}

static plait_status try_peers(struct world *world, struct comm *comm, int32_t *ability)
{
    struct sample *samples = malloc((size_t)world->size * sizeof *samples);
    if (samples == NULL)
        return failure(PLAIT_OUT_OF_MEMORY, "no memory to start a world of %d ranks", world->size);
    struct sample mine = { .value = (uint64_t)world->rank << 32 | UINT32_C(0x706c7431) };
    mine.address = (uint64_t)(uintptr_t)&mine.value;
    plait_status status = gather_samples(comm, &mine, samples);
    if (status == PLAIT_OK) {
        bool able = world->settings.pulls != PULLS_NEVER && reaches_all(world, samples);
        *ability = !able ? UNABLE : world->settings.pulls == PULLS_ALWAYS ? ALWAYS : ABLE;
        status = agree(comm, ability);
    }
    free(samples);
    return status;
}

/* ------------------------------------------------------------------- trials */

struct trial {
    struct world *world;
    struct comm *comm;
    unsigned char *block, *place;
    uint64_t address;     /* of rank 0's block */
    double best_ns[WAYS]; /* this rank's part of it */
};

static plait_status meet(struct comm *comm)
{
    struct call barrier = { .kind = COLLECTIVE_BARRIER };
    return calls_run(comm, &barrier);
}

/* Rank 0's part: the block, just written, is staged unless it is pulled. */
static void give(const struct trial *trial, enum way way)
{
    const struct group *group = &trial->comm->group;
    if (way == WAY_STAGED)
        (group->streamed ? copy_streamed : copy_cached)(group->staging.base[0], trial->block, BLOCK);
}

/* Rank 1's. */
static void take(const struct trial *trial, enum way way)
{
    if (way == WAY_STAGED)
        copy_cached(trial->place, trial->comm->group.staging.base[0], BLOCK);
    else
        pull(trial->world->members[0].pid, trial->place, trial->address, BLOCK);
}

/* One after the other, each timed by itself: so it matters little how late a rank comes. */
static plait_status move_block(struct trial *trial, enum way way, int turn)
{
    int rank = trial->world->rank;
    int64_t took = 0;
    if (rank == 0) {
        memset(trial->block, turn, BLOCK);
        int64_t start = clock_ns();
        give(trial, way);
        took = clock_ns() - start;
    }
    plait_status status = meet(trial->comm);
    if (rank == 1) {
        int64_t start = clock_ns();
        take(trial, way);
        took = clock_ns() - start;
    }
    if (turn > 0 && (double)took < trial->best_ns[way])
        trial->best_ns[way] = (double)took;
    return status == PLAIT_OK ? meet(trial->comm) : status;
}

/* Moves the block each way, and sums up both ranks' parts. *apart: they ran on two cores. */
static plait_status hold_round(struct trial *trial, double total_ns[WAYS], bool *apart)
{
    for (int way = 0; way < WAYS; way++)
        trial->best_ns[way] = INFINITY;
    for (int turn = 0; turn < TURNS; turn++)
        for (int way = 0; way < WAYS; way++) {
            plait_status status = move_block(trial, (enum way)way, turn);
            if (status != PLAIT_OK)
                return status;
        }
    int rank = trial->world->rank;
    double sums[WAYS + 1] = { 0 };
    if (rank < 2) {
        memcpy(sums, trial->best_ns, sizeof trial->best_ns);
        sums[WAYS] = rank == 0 ? sched_getcpu() : -sched_getcpu();
    }
    struct call call = { .kind = COLLECTIVE_ALLREDUCE,
                         .type = PLAIT_F64,
                         .op = PLAIT_SUM,
                         .count = WAYS + 1,
                         .input = sums,
                         .output = sums };
    plait_status status = calls_run(trial->comm, &call);
    memcpy(total_ns, sums, WAYS * sizeof *total_ns);
    *apart = sums[WAYS] != 0;
    return status;
}

static plait_status hold_trial(struct trial *trial, double total_ns[WAYS])
{
    uint64_t address = (uint64_t)(uintptr_t)trial->block;
    struct call call = { .kind = COLLECTIVE_BROADCAST,
                         .type = PLAIT_U64,
                         .count = 1,
                         .input = trial->world->rank == 0 ? &address : NULL,
                         .output = &address };
    plait_status status = calls_run(trial->comm, &call);
    trial->address = address;
    bool apart = false;
    for (int round = 0; round < ROUNDS && !apart && status == PLAIT_OK; round++)
        status = hold_round(trial, total_ns, &apart);
    return status;
}

static plait_status time_ways(struct world *world, struct comm *comm, double total_ns[WAYS])
{
    struct trial trial = { .world = world, .comm = comm };
    if (world->rank < 2) {
        trial.block = malloc((size_t)2 * BLOCK);
        if (trial.block == NULL)
            return failure(PLAIT_OUT_OF_MEMORY, "no memory to try out ways between ranks");
        trial.place = trial.block + BLOCK;
        memset(trial.place, 0, BLOCK);
    }
    plait_status status = hold_trial(&trial, total_ns);
    free(trial.block);
    return status;
}

plait_status world_try_ways(struct world *world)
{
    struct comm *comm = world->comms;
    if (world->size < 2 || comm->group.board == NULL || comm->group.staging.size < BLOCK)
        return PLAIT_OK;
    int32_t ability = UNABLE;
    double total_ns[WAYS];
    plait_status status = try_peers(world, comm, &ability);
    bool pulls = ability == ALWAYS, wins = false;
    if (status == PLAIT_OK && ability == ABLE) {
        status = time_ways(world, comm, total_ns);
        pulls = status == PLAIT_OK && total_ns[WAY_PULLED] <= NO_WORSE * total_ns[WAY_STAGED];
        wins = pulls && !comm->group.far && total_ns[WAY_PULLED] <= CLEARLY * total_ns[WAY_STAGED];
        if (status == PLAIT_OK)
            log_debug("%d bytes of rank 0 reach rank 1 in %.1f us through staging and in %.1f us pulled",
                      BLOCK, total_ns[WAY_STAGED] / 1e3, total_ns[WAY_PULLED] / 1e3);
    }
    comm->group.pull_from = world->pull_from = pulls ? PULL_FROM : 0;
    comm->group.pull_near = world->pull_near = ability == ALWAYS || wins;
    return status;
}
