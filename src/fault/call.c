#include "fault/call.h"

#include <stdio.h>
#include <string.h>

/* The finaliser of splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators",
 * 2014): a bijection, so unequal words stay unequal. */
static uint64_t mix(uint64_t word)
{
    word = (word ^ word >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    word = (word ^ word >> 27) * UINT64_C(0x94d049bb133111eb);
    return word ^ word >> 31;
}

uint64_t call_print(const struct call *call)
{
    uint64_t shape = (uint64_t)call->kind | (uint64_t)call->uneven << 7 | (uint64_t)call->type << 8 |
                     (uint64_t)call->op << 16 | (uint64_t)(uint32_t)call->root << 32;
    uint64_t print = mix(mix(shape) ^ (call->layout != NULL ? call->layout->print : call->count));
    return call->made == NULL ? print : mix(print ^ call->made->print);
}

enum { DIGESTS = 32 };

/* `count` is of all elements for a v-form. Each digest is of the counts of so many ranks in a row, where all ranks
 * have to give the same counts. */
struct packed_call {
    uint32_t kind, type, op, root;
    uint64_t count;
    uint8_t uneven, function, multiplied; /* the latter two: the operation is a caller's */
    uint32_t ranks;                       /* 0 where there are no digests */
    union {
        uint8_t digests[DIGESTS];
        char name[MADE_OP_NAME_BYTES];
        unsigned char factor[FACTOR_BYTES];
    };
};
_Static_assert(sizeof(struct packed_call) <= CALL_BYTES, "a packed call fits its line");

static uint32_t ranks_a_digest(uint32_t ranks)
{
    return (ranks + DIGESTS - 1) / DIGESTS;
}

static void pack_digests(const struct call *call, struct packed_call *packed)
{
    const struct layout *layout = call->layout;
    enum layout_side side = call->kind == COLLECTIVE_ALLGATHER ? LAYOUT_OUTPUT : LAYOUT_INPUT;
    uint64_t words[DIGESTS] = { 0 };
    packed->ranks = (uint32_t)layout->ranks;
    for (int rank = 0; rank < layout->ranks; rank++) {
        uint32_t digest = (uint32_t)rank / ranks_a_digest(packed->ranks);
        words[digest] = mix(words[digest] + layout_block(layout, side, rank).count + 1);
        packed->digests[digest] = (uint8_t)words[digest];
    }
}

static void pack_made(const struct made_op *op, struct packed_call *packed)
{
    packed->function = op->function != NULL;
    packed->multiplied = op->function == NULL;
    if (packed->function)
        memcpy(packed->name, op->name, sizeof packed->name);
    else
        memcpy(packed->factor, op->factor, sizeof packed->factor);
}

const void *call_factor(const unsigned char bytes[CALL_BYTES])
{
    return bytes + offsetof(struct packed_call, factor);
}

void call_pack(const struct call *call, unsigned char bytes[CALL_BYTES])
{
    struct packed_call packed = { .kind = (uint32_t)call->kind,
                                  .type = (uint32_t)call->type,
                                  .op = (uint32_t)call->op,
                                  .root = (uint32_t)call->root,
                                  .count = call->layout != NULL ? call->layout->total : call->count,
                                  .uneven = call->uneven };
    if (call->made != NULL)
        pack_made(call->made, &packed);
    else if (call->layout != NULL && call->layout->print != 0)
        pack_digests(call, &packed);
    memcpy(bytes, &packed, sizeof packed);
}

struct call call_unpack(const unsigned char bytes[CALL_BYTES])
{
    struct packed_call packed;
    memcpy(&packed, bytes, sizeof packed);
    return (struct call){ .kind = packed.kind < COLLECTIVES ? (enum collective)packed.kind : COLLECTIVES,
                          .type = (plait_type)packed.type,
                          .op = (plait_op)packed.op,
                          .root = (int)packed.root,
                          .count = packed.count,
                          .uneven = packed.uneven != 0 };
}

void call_compare_counts(const unsigned char one[CALL_BYTES], const unsigned char other[CALL_BYTES],
                         char text[CALL_TEXT_BYTES])
{
    struct packed_call a, b;
    memcpy(&a, one, sizeof a);
    memcpy(&b, other, sizeof b);
    text[0] = '\0';
    if (a.ranks == 0 || a.ranks != b.ranks || a.kind != b.kind)
        return;
    uint32_t digest = 0, each = ranks_a_digest(a.ranks);
    while (digest < DIGESTS && a.digests[digest] == b.digests[digest])
        digest++;
    if (digest == DIGESTS)
        return;
    if (each == 1)
        snprintf(text, CALL_TEXT_BYTES, ", whose counts differ first at counts[%u]", digest);
    else
        snprintf(text, CALL_TEXT_BYTES, ", whose counts differ first within counts[%u..%u]", digest * each,
                 (digest + 1) * each - 1);
}

const char *call_operation(const struct call *call)
{
    static const char *const uneven[COLLECTIVES] = {
        [COLLECTIVE_ALLGATHER] = "all-gatherv", [COLLECTIVE_REDUCE_SCATTER] = "reduce-scatterv",
        [COLLECTIVE_GATHER] = "gatherv",        [COLLECTIVE_SCATTER] = "scatterv",
        [COLLECTIVE_ALLTOALL] = "all-to-allv",
    };
    if (call->uneven && (unsigned)call->kind < COLLECTIVES && uneven[call->kind] != NULL)
        return uneven[call->kind];
    return collective_name(call->kind);
}

static void describe(const struct call *call, const char *op_name, char text[CALL_TEXT_BYTES])
{
    if (call->kind >= COLLECTIVES) {
        snprintf(text, CALL_TEXT_BYTES, "an unknown operation");
        return;
    }
    if (call->kind == COLLECTIVE_BARRIER) {
        snprintf(text, CALL_TEXT_BYTES, "%s", collective_name(call->kind));
        return;
    }
    char op[MADE_OP_NAME_BYTES + 8] = "", root[32] = "";
    if (collective_reduces(call->kind))
        snprintf(op, sizeof op, ", %s", op_name);
    if (collective_has_root(call->kind))
        snprintf(root, sizeof root, ", root %d", call->root);
    snprintf(text, CALL_TEXT_BYTES, "%s of %zu %s%s%s", call_operation(call),
             call->layout != NULL ? call->layout->total : call->count, plait_type_name(call->type), op, root);
}

void call_describe(const struct call *call, char text[CALL_TEXT_BYTES])
{
    describe(call, call->made != NULL ? call->made->name : plait_op_name(call->op), text);
}

void call_describe_packed(const unsigned char bytes[CALL_BYTES], char text[CALL_TEXT_BYTES])
{
    struct packed_call packed;
    memcpy(&packed, bytes, sizeof packed);
    packed.name[sizeof packed.name - 1] = '\0'; /* a peer's bytes */
    struct call call = call_unpack(bytes);
    describe(&call,
             packed.function     ? packed.name
             : packed.multiplied ? "pre-multiplied sum"
                                 : plait_op_name(call.op),
             text);
}
