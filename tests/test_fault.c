/* Fault records: sentences, and copies for callers of other versions. */
#include "check.h"

#include <string.h>

#include "base/status.h"
#include "fault/fault.h"

static const struct culprit somebody = { .rank = 2, .pid = 99, .host = "h" }, nobody = { .rank = -1 };

static const struct {
    plait_fault_kind kind;
    const struct culprit *culprit;
    uint64_t number;
    const char *call, *evidence, *sentence;
} sentences[] = {
    { PLAIT_FAULT_DIED, &somebody, 4711, "all-reduce of 8 f32, sum", "its process is gone",
      "world, operation 4711, all-reduce of 8 f32, sum: rank 2 (pid 99 on h) died: its process is gone" },
    { PLAIT_FAULT_LEFT, &somebody, 0, "send of 4 bytes", "",
      "world, send of 4 bytes: rank 2 (pid 99 on h) left the world" },
    { PLAIT_FAULT_NOT_ENTERED, &somebody, 1, "barrier", "late",
      "world, operation 1, barrier: rank 2 (pid 99 on h) has not made the call: late" },
    { PLAIT_FAULT_ABORTED, &somebody, 0, NULL, "why", "world: rank 2 (pid 99 on h) aborted: why" },
    { PLAIT_FAULT_STUCK, &nobody, 3, "barrier", NULL,
      "world, operation 3, barrier: it is not known who is to blame" },
};

static void sentences_say_all_of_it(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTH(sentences); i++) {
        struct fault_record record;
        fault_write(&record, sentences[i].kind, PLAIT_PEER_LOST, sentences[i].culprit, "world",
                    sentences[i].number, "operation", sentences[i].call, sentences[i].evidence);
        assert_string_equal(record.sentence, sentences[i].sentence);
        assert_int_equal(record.fault.kind, sentences[i].kind);
        assert_int_equal(record.fault.culprit, sentences[i].culprit->rank);
    }
}

static void long_parts_are_cut(void **state)
{
    (void)state;
    static char text[5000];
    memset(text, 'z', sizeof text - 1);
    struct culprit culprit = { .rank = 1, .pid = 2, .host = text };
    struct fault_record record;
    fault_write(&record, PLAIT_FAULT_DIED, PLAIT_PEER_LOST, &culprit, text, UINT64_MAX, text, text, text);
    assert_int_equal(strlen(record.fault.host), sizeof record.fault.host - 1);
    assert_int_equal(strlen(record.fault.call), sizeof record.fault.call - 1);
    assert_int_equal(strlen(record.fault.evidence), sizeof record.fault.evidence - 1);
    assert_true(strlen(record.sentence) < sizeof record.sentence);
}

static void copies_fit_the_callers_struct(void **state)
{
    (void)state;
    struct fault_record record;
    fault_write(&record, PLAIT_FAULT_DIED, PLAIT_PEER_LOST, &somebody, "world", 7, "barrier", "barrier",
                "gone");
    struct {
        plait_fault fault;
        unsigned char more[64];
    } room;
    const size_t sizes[] = { offsetof(plait_fault, status), offsetof(plait_fault, host), sizeof room.fault,
                             sizeof room };
    for (size_t i = 0; i < LENGTH(sizes); i++) {
        memset(&room, 0xee, sizeof room);
        room.fault.struct_size = sizes[i];
        assert_int_equal(fault_give(&record, &room.fault), PLAIT_OK);
        assert_int_equal(room.fault.struct_size, sizes[i]);
        assert_int_equal(room.fault.kind, PLAIT_FAULT_DIED);
        const unsigned char *bytes = (const unsigned char *)&room;
        for (size_t j = sizes[i]; j < sizeof room; j++)
            assert_int_equal(bytes[j], 0xee);
        for (size_t j = sizeof room.fault; j < sizes[i]; j++)
            assert_int_equal(bytes[j], 0);
    }
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    struct fault_record record = { 0 };
    plait_fault fault;
    const size_t sizes[] = { 0, 1, sizeof(size_t), offsetof(plait_fault, status) - 1, 65537, SIZE_MAX };
    assert_int_equal(fault_give(&record, NULL), PLAIT_INVALID_ARGUMENT);
    for (size_t i = 0; i < LENGTH(sizes); i++) {
        fault.struct_size = sizes[i];
        assert_int_equal(fault_give(&record, &fault), PLAIT_INVALID_ARGUMENT);
        assert_non_null(strstr(failure_text(), "struct_size"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sentences_say_all_of_it),
        cmocka_unit_test(long_parts_are_cut),
        cmocka_unit_test(copies_fit_the_callers_struct),
        cmocka_unit_test(nonsense_is_refused),
    };
    return cmocka_run_group_tests_name("fault", tests, NULL, NULL);
}
