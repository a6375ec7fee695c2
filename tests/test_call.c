/* Calls: fingerprints, bytes that a peer wrote, texts. */
#include "check.h"

#include <string.h>

#include "fault/call.h"

/* Every call differs from every other in one thing at least. */
static const struct call calls[] = {
    { .kind = COLLECTIVE_BARRIER },
    { .kind = COLLECTIVE_ALLREDUCE, .type = PLAIT_F32, .op = PLAIT_SUM, .count = 0 },
    { .kind = COLLECTIVE_ALLREDUCE, .type = PLAIT_F32, .op = PLAIT_SUM, .count = 1 },
    { .kind = COLLECTIVE_ALLREDUCE, .type = PLAIT_F32, .op = PLAIT_SUM, .count = (size_t)1 << 32 },
    { .kind = COLLECTIVE_ALLREDUCE, .type = PLAIT_F32, .op = PLAIT_SUM, .count = ((size_t)1 << 32) + 1 },
    { .kind = COLLECTIVE_ALLREDUCE, .type = PLAIT_I32, .op = PLAIT_SUM, .count = 1 },
    { .kind = COLLECTIVE_ALLREDUCE, .type = PLAIT_F32, .op = PLAIT_AVERAGE, .count = 1 },
    { .kind = COLLECTIVE_REDUCE, .type = PLAIT_F32, .op = PLAIT_SUM, .count = 1 },
    { .kind = COLLECTIVE_REDUCE, .type = PLAIT_F32, .op = PLAIT_SUM, .root = 1, .count = 1 },
    { .kind = COLLECTIVE_BROADCAST, .type = PLAIT_U8, .root = 65536, .count = 1 },
    { .kind = COLLECTIVE_BROADCAST, .type = PLAIT_U8, .root = 0, .count = 65536 },
    { .kind = COLLECTIVE_SCATTER, .type = PLAIT_BF16, .root = 3, .count = 77 },
    { .kind = COLLECTIVE_GATHER, .type = PLAIT_BF16, .root = 3, .count = 77 },
    { .kind = COLLECTIVE_ALLTOALL, .type = PLAIT_F64, .count = 5 },
    { .kind = COLLECTIVE_ALLTOALL, .type = PLAIT_F64, .count = 5, .uneven = true },
    { .kind = COLLECTIVE_SCAN, .type = PLAIT_F32, .op = PLAIT_SUM, .count = 1 },
    { .kind = COLLECTIVE_EXSCAN, .type = PLAIT_F32, .op = PLAIT_SUM, .count = 1 },
};

static void prints_tell_calls_apart(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTH(calls); i++) {
        struct call same = calls[i];
        same.input = &same;
        same.output = &same;
        assert_true(call_print(&calls[i]) == call_print(&same));
        assert_true(call_print(&calls[i]) != 0);
        for (size_t j = 0; j < i; j++)
            assert_true(call_print(&calls[i]) != call_print(&calls[j]));
    }
}

static void what_is_packed_comes_out(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTH(calls); i++) {
        unsigned char bytes[CALL_BYTES] = { 0 };
        call_pack(&calls[i], bytes);
        struct call call = call_unpack(bytes);
        assert_true(call_print(&call) == call_print(&calls[i]));
        assert_null(call.input);
        assert_null(call.output);
    }
}

/* A peer may have written anything. */
static void any_bytes_can_be_described(void **state)
{
    (void)state;
    uint64_t random = 1;
    for (int i = 0; i < 5000; i++) {
        unsigned char bytes[CALL_BYTES];
        char text[CALL_TEXT_BYTES + 1];
        for (size_t j = 0; j < sizeof bytes; j++) {
            random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
            bytes[j] = i % 3 == 0 ? 0xff : i % 3 == 1 && j % 4 != 0 ? 0 : (unsigned char)(random >> 56);
        }
        struct call call = call_unpack(bytes);
        memset(text, '!', sizeof text);
        unsigned char other[CALL_BYTES] = { bytes[0], bytes[1], bytes[2], bytes[3] };
        memcpy(other + 28, bytes + 28, 4); /* as many ranks */
        call_compare_counts(bytes, other, text);
        assert_true(strlen(text) < CALL_TEXT_BYTES);
        call_describe(&call, text);
        assert_true(strlen(text) > 0 && strlen(text) < CALL_TEXT_BYTES);
        assert_int_equal(text[CALL_TEXT_BYTES], '!');
    }
}

static const struct {
    struct call call;
    const char *text;
} texts[] = {
    { { .kind = COLLECTIVE_BARRIER }, "barrier" },
    { { .kind = COLLECTIVE_ALLREDUCE, .type = PLAIT_F32, .op = PLAIT_SUM, .count = 1024 },
      "all-reduce of 1024 f32, sum" },
    { { .kind = COLLECTIVE_REDUCE, .type = PLAIT_BF16, .op = PLAIT_AVERAGE, .root = 2, .count = 1 },
      "reduce of 1 bf16, average, root 2" },
    { { .kind = COLLECTIVE_BROADCAST, .type = PLAIT_U8, .count = 9 }, "broadcast of 9 u8, root 0" },
    { { .kind = COLLECTIVE_ALLTOALL, .type = PLAIT_I64, .count = 0 }, "all-to-all of 0 i64" },
    { { .kind = COLLECTIVE_GATHER, .type = PLAIT_U8, .root = 1, .count = 37, .uneven = true },
      "gatherv of 37 u8, root 1" },
    { { .kind = COLLECTIVE_EXSCAN, .type = PLAIT_F64, .op = PLAIT_MAX, .count = 3 },
      "exclusive scan of 3 f64, max" },
    { { .kind = COLLECTIVES }, "an unknown operation" },
};

static void texts_are_for_people(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTH(texts); i++) {
        char text[CALL_TEXT_BYTES];
        call_describe(&texts[i].call, text);
        assert_string_equal(text, texts[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prints_tell_calls_apart),
        cmocka_unit_test(what_is_packed_comes_out),
        cmocka_unit_test(any_bytes_can_be_described),
        cmocka_unit_test(texts_are_for_people),
    };
    return cmocka_run_group_tests_name("call", tests, NULL, NULL);
}
