#include "soak.h"

#include <stdio.h>
#include <string.h>

enum manner { BLOCKING, WORKS, GROUP, GROUP_WORK, PREPARED, MANNERS };

/* That a call did well; or that it failed as it should because of a rank that fell, which ends the soak. Where the fallen
 * one was not part of it, it fails because another rank, which has ended its soak, has left. */
static bool did_well(struct soak *soak, plait_status status, const char *what)
{
    char culprit[16];
    if (status == PLAIT_OK || soak->tour->end == PLAIT_OK)
        return rank_ok(soak->rank, status, what);
    soak->over = true;
    if (status == PLAIT_PEER_LOST && strstr(plait_last_error(), "left the world") != NULL)
        return false;
    snprintf(culprit, sizeof culprit, "rank %d", soak->tour->culprit);
    rank_status(soak->rank, status, soak->tour->end, what);
    rank_says(soak->rank, culprit);
    return false;
}

/* -------------------------------------------------------------------- communicators */

/* Of some ranks, the same on all: those whose bit is set, and one more for sure. */
static void make_group(struct soak *soak, uint64_t what)
{
    struct rank *rank = soak->rank;
    int members[RANKS_MOST], count = 0;
    bool member = false;
    for (int i = rank->size - 1; i >= 0; i--)
        if ((what >> i & 1) || i == (int)(what >> 32) % rank->size) {
            members[count++] = i;
            member |= i == rank->number;
        }
    if (member)
        did_well(soak,
                 plait_comm_group(rank->comm, members, count, (int)(what & 0xffff), NULL, &soak->comms[3]),
                 "making a communicator of some ranks");
}

/* Slot 1: two halves; 2: all, in another order; 3: some. */
static void make_comm(struct soak *soak, int slot, uint64_t what)
{
    struct rank *rank = soak->rank;
    if (soak->comms[slot] != NULL)
        rank_ok(rank, plait_comm_destroy(soak->comms[slot]), "destroying a communicator");
    soak->comms[slot] = NULL;
    if (slot == 3) {
        make_group(soak, what);
        return;
    }
    const int colour = slot == 1 ? rank->number % 2 : 0;
    const int key = slot == 1 ? rank->number : (int)((unsigned)rank->number * 5 + what % 7) % 9;
    did_well(soak, plait_comm_split(rank->comm, colour, key, NULL, &soak->comms[slot]), "splitting");
}

/* --------------------------------------------------------------------------- manners */

/* An order of the items, this rank's own, that keeps the order within each communicator. */
static void shuffle(const struct soak *soak, int count, uint64_t random, int order[ITEMS])
{
    bool taken[ITEMS] = { false };
    for (int i = 0; i < count; i++) {
        int pick = (int)(mix(random + (uint64_t)i) % (uint64_t)count);
        while (taken[pick])
            pick = (pick + 1) % count;
        for (int before = pick - 1; before >= 0; before--)
            if (!taken[before] && soak->items[before].comm == soak->items[pick].comm)
                pick = before;
        taken[pick] = true;
        order[i] = pick;
    }
}

static plait_status wait_for(plait_work **work, uint64_t random)
{
    plait_status status = PLAIT_OK;
    if (*work == NULL)
        return status;
    if (random % 3 == 0)
        do
            status = plait_work_wait(*work, (int64_t)(random >> 8) % 3);
        while (status == PLAIT_IN_PROGRESS);
    else
        status = plait_work_wait(*work, -1);
    plait_work_release(*work);
    *work = NULL;
    return status;
}

static plait_status call_blocking(struct soak *soak, int count)
{
    plait_status status = PLAIT_OK;
    for (int i = 0; i < count && status == PLAIT_OK; i++) {
        struct item *item = &soak->items[i];
        status = item_call(item, item->kind == ITEM_MESSAGE);
        for (int work = 0; work < 2 && status == PLAIT_OK; work++)
            status = wait_for(&item->works[work], 1);
    }
    return status;
}

static plait_status call_works(struct soak *soak, int count, uint64_t mine)
{
    int order[ITEMS];
    plait_status status = PLAIT_OK;
    shuffle(soak, count, mine, order);
    for (int i = 0; i < count && status == PLAIT_OK; i++)
        status = item_call(&soak->items[order[i]], true);
    const int first = (int)(mix(mine) % (uint64_t)count);
    for (int i = 0; i < 2 * count && status == PLAIT_OK; i++) /* in an order of its own */
        status = wait_for(&soak->items[(first + count - i % count) % count].works[i / count],
                          mix(mine + 77 + (uint64_t)i));
    return status;
}

static plait_status call_grouped(struct soak *soak, int count, uint64_t mine)
{
    int order[ITEMS];
    shuffle(soak, count, mine, order);
    plait_status status = plait_group_begin();
    for (int i = 0; i < count && status == PLAIT_OK; i++)
        status = item_call(&soak->items[order[i]], false);
    return status;
}

static plait_status end_group(bool as_work, uint64_t mine)
{
    plait_work *work = NULL;
    plait_status status = plait_group_end(as_work ? &work : NULL);
    return status == PLAIT_OK ? wait_for(&work, mine) : status;
}

static plait_status start_prepared(struct soak *soak, int count, uint64_t how, uint64_t mine)
{
    plait_prepared *prepared = NULL;
    plait_status status = plait_group_prepare(&prepared);
    const int starts = 1 + (int)(how % 3);
    for (int start = 0; start < starts && status == PLAIT_OK; start++) {
        plait_work *work = NULL;
        for (int i = 0; i < count && start > 0; i++) {
            struct item *item = &soak->items[i];
            item_fill(item);
        }
        status = plait_prepared_start(prepared, mix(mine + (uint64_t)start) % 2 ? &work : NULL);
        if (status == PLAIT_OK)
            status = wait_for(&work, mine >> start);
    }
    plait_prepared_release(prepared);
    return status;
}

static plait_status call_all(struct soak *soak, int count, enum manner manner, uint64_t how, uint64_t mine)
{
    if (manner == BLOCKING)
        return call_blocking(soak, count);
    if (manner == WORKS)
        return call_works(soak, count, mine);
    plait_status status = call_grouped(soak, count, mine);
    if (status != PLAIT_OK)
        return status;
    return manner == PREPARED ? start_prepared(soak, count, how, mine)
                              : end_group(manner == GROUP_WORK, mine);
}

/* ------------------------------------------------------------------------------ steps */

static void check_items(struct soak *soak, int count)
{
    char why[300];
    for (int i = 0; i < count; i++) {
        struct item *item = &soak->items[i];
        if (!rank_check(soak->rank, item_right(item, why, sizeof why), "%s (%s): %s", item->text,
                        item->comm == NULL ? "" : plait_comm_last_plan(item->comm), why))
            return;
        soak->digest = mix(soak->digest ^ item_sum(item));
    }
}

void soak_step(struct soak *soak, int step)
{
    static const char *const names[MANNERS] = { "blocking", "works", "a group", "a group's work",
                                                "prepared" };
    struct rank *rank = soak->rank;
    const uint64_t what = mix(test_settings()->seed * 1000003 + (uint64_t)step);
    const uint64_t how = mix(what + soak->tour->salt), mine = mix(how + (uint64_t)rank->number);
    const enum manner manner = soak->tour->plain ? BLOCKING : (enum manner)(how % MANNERS);
    const int count = 1 + (int)(what % ITEMS);
    rank_doing(rank, "seed %llu, step %d: preparing", (unsigned long long)test_settings()->seed, step);
    if (what >> 8 & 1 && what >> 9 & 1 && what >> 10 & 1)
        make_comm(soak, 1 + (int)((what >> 12) % (COMMS - 1)), what >> 16);
    char text[ITEMS * (sizeof soak->items[0].text + 2) + 1] = "";
    for (int i = 0; i < count && !soak->over && !rank_failed(rank); i++) {
        const uint64_t draw = mix(what + 100 + (uint64_t)i);
        if (!soak->tour->plain)
            item_move(rank, &soak->items[i], mix(mine + (uint64_t)i));
        item_prepare(&soak->items[i], soak->comms[draw % COMMS], mix(draw), mix(mine + 50 + (uint64_t)i));
        snprintf(text + strlen(text), sizeof text - strlen(text), "; %s", soak->items[i].text);
    }
    if (soak->over || rank_failed(rank))
        return;
    rank_doing(rank, "seed %llu, step %d, %s%s", (unsigned long long)test_settings()->seed, step,
               names[manner], text);
    char name[200];
    snprintf(name, sizeof name, "seed %llu, step %d, %s%.130s", (unsigned long long)test_settings()->seed,
             step, names[manner], text);
    if (did_well(soak, call_all(soak, count, manner, how, mine), name))
        check_items(soak, count);
}

/* ------------------------------------------------------------------- opening, closing */

bool soak_open(struct soak *soak, struct rank *rank)
{
    const size_t most_size = MOST_SIZE / (size_t)rank->size;
    soak->rank = rank;
    soak->tour = rank->context;
    soak->comms[0] = rank->comm;
    bool open = made_ops_open(rank, &soak->ops);
    for (int i = 0; i < ITEMS; i++)
        open = open &&
               rank_check(rank, item_open(&soak->items[i], &soak->ops, most_size, rank->size), "no memory");
    for (int slot = 1; slot < COMMS && open && !soak->over; slot++)
        make_comm(soak, slot, mix((uint64_t)slot));
    return open;
}

void soak_close(struct soak *soak)
{
    struct rank *rank = soak->rank;
    if (rank_failed(rank))
        return; /* the harness tells the others, and the test is over */
    if (soak->over) { /* what failed may still run until the world has ended */
        rank_ok(rank, plait_world_destroy(rank->world), "destroying the world");
        rank->world = NULL;
    }
    for (int slot = 1; slot < COMMS && rank->world != NULL; slot++)
        rank_ok(rank, plait_comm_destroy(soak->comms[slot]), "destroying a communicator");
    for (int i = 0; i < ITEMS; i++)
        item_close(rank, &soak->items[i]);
    made_ops_close(rank, &soak->ops);
}
