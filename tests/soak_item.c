#include "soak_item.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------- the caller's operations */

static int add_all(void *context, const void *left, void *right, size_t count, plait_type type)
{
    const uint64_t *lefts = left;
    uint64_t *rights = right;
    (void)context;
    for (size_t i = 0; i < count; i++)
        rights[i] += lefts[i];
    return type == PLAIT_U64 ? 0 : 99;
}

/* Maps x -> a x + b modulo 2^32, one after the other: associative, not commutative. */
static uint64_t compose(uint64_t left, uint64_t right)
{
    const uint32_t a = (uint32_t)(left >> 32), b = (uint32_t)left;
    return (uint64_t)(a * (uint32_t)(right >> 32)) << 32 | (uint32_t)(a * (uint32_t)right + b);
}

static int compose_all(void *context, const void *left, void *right, size_t count, plait_type type)
{
    const uint64_t *lefts = left;
    uint64_t *rights = right;
    (void)context;
    for (size_t i = 0; i < count; i++)
        rights[i] = compose(lefts[i], rights[i]);
    return type == PLAIT_U64 ? 0 : 99;
}

static uint64_t factor_of(int world_rank)
{
    return 3 + 2 * (uint64_t)world_rank;
}

bool made_ops_open(struct rank *rank, struct made_ops *ops)
{
    const uint64_t factor = factor_of(rank->number);
    plait_function_op add = {
        .struct_size = sizeof add, .name = "add", .function = add_all, .commutative = 1
    };
    plait_function_op composing = { .struct_size = sizeof composing,
                                    .name = "compose",
                                    .function = compose_all };
    return rank_ok(rank, plait_op_create_function(&add, &ops->add), "making an operation") &&
           rank_ok(rank, plait_op_create_function(&composing, &ops->compose), "making an operation") &&
           rank_ok(rank, plait_op_create_premul(PLAIT_U64, &factor, &ops->multiplied), "making an operation");
}

void made_ops_close(struct rank *rank, const struct made_ops *ops)
{
    rank_ok(rank, plait_op_destroy(ops->add), "destroying an operation");
    rank_ok(rank, plait_op_destroy(ops->compose), "destroying an operation");
    rank_ok(rank, plait_op_destroy(ops->multiplied), "destroying an operation");
}

static bool made_right(const struct item *item, char *why, size_t why_size)
{
    const struct trial *trial = &item->trial;
    const struct made_ops *ops = item->ops;
    const bool scatters = trial->call.kind == CALL_REDUCE_SCATTER;
    const size_t count = trial->output_size / 8;
    const size_t first = scatters ? (size_t)trial->me * trial->call.count : 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t wanted = 0, is;
        for (int from = 0; from < trial->ranks; from++) {
            uint64_t value;
            data_fill(&trial->data, from, first + i, 1, &value);
            if (trial->call.op == ops->multiplied)
                value *= factor_of(plait_comm_world_rank(item->comm, from));
            if (from == 0)
                wanted = value;
            else
                wanted = trial->call.op == ops->compose ? compose(wanted, value) : wanted + value;
        }
        memcpy(&is, trial->output + 8 * i, 8);
        if (is != wanted) {
            snprintf(why, why_size, "element %zu is %#llx, not %#llx", i, (unsigned long long)is,
                     (unsigned long long)wanted);
            return false;
        }
    }
    return true;
}

/* --------------------------------------------------------------------------- memory */

static bool place_leave(struct rank *rank, struct place *place)
{
    plait_status status = PLAIT_OK;
    if (place->kind == MEMORY_REGISTERED && rank->world != NULL) /* else it has ended, and that with it */
        status = plait_mem_deregister(rank->world, place->room->room);
    if (place->kind == MEMORY_ALLOCATED && rank->world != NULL)
        status = plait_mem_free(rank->world, place->room->room);
    if (place->kind == MEMORY_ALLOCATED)
        *place->room = place->own;
    place->kind = MEMORY_PRIVATE;
    return rank_ok(rank, status, "giving memory back");
}

static void place_move(struct rank *rank, struct place *place, enum memory_kind kind)
{
    if (!place_leave(rank, place))
        return;
    plait_status status = PLAIT_OK;
    void *memory = NULL;
    if (kind == MEMORY_REGISTERED)
        status = plait_mem_register(rank->world, place->room->room, place->room->room_size);
    if (kind == MEMORY_ALLOCATED)
        status = plait_mem_alloc(rank->world, place->room->room_size, &memory);
    if (!rank_ok(rank, status, kind == MEMORY_ALLOCATED ? "allocating" : "registering"))
        return;
    place->own = *place->room;
    if (memory != NULL)
        place->room->room = memory;
    place->kind = kind;
}

void item_move(struct rank *rank, struct item *item, uint64_t random)
{
    for (int i = 0; i < ITEM_PLACES && !rank_failed(rank); i++) {
        const uint64_t draw = mix(random + (uint64_t)i);
        if (draw % 4 == 0)
            place_move(rank, &item->places[i], (enum memory_kind)((draw >> 8) % MEMORY_KINDS));
    }
}

bool item_open(struct item *item, const struct made_ops *ops, size_t most_size, int ranks)
{
    memset(item, 0, sizeof *item);
    item->ops = ops;
    item->most_size = most_size;
    if (!trial_open(&item->trial, most_size, ranks) || !uneven_open(&item->uneven, most_size, ranks))
        return false;
    struct guarded *rooms[ITEM_PLACES] = { &item->trial.input_room, &item->trial.output_room,
                                           &item->uneven.input_room, &item->uneven.output_room };
    for (int i = 0; i < ITEM_PLACES; i++)
        item->places[i].room = rooms[i];
    return true;
}

void item_close(struct rank *rank, struct item *item)
{
    for (int i = 0; i < ITEM_PLACES; i++)
        if (item->places[i].room != NULL)
            place_leave(rank, &item->places[i]);
    trial_close(&item->trial);
    uneven_close(&item->uneven);
}

/* ---------------------------------------------------------------------------- drawing */

/* Edges most of the time; blocks of all the room now and then. */
static size_t count_drawn(uint64_t random, size_t most, int ranks)
{
    static const size_t edges[] = { 0, 1, 2, 5, 7, 13, 64, 127, 511, 1021, 2003, 4099 };
    const size_t edge = edges[random / 16 % (sizeof edges / sizeof edges[0])];
    size_t count = edge;
    if (random % 16 == 0)
        count = random / 16 % (most + 1);
    else if (random % 16 < 3)
        count = (size_t)ranks - 1;
    return count < most ? count : most;
}

static void draw_fixed(struct item *item, int ranks)
{
    const uint64_t what = item->what;
    struct call call = { .kind = (enum call_kind)(mix(what) % CALL_KINDS),
                         .root = (int)(what >> 20 & 0xff) % ranks };
    data_choose(mix(what + 1), call_reduces(call.kind), &call.type, &call.op);
    if (item->kind == ITEM_MADE) {
        static const enum call_kind kinds[] = { CALL_ALLREDUCE, CALL_REDUCE, CALL_REDUCE_SCATTER };
        const plait_op ops[] = { item->ops->add, item->ops->compose, item->ops->multiplied };
        call.kind = kinds[mix(what) % 3];
        call.type = PLAIT_U64;
        call.op = ops[mix(what + 1) % 3];
    }
    call.count = count_drawn(what >> 28, item->most_size / data_size(call.type), ranks);
    struct layout layout = layout_drawn(call.kind, mix(item->how));
    layout.special = mix(what + 2) % 4 == 0;
    trial_prepare(&item->trial, &call, &layout, what, plait_comm_rank(item->comm), ranks);
    call_text(&call, item->text, sizeof item->text);
}

static void draw_uneven(struct item *item, int ranks)
{
    const uint64_t what = item->what;
    struct uneven_call call = { .kind = (enum uneven_kind)(mix(what) % UNEVEN_KINDS),
                                .root = (int)(what >> 20 & 0xff) % ranks,
                                .in_place = what >> 10 & 1,
                                .gaps = what >> 11 & 1,
                                .seed = what };
    data_choose(mix(what + 1), call.kind == UNEVEN_REDUCE_SCATTER, &call.type, &call.op);
    call.most = count_drawn(what >> 28, item->most_size / data_size(call.type), ranks);
    uneven_prepare(&item->uneven, &call, plait_comm_rank(item->comm), ranks);
    snprintf(item->text, sizeof item->text, "%s of up to %zu %s, root %d", uneven_name(call.kind), call.most,
             plait_type_name(call.type), call.root);
}

/* To the next rank; what comes from the last one is where a broadcast's data would be. */
static void draw_message(struct item *item, int ranks)
{
    struct layout layout = layout_drawn(CALL_ALLREDUCE, mix(item->how));
    layout.in_place = layout.special = false;
    struct call call = { .kind = CALL_ALLREDUCE };
    data_choose(mix(item->what + 1), false, &call.type, &call.op);
    call.count = count_drawn(item->what >> 28, item->most_size / data_size(call.type), ranks);
    trial_prepare(&item->trial, &call, &layout, item->what, plait_comm_rank(item->comm), ranks);
    snprintf(item->text, sizeof item->text, "a message of %zu %s to the next rank", call.count,
             plait_type_name(call.type));
}

void item_prepare(struct item *item, plait_comm *comm, uint64_t what, uint64_t how)
{
    static const enum item_kind kinds[] = { ITEM_FIXED,  ITEM_FIXED,  ITEM_FIXED, ITEM_FIXED,
                                            ITEM_UNEVEN, ITEM_UNEVEN, ITEM_MADE,  ITEM_MESSAGE };
    item->kind = kinds[what % 8];
    item->text[0] = '\0';
    item->comm = comm;
    item->what = mix(what);
    item->how = how;
    item_fill(item);
}

void item_fill(struct item *item)
{
    if (item->comm == NULL)
        return;
    const int ranks = plait_comm_size(item->comm);
    switch (item->kind) {
    case ITEM_FIXED:
    case ITEM_MADE: draw_fixed(item, ranks); break;
    case ITEM_UNEVEN: draw_uneven(item, ranks); break;
    case ITEM_MESSAGE: draw_message(item, ranks); break;
    }
}

/* ------------------------------------------------------------------- calling, checking */

static plait_status call_message(struct item *item, bool as_works)
{
    const struct trial *trial = &item->trial;
    plait_work **sent = as_works ? &item->works[0] : NULL, **came = as_works ? &item->works[1] : NULL;
    const int next = (trial->me + 1) % trial->ranks, last = (trial->me + trial->ranks - 1) % trial->ranks;
    const int tag = (int)(item->what & 0x7fffffff);
    if (trial->ranks == 1)
        return PLAIT_OK;
    plait_status status =
        plait_send(item->comm, trial->input, trial->call.count, trial->call.type, next, tag, sent);
    if (status == PLAIT_OK)
        status = plait_recv(item->comm, trial->output, trial->call.count, trial->call.type,
                            item->how & 2 ? last : PLAIT_ANY_SOURCE, tag, NULL, NULL, came);
    return status;
}

plait_status item_call(struct item *item, bool as_works)
{
    plait_work **work = as_works ? &item->works[0] : NULL;
    if (item->comm == NULL)
        return PLAIT_OK;
    switch (item->kind) {
    case ITEM_MESSAGE: return call_message(item, as_works);
    case ITEM_UNEVEN: return uneven_make(&item->uneven, item->comm, work);
    default: return trial_call(&item->trial, item->comm, work);
    }
}

static bool message_right(struct item *item, char *why, size_t why_size)
{
    struct trial *trial = &item->trial;
    const int last = (trial->me + trial->ranks - 1) % trial->ranks;
    size_t wrong = 0;
    if (trial->ranks == 1 || data_equal(&trial->data, last, 0, trial->call.count, trial->output, &wrong))
        return trial_surroundings_right(trial, why, why_size);
    snprintf(why, why_size, "element %zu is not rank %d's", wrong, last);
    return false;
}

bool item_right(struct item *item, char *why, size_t why_size)
{
    if (item->comm == NULL)
        return true;
    switch (item->kind) {
    case ITEM_MESSAGE: return message_right(item, why, why_size);
    case ITEM_UNEVEN: return uneven_right(&item->uneven, why, why_size);
    case ITEM_MADE:
        return trial_surroundings_right(&item->trial, why, why_size) && made_right(item, why, why_size);
    default: return trial_right(&item->trial, why, why_size);
    }
}

uint64_t item_sum(const struct item *item)
{
    if (item->comm == NULL)
        return 0;
    if (item->kind == ITEM_UNEVEN)
        return data_checksum(item->uneven.output, item->uneven.output_size);
    return trial_output_sum(&item->trial);
}
