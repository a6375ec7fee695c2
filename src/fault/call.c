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
    uint64_t shape = (uint64_t)call->kind | (uint64_t)call->type << 8 | (uint64_t)call->op << 16 |
                     (uint64_t)(uint32_t)call->root << 32;
    return mix(mix(shape) ^ call->count);
}

struct packed_call {
    uint32_t kind, type, op, root;
    uint64_t count;
};
_Static_assert(sizeof(struct packed_call) <= CALL_BYTES, "a packed call fits its line");

void call_pack(const struct call *call, unsigned char bytes[CALL_BYTES])
{
    struct packed_call packed = { .kind = (uint32_t)call->kind,
                                  .type = (uint32_t)call->type,
                                  .op = (uint32_t)call->op,
                                  .root = (uint32_t)call->root,
                                  .count = call->count };
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
                          .count = packed.count };
}

void call_describe(const struct call *call, char text[CALL_TEXT_BYTES])
{
    if (call->kind >= COLLECTIVES) {
        snprintf(text, CALL_TEXT_BYTES, "an unknown operation");
        return;
    }
    if (call->kind == COLLECTIVE_BARRIER) {
        snprintf(text, CALL_TEXT_BYTES, "%s", collective_name(call->kind));
        return;
    }
    char op[32] = "", root[32] = "";
    if (collective_reduces(call->kind))
        snprintf(op, sizeof op, ", %s", plait_op_name(call->op));
    if (collective_has_root(call->kind))
        snprintf(root, sizeof root, ", root %d", call->root);
    snprintf(text, CALL_TEXT_BYTES, "%s of %zu %s%s%s", collective_name(call->kind), call->count,
             plait_type_name(call->type), op, root);
}
