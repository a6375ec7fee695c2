#include "streams.h"

#include "calls.h"
#include "check.h"

void stream_everything(struct rank *rank)
{
    const int calls = 12 * test_settings()->scale;
    struct trial trial;
    if (!rank_check(rank, trial_open(&trial, DATA_MOST_SIZE * 5000, rank->size), "no memory"))
        return;
    bool good = true;
    for (int i = 0; i < calls && good; i++) {
        const uint64_t random =
            mix(test_settings()->seed * 1000003 + (uint64_t)(i * RANKS_MOST + rank->size));
        struct call call = {
            .kind = (enum call_kind)(random % CALL_KINDS),
            .root = (int)(random >> 24 & 0xff) % rank->size,
            .count = (random >> 32 & 1) ? (random >> 33) % 20 : (random >> 33) % 5000,
        };
        data_choose(random, call_reduces(call.kind), &call.type, &call.op);
        struct layout layout = layout_drawn(call.kind, mix(random));
        good = trial_run(rank, &trial, rank->comm, &call, &layout, random);
    }
    trial_close(&trial);
}

void stream_small(struct rank *rank)
{
    const int calls = 60 * test_settings()->scale;
    for (int i = 0; i < calls; i++) {
        int64_t value = (int64_t)i * 1000 + rank->number, sum = 0;
        const int64_t wanted = ((int64_t)i * 1000 * 2 + rank->size - 1) * rank->size / 2;
        rank_doing(rank, "small all-reduce %d of %d", i, calls);
        if (!rank_ok(rank, plait_allreduce(rank->comm, &value, &sum, 1, PLAIT_I64, PLAIT_SUM, NULL),
                     "all-reduce") ||
            !rank_check(rank, sum == wanted, "all-reduce %d gave %lld, not %lld", i, (long long)sum,
                        (long long)wanted))
            return;
    }
}

void stream_repeats(struct rank *rank)
{
    static const plait_type types[] = { PLAIT_F16, PLAIT_BF16, PLAIT_F32, PLAIT_F64 };
    static const size_t sizes[] = { 3, 1000, 40000 };
    uint64_t *sums = rank->shared;
    struct trial trial;
    if (!rank_check(rank, trial_open(&trial, 40000 * 8, rank->size), "no memory"))
        return;
    for (int i = 0; i < 4 * 3; i++) {
        struct call call = { CALL_ALLREDUCE, types[i % 4], PLAIT_SUM, 0, sizes[i / 4] };
        struct layout layout = { .in_place = false };
        uint64_t first = 0;
        for (int turn = 0; turn < 6; turn++) {
            if (mix((uint64_t)(turn * 10 + rank->number)) % 3 == 0)
                sleep_ms(1);
            if (!trial_run(rank, &trial, rank->comm, &call, &layout, (uint64_t)i))
                goto cleanup;
            first = turn == 0 ? trial_output_sum(&trial) : first;
            if (!rank_check(rank, trial_output_sum(&trial) == first,
                            "turn %d of the same call gave other bits", turn))
                goto cleanup;
        }
        sums[rank->number] = first;
        if (!rank_meet(rank) || !rank_check(rank, sums[0] == first, "the bits differ from rank 0's") ||
            !rank_meet(rank))
            goto cleanup;
    }

cleanup:
    trial_close(&trial);
}

void stream_large(struct rank *rank)
{
    static const struct call calls[] = {
        { CALL_ALLREDUCE, PLAIT_F32, PLAIT_SUM, 0, 1048583 },
        { CALL_ALLREDUCE, PLAIT_BF16, PLAIT_AVERAGE, 0, 786433 },
        { CALL_REDUCE, PLAIT_I32, PLAIT_MAX, 1, 524309 },
        { CALL_BROADCAST, PLAIT_U8, PLAIT_SUM, 1, 3145739 },
        { CALL_ALLGATHER, PLAIT_F64, PLAIT_SUM, 0, 131101 },
        { CALL_REDUCE_SCATTER, PLAIT_F16, PLAIT_SUM, 0, 262147 },
        { CALL_GATHER, PLAIT_U32, PLAIT_SUM, 0, 262147 },
        { CALL_SCATTER, PLAIT_I64, PLAIT_SUM, 1, 131101 },
        { CALL_ALLTOALL, PLAIT_F32, PLAIT_SUM, 0, 262147 },
        { CALL_SCAN, PLAIT_BF16, PLAIT_SUM, 0, 524309 },
        { CALL_EXSCAN, PLAIT_F32, PLAIT_MAX, 0, 262147 },
    };
    struct trial trial;
    if (!rank_check(rank, trial_open(&trial, 4u << 20, rank->size), "no memory"))
        return;
    bool good = true;
    for (size_t i = 0; i < LENGTH(calls) && good; i++)
        for (unsigned shift = 0; shift < 2 && good; shift++) {
            struct call call = calls[i];
            struct layout layout = { .in_place = shift && call_has_in_place(call.kind),
                                     .input_shift = shift,
                                     .output_shift = 3 * shift,
                                     .input_upper = true,
                                     .output_upper = true };
            call.count /= ranks_slowness() > 1 ? 5 : rank->size > 3 ? 2 : 1;
            good = trial_run(rank, &trial, rank->comm, &call, &layout, i);
        }
    trial_close(&trial);
}
