/* Statuses, their remedies, and the thread's sentence. */
#include "check.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/status.h"

static const struct {
    plait_status status;
    const char *name;
    plait_remedy remedy;
} statuses[] = {
    { PLAIT_OK, "PLAIT_OK", PLAIT_REMEDY_NONE },
    { PLAIT_IN_PROGRESS, "PLAIT_IN_PROGRESS", PLAIT_REMEDY_NONE },
    { PLAIT_INVALID_ARGUMENT, "PLAIT_INVALID_ARGUMENT", PLAIT_REMEDY_MEND_CALL },
    { PLAIT_INVALID_USAGE, "PLAIT_INVALID_USAGE", PLAIT_REMEDY_MEND_CALL },
    { PLAIT_INVALID_SETTING, "PLAIT_INVALID_SETTING", PLAIT_REMEDY_MEND_CALL },
    { PLAIT_UNSUPPORTED, "PLAIT_UNSUPPORTED", PLAIT_REMEDY_MEND_CALL },
    { PLAIT_OUT_OF_MEMORY, "PLAIT_OUT_OF_MEMORY", PLAIT_REMEDY_RETRY },
    { PLAIT_OUT_OF_RESOURCES, "PLAIT_OUT_OF_RESOURCES", PLAIT_REMEDY_RETRY },
    { PLAIT_SYSTEM_ERROR, "PLAIT_SYSTEM_ERROR", PLAIT_REMEDY_RETRY },
    { PLAIT_MISMATCH, "PLAIT_MISMATCH", PLAIT_REMEDY_GO_ON },
    { PLAIT_TRUNCATED, "PLAIT_TRUNCATED", PLAIT_REMEDY_GO_ON },
    { PLAIT_TIMED_OUT, "PLAIT_TIMED_OUT", PLAIT_REMEDY_REBUILD },
    { PLAIT_PEER_LOST, "PLAIT_PEER_LOST", PLAIT_REMEDY_REBUILD },
    { PLAIT_ABORTED, "PLAIT_ABORTED", PLAIT_REMEDY_REBUILD },
    { PLAIT_START_FAILED, "PLAIT_START_FAILED", PLAIT_REMEDY_REBUILD },
    { PLAIT_INTERNAL, "PLAIT_INTERNAL", PLAIT_REMEDY_REPORT },
    { (plait_status)-999, "PLAIT_UNKNOWN_STATUS", PLAIT_REMEDY_REPORT },
    { (plait_status)2, "PLAIT_UNKNOWN_STATUS", PLAIT_REMEDY_REPORT },
};

static void every_status_has_a_name_and_a_remedy(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTH(statuses); i++) {
        assert_string_equal(plait_status_name(statuses[i].status), statuses[i].name);
        assert_int_equal(plait_status_remedy(statuses[i].status), statuses[i].remedy);
    }
}

static const struct {
    int error;
    plait_status status;
} errors[] = {
    { ENOMEM, PLAIT_OUT_OF_MEMORY },    { ENOSPC, PLAIT_OUT_OF_MEMORY },
    { EMFILE, PLAIT_OUT_OF_RESOURCES }, { ENFILE, PLAIT_OUT_OF_RESOURCES },
    { EAGAIN, PLAIT_OUT_OF_RESOURCES }, { EACCES, PLAIT_SYSTEM_ERROR },
    { 0, PLAIT_SYSTEM_ERROR },
};

static void errors_have_statuses(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTH(errors); i++)
        assert_int_equal(status_of_errno(errors[i].error), errors[i].status);
}

static void *read_sentence(void *argument)
{
    (void)argument;
    return (void *)(uintptr_t)(plait_last_error()[0] == '\0');
}

static void a_sentence_is_its_threads_own(void **state)
{
    (void)state;
    pthread_t thread;
    void *empty = NULL;
    assert_int_equal(failure(PLAIT_TIMED_OUT, "%d of %s", 3, "five"), PLAIT_TIMED_OUT);
    assert_string_equal(plait_last_error(), "3 of five");
    assert_int_equal(pthread_create(&thread, NULL, read_sentence, NULL), 0);
    pthread_join(thread, &empty);
    assert_non_null(empty);
    assert_string_equal(plait_last_error(), "3 of five");
}

static void a_sentence_may_quote_the_one_before(void **state)
{
    (void)state;
    failure(PLAIT_INTERNAL, "inner");
    failure(PLAIT_INTERNAL, "outer: %s", plait_last_error());
    assert_string_equal(plait_last_error(), "outer: inner");
}

static void long_sentences_are_cut(void **state)
{
    (void)state;
    char text[4000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    failure(PLAIT_INTERNAL, "%s", text);
    assert_in_range(strlen(plait_last_error()), 100, 2000);
    failure_errno(PLAIT_SYSTEM_ERROR, ENOENT, "%s", text);
    assert_non_null(strstr(plait_last_error(), "(ENOENT)"));
}

static void a_system_calls_failure_names_the_error(void **state)
{
    (void)state;
    assert_int_equal(failure_errno(PLAIT_SYSTEM_ERROR, ENOENT, "can't open %s", "it"), PLAIT_SYSTEM_ERROR);
    assert_string_equal(plait_last_error(), "can't open it: No such file or directory (ENOENT)");
    failure_errno(PLAIT_SYSTEM_ERROR, 99999, "strange");
    assert_non_null(strstr(plait_last_error(), "(unknown)"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_a_name_and_a_remedy),
        cmocka_unit_test(errors_have_statuses),
        cmocka_unit_test(a_sentence_is_its_threads_own),
        cmocka_unit_test(a_sentence_may_quote_the_one_before),
        cmocka_unit_test(long_sentences_are_cut),
        cmocka_unit_test(a_system_calls_failure_names_the_error),
    };
    return cmocka_run_group_tests_name("status", tests, NULL, NULL);
}
