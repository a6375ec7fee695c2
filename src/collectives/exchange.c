#include "collectives/exchange.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

static uint64_t expected(const struct group *group, int to, int from)
{
    size_t ranks = (size_t)group->ranks;
    return group->exchange->rows[((size_t)to * 2 + 1) * ranks + (size_t)from];
}

/* This rank's counts: a gatherv's input goes to the root, a scatterv's output comes from there. */
static void fill_row(const struct call *call, int ranks, int me, uint64_t *row)
{
    int inputs = collective_input_blocks(call->kind, ranks, call->root, me);
    int outputs = collective_output_blocks(call->kind, ranks, call->root, me);
    memset(row, 0, 2 * (size_t)ranks * sizeof *row);
    for (int block = 0; block < inputs; block++)
        row[inputs == 1 && call->kind == COLLECTIVE_GATHER ? call->root : block] =
            layout_block(call->layout, LAYOUT_INPUT, block).count;
    for (int block = 0; block < outputs; block++)
        row[ranks + (outputs == 1 && call->kind == COLLECTIVE_SCATTER ? call->root : block)] =
            layout_block(call->layout, LAYOUT_OUTPUT, block).count;
}

plait_status exchange_prepare(struct group *group, const struct call *call, struct call *first)
{
    size_t ranks = (size_t)group->ranks, each = 2 * ranks;
    if (group->exchange == NULL) {
        group->exchange = malloc(sizeof *group->exchange + ranks * each * sizeof(uint64_t));
        if (group->exchange == NULL)
            return failure(PLAIT_OUT_OF_MEMORY, "no memory for the counts of %d ranks", group->ranks);
    }
    uint64_t *rows = group->exchange->rows, *mine = rows + (size_t)group->rank * each;
    group->exchange->whole = *call;
    fill_row(call, group->ranks, group->rank, mine);
    *first = (struct call){
        .kind = COLLECTIVE_ALLGATHER, .type = PLAIT_U64, .count = each, .input = mine, .output = rows
    };
    /* The print of such a call does not tell the counts, so what stands in the notices from an earlier one of
     * the same print may show other counts. */
    group->prints[0] = group->prints[1] = 0;
    return PLAIT_OK;
}

/* Does anything go from one rank to the other in such a call? */
static bool pairs(const struct call *call, int from, int to)
{
    switch (call->kind) {
    case COLLECTIVE_GATHER: return to == call->root;
    case COLLECTIVE_SCATTER: return from == call->root;
    default: return true;
    }
}

plait_status exchange_conclude(const struct group *group, uint64_t number, int *culprit)
{
    struct call *whole = &group->exchange->whole;
    size_t longest = 0;
    for (int from = 0; from < group->ranks; from++) {
        for (int to = 0; to < group->ranks; to++) {
            if (!pairs(whole, from, to))
                continue;
            size_t sent = exchange_moved(group, from, to), wanted = expected(group, to, from);
            if (sent != wanted) {
                *culprit = from;
                return failure(
                    PLAIT_MISMATCH,
                    "operation %llu, %s of %s, differs between ranks: rank %d sends %zu elements to "
                    "rank %d, which expects %zu; it fails on all ranks and no output was touched",
                    (unsigned long long)number, call_operation(whole), plait_type_name(whole->type), from,
                    sent, to, wanted);
            }
            longest = sent > longest ? sent : longest;
        }
    }
    whole->count = longest;
    return PLAIT_OK;
}
