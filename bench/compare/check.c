#include "check.h"

#include <stdint.h>
#include <string.h>

/* Moved data repeats after 199 elements (a prime, so a block in the wrong place shows), summed data
 * after 7, so that the sum of 16 ranks is below 256 and exact in bfloat16. */
enum { MOVED = 199, SUMMED = 7, PERIOD = MOVED * SUMMED, ALL = -1, POISON = 0xa5 };

static int value(bool reduces, size_t index, int rank, int ranks)
{
    int own = (int)(index % (reduces ? SUMMED : MOVED));
    return rank == ALL ? ranks * own + ranks * (ranks - 1) / 2 : own + rank;
}

static void encode(enum type type, float number, unsigned char *to)
{
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    uint16_t half = (uint16_t)(bits >> 16);
    if (type == FLOAT32)
        memcpy(to, &bits, sizeof bits);
    else
        memcpy(to, &half, sizeof half);
}

/* One period of the data of `rank`, which begins with element `first`. Returns its bytes. */
static size_t make_period(const struct call *call, size_t first, int rank, int ranks, unsigned char *period)
{
    size_t size = type_size(call->type);
    for (size_t i = 0; i < PERIOD; i++)
        encode(call->type, (float)value(call_reduces(call->collective), first + i, rank, ranks),
               period + i * size);
    return PERIOD * size;
}

static void fill(const struct call *call, void *to, size_t first, size_t count, int rank)
{
    unsigned char period[PERIOD * sizeof(float)];
    size_t length = make_period(call, first, rank, 1, period), size = count * type_size(call->type);
    for (size_t done = 0; done < size; done += length)
        memcpy((unsigned char *)to + done, period, size - done < length ? size - done : length);
}

static bool equals(const struct call *call, const void *from, size_t first, size_t count, int rank, int ranks)
{
    unsigned char period[PERIOD * sizeof(float)];
    size_t length = make_period(call, first, rank, ranks, period), size = count * type_size(call->type);
    for (size_t done = 0; done < size; done += length)
        if (memcmp((const unsigned char *)from + done, period, size - done < length ? size - done : length))
            return false;
    return true;
}

void check_fill(const struct call *call, int rank, int ranks)
{
    size_t block = call->count * type_size(call->type);
    unsigned char *output = call->output;
    switch (call->collective) {
    case ALL_REDUCE: fill(call, output, 0, call->count, rank); break;
    case REDUCE_SCATTER: fill(call, output, 0, call->count * (size_t)ranks, rank); break;
    case ALL_GATHER:
        memset(output, POISON, block * (size_t)ranks);
        fill(call, output + block * (size_t)rank, 0, call->count, rank);
        break;
    case BROADCAST:
        memset(output, POISON, block);
        if (rank == call->root)
            fill(call, output, 0, call->count, rank);
        break;
    case ALL_TO_ALL:
        memset(output, POISON, block * (size_t)ranks);
        fill(call, (void *)call->input, 0, call->count * (size_t)ranks, rank);
        break;
    default: break;
    }
}

static bool check_blocks(const struct call *call, const unsigned char *output, size_t first, int ranks)
{
    size_t block = call->count * type_size(call->type);
    bool right = true;
    for (int from = 0; from < ranks; from++)
        right = right && equals(call, output + block * (size_t)from, first, call->count, from, ranks);
    return right;
}

bool check_output(const struct call *call, const void *output, int rank, int ranks)
{
    switch (call->collective) {
    case ALL_REDUCE: return equals(call, output, 0, call->count, ALL, ranks);
    case REDUCE_SCATTER: return equals(call, output, call->count * (size_t)rank, call->count, ALL, ranks);
    case ALL_GATHER: return check_blocks(call, output, 0, ranks);
    case BROADCAST: return equals(call, output, 0, call->count, call->root, ranks);
    case ALL_TO_ALL: return check_blocks(call, output, call->count * (size_t)rank, ranks);
    default: return true;
    }
}
