/* New communicators of old ones. No connection is opened: the members agree on
 * a channel and a lane that all of them have free, and on the number of the first operation. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/handle.h"
#include "base/status.h"
#include "group_calls.h"
#include "messages.h"
#include "world.h"

/* What a rank has to offer. */
struct offer {
    int32_t colour, key;
    uint64_t highest_number; /* of any operation in a channel that is free */
    unsigned char channels_used[BOARD_CHANNELS / 8];
    uint64_t lanes_used;
};

/* What the members agree on. */
struct verdict {
    int32_t channel; /* -1: no channel is free on all members */
    int32_t lane;    /* -1: none */
    uint64_t first_number;
};

static struct offer make_offer(struct comm *parent, int colour, int key)
{
    struct world *world = parent->world;
    struct offer offer = { .colour = colour, .key = key };
    pthread_mutex_lock(&world->lock);
    comm_sweep(world);
    offer.highest_number = world->highest_number;
    memcpy(offer.channels_used, world->channels_used, sizeof offer.channels_used);
    offer.lanes_used = world->lanes_used;
    pthread_mutex_unlock(&world->lock);
    return offer;
}

static void merge(struct offer *sum, const struct offer *offer)
{
    if (sum->highest_number < offer->highest_number)
        sum->highest_number = offer->highest_number;
    for (size_t i = 0; i < sizeof sum->channels_used; i++)
        sum->channels_used[i] |= offer->channels_used[i];
    sum->lanes_used |= offer->lanes_used;
}

static struct verdict judge(const struct offer *sum)
{
    struct verdict verdict = { .channel = -1, .lane = -1, .first_number = sum->highest_number + 1 };
    for (int channel = 0; channel < BOARD_CHANNELS && verdict.channel < 0; channel++)
        if ((sum->channels_used[channel / 8] >> channel % 8 & 1) == 0)
            verdict.channel = channel;
    for (int lane = 0; lane < STAGING_LANES && verdict.lane < 0; lane++)
        if ((sum->lanes_used >> lane & 1) == 0)
            verdict.lane = lane;
    return verdict;
}

static plait_status check_options(const plait_comm_options *options, plait_comm_options *known,
                                  const char *function)
{
    memset(known, 0, sizeof *known);
    if (options == NULL)
        return PLAIT_OK;
    size_t size = options->struct_size == 0 ? sizeof *known : options->struct_size;
    if (size < sizeof(size_t) || size > 65536)
        return failure(PLAIT_INVALID_ARGUMENT,
                       "%s: options->struct_size is %zu; set it to sizeof(plait_comm_options)", function,
                       size);
    for (size_t i = sizeof *known; i < size; i++)
        if (((const unsigned char *)options)[i] != 0)
            return failure(PLAIT_UNSUPPORTED,
                           "%s: options has fields that this version of the library (%s) does not know",
                           function, plait_version());
    memcpy(known, options, size < sizeof *known ? size : sizeof *known);
    return PLAIT_OK;
}

/* Takes the channel and lane that were agreed on. */
static plait_status claim(struct world *world, const struct verdict *verdict, int members)
{
    if (verdict->channel < 0)
        return failure(PLAIT_OUT_OF_RESOURCES,
                       "no place is free on all %d members: a rank can be in %d communicators at a time; "
                       "destroy some",
                       members, BOARD_CHANNELS);
    pthread_mutex_lock(&world->lock);
    bool taken = comm_places_used(world, verdict->channel, verdict->lane);
    if (!taken)
        comm_use_places(world, verdict->channel, verdict->lane, true);
    pthread_mutex_unlock(&world->lock);
    if (!taken)
        return PLAIT_OK;
    return failure(PLAIT_INVALID_USAGE,
                   "two threads make communicators of one world at the same time; let one "
                   "thread make them");
}

static void unclaim(struct world *world, const struct verdict *verdict)
{
    pthread_mutex_lock(&world->lock);
    comm_use_places(world, verdict->channel, verdict->lane, false);
    pthread_mutex_unlock(&world->lock);
}

/* Claims what was agreed and makes the communicator. `ranks` are the parent's. */
static plait_status make(struct comm *parent, const int *ranks, int count, const struct verdict *verdict,
                         const plait_comm_options *options, plait_comm **out)
{
    struct world *world = parent->world;
    int *world_ranks = malloc((size_t)count * sizeof *world_ranks);
    if (world_ranks == NULL)
        return failure(PLAIT_OUT_OF_MEMORY, "no memory for a communicator of %d ranks", count);

    char name[64];
    snprintf(name, sizeof name, "%.40s/%d", parent->name, ++parent->made);
    struct comm_plan plan = { .world_ranks = world_ranks,
                              .ranks = count,
                              .channel = verdict->channel,
                              .lane = verdict->lane,
                              .first_number = verdict->first_number,
                              .timeout_ms = options->timeout_ms != 0 ? options->timeout_ms
                                                                     : atomic_load(&parent->timeout_ms),
                              .name = options->name != NULL ? options->name : name };
    for (int i = 0; i < count; i++) {
        world_ranks[i] = parent->world_ranks[ranks[i]];
        if (ranks[i] == parent->group.rank)
            plan.rank = i;
    }
    struct comm *comm;
    plait_status status = claim(world, verdict, count);
    if (status != PLAIT_OK)
        goto cleanup;
    status = comm_make(world, &plan, &comm);
    if (status == PLAIT_OK)
        *out = comm->handle;
    else
        unclaim(world, verdict);

cleanup:
    free(world_ranks);
    return status;
}

/* ----------------------------------------------------------------------- split */

static plait_status gather_offers(struct comm *parent, const struct offer *mine, struct offer *offers)
{
    return plait_allgather(parent->handle, mine, offers, sizeof *mine, PLAIT_U8, NULL);
}

/* The ranks of a colour, by key, then by rank. Returns how many. */
static int pick(const struct offer *offers, int ranks, int colour, int *picked)
{
    int count = 0;
    for (int rank = 0; rank < ranks; rank++) {
        if (offers[rank].colour != colour)
            continue;
        int place = count++;
        for (; place > 0 && offers[picked[place - 1]].key > offers[rank].key; place--)
            picked[place] = picked[place - 1];
        picked[place] = rank;
    }
    return count;
}

static plait_status split(struct comm *parent, int colour, int key, const plait_comm_options *options,
                          plait_comm **out)
{
    int ranks = parent->group.ranks;
    struct offer mine = make_offer(parent, colour, key);
    struct offer *offers = malloc((size_t)ranks * sizeof *offers);
    int *picked = calloc((size_t)ranks, sizeof *picked);
    plait_status status = PLAIT_OK;
    if (offers == NULL || picked == NULL) {
        status = failure(PLAIT_OUT_OF_MEMORY, "no memory for a split of %d ranks", ranks);
        goto cleanup;
    }
    status = gather_offers(parent, &mine, offers);
    if (status != PLAIT_OK)
        goto cleanup;
    if (colour == PLAIT_NO_COLOUR) {
        *out = NULL;
        goto cleanup;
    }
    int count = pick(offers, ranks, colour, picked);
    struct offer sum = offers[picked[0]];
    for (int i = 1; i < count; i++)
        merge(&sum, &offers[picked[i]]);
    struct verdict verdict = judge(&sum);
    status = make(parent, picked, count, &verdict, options, out);

cleanup:
    free(picked);
    free(offers);
    return status;
}

plait_status plait_comm_split(plait_comm *handle, int colour, int key, const plait_comm_options *options,
                              plait_comm **out)
{
    struct comm *parent = comm_find(handle, __func__);
    if (parent == NULL)
        return handle_refusal(handle);
    if (group_is_open())
        return group_refuse_open(__func__);
    if (out == NULL)
        return failure(PLAIT_INVALID_ARGUMENT, "%s: comm is NULL", __func__);
    if (colour < 0 && colour != PLAIT_NO_COLOUR)
        return failure(PLAIT_INVALID_ARGUMENT,
                       "%s: colour is %d; colours are 0 .. 2147483647, or PLAIT_NO_COLOUR", __func__, colour);
    plait_comm_options known;
    plait_status status = check_options(options, &known, __func__);
    return status == PLAIT_OK ? split(parent, colour, key, &known, out) : status;
}

/* ----------------------------------------------------------------------- group */

static plait_status check_ranks(const struct comm *parent, const int *ranks, int count, int *place,
                                const char *function)
{
    int size = parent->group.ranks;
    if (ranks == NULL)
        return failure(PLAIT_INVALID_ARGUMENT, "%s: ranks is NULL", function);
    if (count < 1 || count > size)
        return failure(PLAIT_INVALID_ARGUMENT,
                       "%s: count is %d; the parent has %d ranks, of which 1 and more can be listed",
                       function, count, size);
    *place = -1;
    for (int i = 0; i < count; i++) {
        if (ranks[i] < 0 || ranks[i] >= size)
            return failure(PLAIT_INVALID_ARGUMENT, "%s: ranks[%d] is %d; the parent has ranks 0..%d",
                           function, i, ranks[i], size - 1);
        for (int j = 0; j < i; j++)
            if (ranks[j] == ranks[i])
                return failure(PLAIT_INVALID_ARGUMENT,
                               "%s: rank %d is listed twice, as ranks[%d] and ranks[%d]", function, ranks[i],
                               j, i);
        if (ranks[i] == parent->group.rank)
            *place = i;
    }
    if (*place < 0)
        return failure(PLAIT_INVALID_ARGUMENT,
                       "%s: the caller, rank %d, is not among the ranks; only members call it", function,
                       parent->group.rank);
    return PLAIT_OK;
}

/* The first member hears all offers and tells the verdict. */
static plait_status lead(struct comm *parent, const int *ranks, int count, int tag, struct verdict *verdict)
{
    struct offer sum = make_offer(parent, 0, 0), offer;
    for (int i = 1; i < count; i++) {
        plait_status status = message_recv(parent, CONTEXT_GROUPS, &offer, sizeof offer, ranks[i], tag);
        if (status != PLAIT_OK)
            return status;
        merge(&sum, &offer);
    }
    *verdict = judge(&sum);
    for (int i = 1; i < count; i++) {
        plait_status status = message_send(parent, CONTEXT_GROUPS, verdict, sizeof *verdict, ranks[i], tag);
        if (status != PLAIT_OK)
            return status;
    }
    return PLAIT_OK;
}

static plait_status follow(struct comm *parent, int leader, int tag, struct verdict *verdict)
{
    struct offer offer = make_offer(parent, 0, 0);
    plait_status status = message_send(parent, CONTEXT_GROUPS, &offer, sizeof offer, leader, tag);
    if (status == PLAIT_OK)
        status = message_recv(parent, CONTEXT_GROUPS, verdict, sizeof *verdict, leader, tag);
    return status;
}

plait_status plait_comm_group(plait_comm *handle, const int *ranks, int count, int tag,
                              const plait_comm_options *options, plait_comm **out)
{
    struct comm *parent = comm_find(handle, __func__);
    if (parent == NULL)
        return handle_refusal(handle);
    if (group_is_open())
        return group_refuse_open(__func__);
    if (out == NULL)
        return failure(PLAIT_INVALID_ARGUMENT, "%s: comm is NULL", __func__);
    if (tag < 0)
        return failure(PLAIT_INVALID_ARGUMENT, "%s: tag is %d; tags are 0 .. 2147483647", __func__, tag);
    int place = -1;
    plait_comm_options known;
    plait_status status = check_ranks(parent, ranks, count, &place, __func__);
    if (status == PLAIT_OK)
        status = check_options(options, &known, __func__);
    if (status != PLAIT_OK)
        return status;

    struct verdict verdict;
    status = place == 0 ? lead(parent, ranks, count, tag, &verdict) : follow(parent, ranks[0], tag, &verdict);
    return status == PLAIT_OK ? make(parent, ranks, count, &verdict, &known, out) : status;
}
